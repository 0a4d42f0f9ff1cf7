"""One's own questions: free charts, where what stands on each axis is the reader's choice; and one
read-only question in SQL on the documented views."""

import functools
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers import explore
from answers.compare.values import metric_name
from dashboard import turns
from dashboard.charts import Drawing, specification
from dashboard.charts.data import PICKED, axes, panel
from dashboard.components import (
    TABLE_ROWS,
    badged,
    copied,
    errors_told,
    explanation,
    fold,
    plain,
    shown,
    table,
)
from dashboard.doors.access import client
from dashboard.downloads import charts_menu, rows_menu
from dashboard.filters import nothing
from dashboard.links import LINK_COLUMNS, linked
from dashboard.shelf import Shelf, ask, cached, frame
from warehouse.catalogue import METRICS, PERCENTILES, counted, percentile_label
from warehouse.filters import Filters
from warehouse.storage.question import VIEWS, Bounds, QuestionAnswer
from warehouse.storage.question import ask as ask_sql

# --- The free charts.


#: Charts that fit side by side, and panels on the page.
_MOST, _PANELS = 3, 6
_LABELS = {metric.label: key for key, metric in METRICS.items()}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}
_NONE = "one panel"
#: What the charts show at first: throughput, what it costs in latency, and why.
_FIRST = ("output_throughput", "ttft", "mean_acceptance_length")


def free_charts(shelf: Shelf, filters: Filters) -> None:
    """Draw as many charts side by side as the reader asks for."""
    top = st.container()
    number = st.segmented_control(
        "Charts side by side", list(range(1, _MOST + 1)), default=1, required=True, key="charts",
        bind="query-params",
    )  # fmt: skip
    count = int(number or 1)
    for which, place in enumerate(st.columns(count), 1):
        with place:
            _chart(shelf, filters, which, count, top)


def _chart(shelf: Shelf, filters: Filters, which: int, count: int, top: DeltaGenerator) -> None:
    pick = _pick(which, count)
    most = _PANELS // count
    known = ask(shelf, explore.marks, pick, filters, most)
    # How the number is calculated, and how cells become a mark.
    how = (
        f"{explanation(METRICS[pick.y.metric], pick.y.statistic)}\n\nA mark is the {pick.how} of its "
        "cells; its line reaches from the lowest to the highest."
    )
    (top.header if which == 1 else st.markdown)(plain(known.headline), help=how)
    if not known.panels and not ask(shelf, explore.cells, pick, filters, (), TABLE_ROWS).total:
        nothing(shelf)
        return
    drawings = _drawings(shelf, pick, filters, most)
    wide = max(min(3 if count == 1 else 1, len(known.panels)), 1)
    clicked: list[explore.Clicked] = []
    for start in range(0, len(known.panels), wide):
        row = known.panels[start : start + wide]
        for place, one in zip(st.columns(wide), row, strict=False):
            event = place.vega_lite_chart(
                drawings[one.name], on_select="rerun", alt=explore.alternative(one, pick),
                key=f"marks-{zlib.crc32(f'{which}-{one.name}-{pick}'.encode())}",
            )  # fmt: skip
            along = "load" if isinstance(pick.x, explore.Measure) else "x"
            clicked += [
                explore.Clicked(one.name, str(mark.get("series")), mark.get(along))
                for mark in (event["selection"].get(PICKED, []) if event else [])
            ]
    with top:
        badged(known.badges)
    for note in known.notes:
        st.caption(plain(note))
    charts_menu(f"explore-chart-{which}", drawings)
    if clicked:
        st.markdown("The cells behind the marks that are clicked:")
    else:
        st.caption("Click a mark (with shift: several) to see its cells only.")
    marks = tuple(clicked)
    cells = ask(shelf, explore.cells, pick, filters, marks, TABLE_ROWS)
    table(replace(linked(cell_rows(cells.first, pick)), total=cells.total), "cells", LINK_COLUMNS)
    every = functools.partial(explore.cells, shelf.reader, pick, filters, marks)
    rows_menu(f"explore-{which}", lambda: cell_rows(every().first, pick))
    with st.expander("The SQL behind"):
        st.caption("Copy it, change it, and ask it under SQL above.")
        copied(explore.marks_sql(pick, filters), "sql")


