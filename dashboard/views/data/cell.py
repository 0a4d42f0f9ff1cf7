"""One cell in depth: its requests, its drafts, and its server when somebody asks."""

import streamlit as st

from analysis.server_series import WINDOW_S
from answers.runs import read
from answers.runs.read import CellRow, ServerCurves
from answers.wording import badge, bracketed
from dashboard.charts.requests import acceptance_by_position, distribution
from dashboard.charts.server import CHARTS, over_time, sampled
from dashboard.charts.spec import Drawing, specification
from dashboard.components import folded, listing, table, titled
from dashboard.downloads import charts_menu
from dashboard.palette import arm_colour
from dashboard.shelf import Shelf, ask, cached

_ACROSS = 3
_NUMBERS = {"origin": "origin", "metric": "metric", "statistic": "statistic", "value": "value"}
_SERVER_HELP = (
    "Sampled from the server's own metrics, and each second from the machine, while the cell was "
    "measured. Of several GPUs the slowest clock, the highest temperature and all power. Rates come from what its "
    f"counters grew by in windows of {WINDOW_S:g} s: output = generated tokens / s; acceptance "
    "rate = accepted / drafted tokens; mean acceptance length = 1 + accepted tokens / drafts."
)


def render(shelf: Shelf, cell: CellRow) -> None:
    """Draw the distributions of a cell's requests and acceptance by position; folded the server and
    all numbers."""
    drawings = _requests(shelf, cell)
    if not any("share of requests" in str(drawing) for drawing in drawings):
        st.caption(
            "No requests are held of this cell (its report had none, or they were removed since), so "
            "there is no distribution."
        )
    _side_by_side(drawings, f"The requests of {cell.name}")
    charts_menu("cell", titled(drawings))
    part = folded("The server while it was measured", "server_part")
    if part is not None:
        with part:
            _server(shelf, cell)
    part = folded("Every number of this cell", "numbers")
    if part is not None:
        with part:
            table(listing(ask(shelf, read.numbers, cell.cell_id), _NUMBERS), "numbers")


def _side_by_side(drawings: list[Drawing], alternative: str) -> None:
    for start in range(0, len(drawings), _ACROSS):
        row = drawings[start : start + _ACROSS]
        for place, drawing in zip(st.columns(_ACROSS), row, strict=False):
            place.vega_lite_chart(drawing, alt=f"{alternative}: {drawing['title']['text']}")


@cached
def _requests(shelf: Shelf, cell: CellRow) -> list[Drawing]:
    found = ask(shelf, read.requests, cell.cell_id)
    colour, note = arm_colour(cell.arm), badge(cell.evidence)
    return [
        *(specification(distribution(one, colour, note)) for one in found.distributions),
        *(specification(acceptance_by_position(one, colour, note)) for one in found.positions),
    ]


def _server(shelf: Shelf, cell: CellRow) -> None:
    known = ask(shelf, read.server, cell.cell_id)
    if not known.sampled:
        st.caption("No server metrics were sampled during this cell.")
        return
    st.caption(_SERVER_HELP)
    drawings = server_drawings(known, cell)
    _side_by_side(drawings, f"The server during {cell.name}")
    charts_menu("server", titled(drawings))
    names = {curve.name: curve for curve in known.sampled}
    name = st.selectbox(
        "One server metric as it was sampled", list(names), index=None, key="server",
        bind="query-params", placeholder="none chosen",
    )  # fmt: skip
    if name is not None:
        note = bracketed(badge(cell.evidence))
        st.vega_lite_chart(specification(sampled(names[name], note)), alt=name)


def server_drawings(known: ServerCurves, cell: CellRow) -> list[Drawing]:
    """Return a chart for each thing that the samples tell."""
    colour, note = arm_colour(cell.arm), bracketed(badge(cell.evidence))
    curves = {curve.name: curve for curve in known.lines}
    return [
        specification(
            over_time([curves[n] for n in names if n in curves], f"{title}{note}", colour, share)
        )
        for title, (names, share) in CHARTS.items()
        if curves.keys() & set(names)
    ]
