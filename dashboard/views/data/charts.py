"""The free charts: what stands on each axis is the reader's choice."""

import zlib
from collections.abc import Iterator, Sequence

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.compare.values import metric_name
from answers.explore import read, words
from answers.explore.values import (
    AGGREGATIONS,
    KEYS,
    Amount,
    Behind,
    Clicked,
    Key,
    Panel,
    Pick,
    marks_sql,
)
from dashboard.charts.explore import PICKED, axes, panel
from dashboard.charts.spec import Drawing, specification
from dashboard.components import TABLE_ROWS, Shown, copied, explanation, plain, table
from dashboard.downloads import charts_menu, rows_menu
from dashboard.links import LINK_COLUMNS, linked
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask, cached
from warehouse.catalogue import METRICS, PERCENTILES, percentile_label
from warehouse.filters import Filters

#: Charts that fit side by side, and panels on the page.
_MOST, _PANELS = 3, 6
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
            _chart(shelf, filters, which, count, top)


def _chart(shelf: Shelf, filters: Filters, which: int, count: int, top: DeltaGenerator) -> None:
    pick = _pick(which, count)
    most = _PANELS // count
    known = ask(shelf, read.marks, pick, filters, most)
    if which == 1:
        top.header(plain(known.headline), help=_how(pick))
    else:
        st.markdown(plain(known.headline), help=_how(pick))
    if not known.panels and not ask(shelf, read.cells, pick, filters, (), TABLE_ROWS).total:
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    drawings = _drawings(shelf, pick, filters, most)
    clicked = [
        mark
        for place, one in _places(known.panels, count)
        for mark in _drawn(place, drawings[one.name], (which, pick), one)
    ]
    for text in known.badges:
        top.badge(text, color="gray")
    for note in known.notes:
        st.caption(plain(note))
    charts_menu(f"explore-chart-{which}", drawings)
    _cells(shelf, filters, (which, pick), clicked)
    with st.expander("The SQL behind"):
        st.caption("Copy it, change it, and ask it under SQL above.")
        copied(marks_sql(pick, filters), "sql")


@cached
def _drawings(shelf: Shelf, pick: Pick, filters: Filters, most: int) -> dict[str, Drawing]:
    """Return panel -> its chart, all on one scale."""
    known = ask(shelf, read.marks, pick, filters, most)
    if not known.panels:
        return {}
    shared, titles = axes(known, pick), words.titles(known, pick)
    return {
        one.name: specification(panel(one, pick, name, shared))
        for one, name in zip(known.panels, titles, strict=True)
    }


def _pick(which: int, count: int) -> Pick:
    rows = st.columns(3) if count == 1 else (st.container(), st.container(), st.container())
    with rows[0]:
        y = _amount("Number", f"y{which}", _FIRST[which - 1])
    with rows[1]:
        x = _x(which)
        chosen = _choose("Panels by", [_NONE, *KEYS], f"panels{which}", "Setting")
    with rows[2]:
        series = KEYS[_choose("Colours by", list(KEYS), f"colours{which}", "Arm")]
        how = _choose("Cells of one mark, pooled by", list(AGGREGATIONS), f"pooled{which}")
    return Pick(y, x, series, KEYS.get(chosen), how)


def _x(which: int) -> Key | Amount:
    """Ask what the chart stands over: a key, or one of the numbers."""
    chosen = _choose("Over", [*KEYS, *_LABELS], f"x{which}")
    return KEYS[chosen] if chosen in KEYS else _statistic("Over", f"x{which}", _LABELS[chosen])


def _amount(label: str, name: str, first: str) -> Amount:
    chosen = _choose(label, list(_LABELS), name, METRICS[first].label)
    return _statistic(label, name, _LABELS[chosen])


def _statistic(label: str, name: str, metric: str) -> Amount:
    if not METRICS[metric].distribution:
        return Amount(metric, "mean")
    statistic = _choose(f"{label}: statistic", list(_STATISTICS), f"{name}-statistic", "median")
    return Amount(metric, _STATISTICS[statistic])


def _choose(label: str, options: list[str], name: str, first: str | None = None) -> str:
    index = options.index(first) if first else 0
    chosen: str = st.selectbox(label, options, index=index, key=name, bind="query-params")
    return chosen


def _how(pick: Pick) -> str:
    """Say how the number is calculated, and how cells become a mark."""
    pooled = (
        f"A mark is the {pick.how} of its cells; its line reaches from the lowest to the highest."
    )
    return f"{explanation(METRICS[pick.y.metric], pick.y.statistic)}\n\n{pooled}"


def _places(panels: Sequence[Panel], count: int) -> Iterator[tuple[DeltaGenerator, Panel]]:
    wide = max(min(3 if count == 1 else 1, len(panels)), 1)
    for start in range(0, len(panels), wide):
        yield from zip(st.columns(wide), panels[start : start + wide], strict=False)


def _drawn(
    place: DeltaGenerator, drawing: Drawing, chart: tuple[int, Pick], one: Panel
) -> list[Clicked]:
    """Return the marks that are clicked in a chart."""
    which, pick = chart
    event = place.vega_lite_chart(
        drawing,
        on_select="rerun",
        key=f"marks-{zlib.crc32(f'{which}-{one.name}-{pick}'.encode())}",
        alt=words.alternative(one, pick),
    )
    marks = event.get("selection", {}).get(PICKED, []) if event else []
    along = "load" if isinstance(pick.x, Amount) else "x"
    return [Clicked(one.name, str(mark.get("series")), mark.get(along)) for mark in marks]


def _cells(
    shelf: Shelf, filters: Filters, chart: tuple[int, Pick], clicked: Sequence[Clicked]
) -> None:
    """Draw the cells behind the chart, or behind the marks that are clicked."""
    which, pick = chart
    marks = tuple(clicked)
    if marks:
        st.markdown("The cells behind the marks that are clicked:")
    else:
        st.caption("Click a mark (with shift: several) to see its cells only.")
    cells = ask(shelf, read.cells, pick, filters, marks, TABLE_ROWS)
    first = linked(cell_rows(cells.first, pick))
    table(Shown(first.rows, cells.total), "cells", LINK_COLUMNS)

    def every() -> pd.DataFrame:
        return cell_rows(read.cells(shelf.reader, pick, filters, marks).first, pick)

    rows_menu(f"explore-{which}", every)


def cell_rows(cells: Sequence[Behind], pick: Pick) -> pd.DataFrame:
    """Return the cells of a chart under the names that it gives them."""
    names = {"series": pick.series.label, "x": words.axis_title(pick.x)}
    if pick.panel:
        names = {"panel": pick.panel.label, **names}
    metric = METRICS[pick.y.metric]
    names |= {
        "y": f"{metric_name(pick.y.metric, pick.y.statistic)}, {metric.unit}",
        "evidence": "evidence", "cell_id": "cell_id",
    }  # fmt: skip
    return pd.DataFrame({label: [getattr(cell, name) for cell in cells]
                         for name, label in names.items()})  # fmt: skip