@cached
def _drawings(shelf: Shelf, pick: explore.Pick, filters: Filters, most: int) -> dict[str, Drawing]:
    known = ask(shelf, explore.marks, pick, filters, most)
    if not known.panels:
        return {}
    shared, titles = axes(known, pick), explore.titles(known, pick)
    return {
        one.name: specification(panel(one, pick, name, shared))
        for one, name in zip(known.panels, titles, strict=True)
    }


def _pick(which: int, count: int) -> explore.Pick:
    rows = st.columns(3) if count == 1 else (st.container(), st.container(), st.container())
    with rows[0]:
        y = _amount(
            "Number",
            f"y{which}",
            _choose("Number", list(_LABELS), f"y{which}", METRICS[_FIRST[which - 1]].label),
        )
    with rows[1]:
        # What the chart stands over: a key, or one of the numbers.
        over = _choose("Over", [*explore.KEYS, *_LABELS], f"x{which}")
        x = explore.KEYS[over] if over in explore.KEYS else _amount("Over", f"x{which}", over)
        panels = _choose("Panels by", [_NONE, *explore.KEYS], f"panels{which}", "Setting")
    with rows[2]:
        series = explore.KEYS[_choose("Colours by", list(explore.KEYS), f"colours{which}", "Arm")]
        how = _choose("Cells of one mark, pooled by", list(explore.AGGREGATIONS), f"pooled{which}")
    return explore.Pick(y, x, series, explore.KEYS.get(panels), how)


def _amount(label: str, name: str, metric_label: str) -> explore.Measure:
    metric = _LABELS[metric_label]
    if not METRICS[metric].distribution:
        return explore.Measure(metric, "mean")
    statistic = _choose(f"{label}: statistic", list(_STATISTICS), f"{name}-statistic", "median")
    return explore.Measure(metric, _STATISTICS[statistic])


def _choose(label: str, options: list[str], name: str, first: str | None = None) -> str:
    chosen: str = st.selectbox(
        label, options, options.index(first) if first else 0, key=name, bind="query-params"
    )
    return chosen


def cell_rows(cells: Sequence[explore.CellBehind], pick: explore.Pick) -> pd.DataFrame:
    names = {
        **({"panel": pick.panel.label} if pick.panel else {}), "series": pick.series.label,
        "x": explore.axis_title(pick.x),
        "y": f"{metric_name(pick.y.metric, pick.y.statistic)}, {METRICS[pick.y.metric].unit}",
        "evidence": "evidence", "cell_id": "cell_id",
    }  # fmt: skip
    return pd.DataFrame({label: [getattr(cell, name) for cell in cells]
                         for name, label in names.items()})  # fmt: skip


# --- The SQL box.


_LONGEST = 8000
_PRESSED = "the question that was run"
#: What people ask that no page answers -> the question.
EXAMPLES = {
    "Cells of each model, dataset and arm": (
        "select model, dataset, arm_label, count(*) as cells, max(started_at) as newest\n"
        "from cells\ngroup by all\norder by cells desc"
    ),
    "Acceptance against time to first token": (
        "select acceptance.dataset, acceptance.arm_label, acceptance.concurrency,\n"
        "    acceptance.rate as acceptance_rate, measurements.value as ttft_p95_ms\n"
        "from acceptance\njoin measurements using (cell_id)\n"
        "where metric = 'ttft' and statistic = 'p95'\norder by all"
    ),
    "Highest number of waiting requests in each cell": (
        "select cell_id, arm_label, dataset, concurrency, max(value) as most_waiting\n"
        "from samples\nwhere name = 'vllm:num_requests_waiting'\n"
        "group by all\norder by most_waiting desc"
    ),
    "Cells that filters would keep": (
        "select cell_id, arm_label, concurrency\nfrom cells\n"
        "semi join chosen(dataset_in := ['code', 'chat'], since := '2026-01-01'::date) using (cell_id)"
    ),
    "Cells with flags": "select name, severity, count(*) as cells\nfrom flags\ngroup by all",
}
_FREE = "write one"
_COLUMNS = (
    "select table_name as view, column_name as column_name, data_type as type\n"
    f"from information_schema.columns\nwhere table_name in {VIEWS} and table_catalog = 'memory'\n"
    "order by table_name, ordinal_position"
)


