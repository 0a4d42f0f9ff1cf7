"""A figure: its charts side by side, one link and one picture."""

import functools
from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard import downloads
from dashboard.charts.spec import Drawing
from dashboard.components import copied, plain
from dashboard.download_menu import file_button
from dashboard.links import address

_ACROSS = 3


def grid(drawings: Sequence[Drawing], alternatives: Sequence[str]) -> None:
    """Draw the charts, at most three to a row; on a phone they stand one below the other."""
    told = list(zip(drawings, alternatives, strict=True))
    across = min(len(told), _ACROSS)
    for start in range(0, len(told), _ACROSS):
        row = told[start : start + _ACROSS]
        for place, (drawing, text) in zip(st.columns(across), row, strict=False):
            place.vega_lite_chart(drawing, alt=text)


def files(title: str, drawings: Sequence[Drawing], link: Mapping[str, str]) -> None:
    """Offer the figure as one picture and as one Vega-Lite file, and show the address that draws it
    again."""
    make = functools.partial(downloads.one_figure, title, tuple(drawings))
    name = "-".join(title.lower().replace(":", "").replace(",", "").split())
    with st.container(horizontal=True, vertical_alignment="center"):
        file_button(f"{name}.png", "PNG", lambda: downloads.png_bytes(make()), "image/png")
        file_button(f"{name}.svg", "SVG", lambda: downloads.svg_bytes(make()), "image/svg+xml")
        file_button(f"{name}.vl.json", "Vega-Lite",
                    lambda: downloads.vega_lite_bytes(make()), "application/json")  # fmt: skip
        with st.popover("Link to this figure", icon=":material/link:"):
            st.caption(f"Whoever opens this address on the same results sees {plain(title)}.")
            copied(address(link))
