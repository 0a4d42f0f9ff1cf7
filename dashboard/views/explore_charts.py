"""The free charts of the Explore page: what stands on each axis is the reader's choice."""

import functools
import zlib
from collections.abc import Iterator
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.answers import Drawing
from dashboard.answers import explore as answers_explore
from dashboard.cells import LINK_COLUMNS, linked
from dashboard.charts.explore import PICKED
from dashboard.components import explanation, plain, table
from dashboard.data import explore as data_explore
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.explore_sql import AGGREGATIONS, KEYS, Amount, Key, Pick, marks_sql
from dashboard.shelf import Shelf
from warehouse.catalogue import METRICS, PERCENTILES, percentile_label
from warehouse.filters import Filters

#: Charts that fit side by side.
_MOST = 3
_LABELS = {metric.label: key for key, metric in METRICS.items()}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}
_NONE = "one panel"
#: What the charts show at first: throughput, what it costs in latency, and why.
_FIRST = ("output_throughput", "ttft", "mean_acceptance_length")


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw as many charts side by side as the reader asks for."""
    top = st.container()
    number = st.segmented_control(
        "Charts side by side", list(range(1, _MOST + 1)), default=1, required=True, key="charts",
        bind="query-params",
    )  # fmt: skip
    count = int(number or 1)
    for place, which in zip(st.columns(count), range(1, count + 1), strict=True):
        with place:
            _chart(shelf, filters, which, across=3 if count == 1 else 1, top=top)


def _chart(shelf: Shelf, filters: Filters, which: int, across: int, top: DeltaGenerator) -> None:
    pick = _pick(which, across)
    known = data_explore.marks(shelf, pick, filters)
    if which == 1:
        top.header(plain(known.headline))
    else:
        st.markdown(plain(known.headline))
    st.caption("How is this calculated?", help=_how(pick))
    drawings = data_explore.drawings(shelf, pick, filters)
    picked = {
        panel: _drawn(
            place,
            drawing,
            f"{which}-{panel}-{pick}",
            answers_explore.text_alternative(known, panel, pick),
        )  # fmt: skip
        for place, (panel, drawing) in _places(drawings, across)
    }
    for note in known.notes:
        st.caption(plain(note))
    _cells(shelf, filters, (which, pick), picked)
    _files(drawings, which)
    with st.expander("The SQL behind"):
        st.caption("Copy it, change it, and ask it under SQL above.")
        st.code(marks_sql(pick, filters), language="sql")


def _pick(which: int, across: int) -> Pick:
    rows = st.columns(3) if across > 1 else (st.container(), st.container(), st.container())
    with rows[0]:
        y = _amount("Number", f"y{which}", _FIRST[which - 1])
    with rows[1]:
        x = _x(which)
        panel = _choose("Panels by", [_NONE, *KEYS], f"panels{which}", "Dataset")
    with rows[2]:
        series = KEYS[_choose("Colours by", list(KEYS), f"colours{which}", "Arm")]
        how = _choose("Cells of one mark, pooled by", list(AGGREGATIONS), f"pooled{which}")
    return Pick(y, x, series, KEYS.get(panel), how)


def _amount(label: str, name: str, first: str) -> Amount:
    chosen = METRICS[_LABELS[_choose(label, list(_LABELS), name, METRICS[first].label)]]
    if not chosen.distribution:
        return Amount(chosen.key, "mean")
    statistic = _choose(f"{label}: statistic", list(_STATISTICS), f"{name}-statistic", "median")
    return Amount(chosen.key, _STATISTICS[statistic])


def _x(which: int) -> Key | Amount:
    """A key, or one of the numbers."""
    chosen = _choose("Over", [*KEYS, *_LABELS], f"x{which}")
    if chosen in KEYS:
        return KEYS[chosen]
    metric = METRICS[_LABELS[chosen]]
    if not metric.distribution:
        return Amount(metric.key, "mean")
    statistic = _choose("Over: statistic", list(_STATISTICS), f"x{which}-statistic", "median")
    return Amount(metric.key, _STATISTICS[statistic])


def _choose(label: str, options: list[str], name: str, first: str | None = None) -> str:
    index = options.index(first) if first else 0
    chosen: str = st.selectbox(label, options, index=index, key=name, bind="query-params")
    return chosen


def _how(pick: Pick) -> str:
    """The catalogue's words for the number, and how cells become a mark."""
    pooled = (
        f"A mark is the {pick.how} of its cells; its line reaches from the lowest to the highest."
    )
    return f"{explanation(METRICS[pick.y.metric], pick.y.statistic)}\n\n{pooled}"


def _places(
    drawings: dict[str, Drawing], across: int
) -> Iterator[tuple[DeltaGenerator, tuple[str, Drawing]]]:
    items = list(drawings.items())
    wide = min(across, len(items))
    for start in range(0, len(items), max(wide, 1)):
        yield from zip(st.columns(wide), items[start : start + wide], strict=False)


def _drawn(
    place: DeltaGenerator, drawing: Drawing, name: str, alternative: str
) -> list[dict[str, Any]]:
    """The marks that are clicked in a chart."""
    event = place.vega_lite_chart(
        drawing,
        on_select="rerun",
        key=f"marks-{zlib.crc32(name.encode())}",
        alt=alternative,
    )
    marks: list[dict[str, Any]] = event.get("selection", {}).get(PICKED, []) if event else []
    return marks


def _cells(
    shelf: Shelf,
    filters: Filters,
    chart: tuple[int, Pick],
    picked: dict[str, list[dict[str, Any]]],
) -> None:
    """The cells behind the chart, or behind the marks that are clicked."""
    which, pick = chart
    cells = data_explore.cells_behind(shelf, pick, filters)
    if any(picked.values()):
        cells = answers_explore.clicked(cells, picked, pick)
        st.markdown("The cells behind the marks that are clicked:")
    else:
        st.caption("Click a mark (with shift: several) to see its cells only.")
    rows = answers_explore.table_rows(cells, pick)
    table(linked(rows), "cells", LINK_COLUMNS)
    rows_menu(f"explore-{which}", functools.partial(_same, rows))


def _same(rows: Any) -> Any:
    return rows


def _files(drawings: dict[str, Drawing], which: int) -> None:
    if drawings:
        charts_menu(f"explore-chart-{which}", drawings)