def sql_box(shelf: Shelf, _: Filters) -> None:
    """Draw the box and the answer. The sidebar's filters do not apply: the question says its own."""
    st.header("Ask the warehouse in SQL")
    st.caption(
        f"One select on the views below; read-only, at most {Bounds().seconds:g} s and "
        f"{Bounds().rows:,} rows. The filters of the sidebar do not apply: a question says its own."
    )
    st.selectbox("Start from", [_FREE, *EXAMPLES], key="example", on_change=_take_example)
    asked = st.text_area(
        "Question", key="sql", bind="query-params", height=170,
        max_chars=_LONGEST, placeholder="select * from cells limit 10",
    )  # fmt: skip
    st.button("Run", on_click=_press)
    # A link fills the box; nothing is run before somebody has read it and pressed.
    if asked and st.session_state.get(_PRESSED) == asked:
        _answer(shelf, asked)
    elif asked and asked.strip():
        st.caption("Not run yet: read the question, then press Run.")
    fold("The views that can be asked", "views",
         lambda: table(shown(_answered(shelf, _COLUMNS).rows.to_pandas()), "columns"))  # fmt: skip


def _press() -> None:
    st.session_state[_PRESSED] = st.session_state["sql"]


def _take_example() -> None:
    st.session_state["sql"] = EXAMPLES.get(st.session_state["example"], "")


def _answer(shelf: Shelf, sql: str) -> None:
    with errors_told():
        with st.spinner("Asking the warehouse", show_time=True):
            found = _answered(shelf, sql)
        rows = named_once(found.rows)
        known = counted(rows.num_rows, "row")
        st.markdown(f"The first {known}; there are more." if found.cut else f"{known}.")
        table(shown(flat(rows)), "rows")
        rows_menu("answer", functools.partial(flat, rows), rows)


def _answered(shelf: Shelf, sql: str) -> QuestionAnswer:
    """Return the answer to a reader's own question. Raises InvalidInput or TooManyWait, one
    sentence."""
    known = _known(repr(shelf), sql)
    if not known:
        place = st.empty()
        with turns.SQL.turn(
            client(),
            lambda before: place.caption(
                f"Waiting: {counted(before, 'question')} before yours; one is answered at a time."
            ),
        ):
            known = known or [ask_sql(shelf.root, sql)]
            place.empty()
        _known(repr(shelf), sql)[:] = known
    return known[0]


@functools.lru_cache(4)
def _known(_shelf: str, _sql: str) -> list[QuestionAnswer]:
    """Return a list for the answer that all sessions share; empty until somebody has the answer.

    The cache may not hold the waiting itself, which draws.
    """
    return []


def named_once(rows: pa.Table) -> pa.Table:
    """Number the columns that share a name: ``n``, ``n (2)``."""
    seen, names = Counter[str](), []
    for name in rows.column_names:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return rows.rename_columns(names)


def flat(rows: pa.Table) -> pd.DataFrame:
    """Return the rows for a table or CSV: what is not a number, text or time becomes text."""
    simple = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string,
        pa.types.is_timestamp, pa.types.is_date,
    )  # fmt: skip
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        elif not any(test(column.type) for test in simple):
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            column = pa.array(texts, pa.string())
        columns[name] = column
    return frame(pa.table(columns))
