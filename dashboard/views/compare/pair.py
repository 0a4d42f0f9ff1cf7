"""One pair of cells within the Compare page; their requests are read only when asked for."""

import functools
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from answers.compare.subjects import NamedPair, PairRequests, configuration, pairs, requests
from answers.compare.values import ArmComparison, ComparedSetting
from answers.wording import bracketed
from dashboard import downloads
from dashboard.charts import pair as drawn_pair
from dashboard.charts.spec import Drawing, specification
from dashboard.components import copied, plain, shown, table
from dashboard.downloads import file_button
from dashboard.links import address, cell_link, follow_first
from dashboard.shelf import Shelf, ask
from warehouse.catalogue import METRICS

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


def render(shelf: Shelf, found: ArmComparison, setting: ComparedSetting) -> None:
    """Draw what differs between two cells, and how their single requests fared."""
    named = {one.name: one for one in pairs(found, setting)}
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    follow_first("pair", list(named))
    chosen = named[left.selectbox("Pair", list(named), key="pair", bind="query-params")]
    asked = right.toggle("Load single requests", key="requests", bind="query-params")
    if asked:
        with st.spinner("Reading the requests of both cells"):
            _requests(chosen, ask(shelf, requests, chosen))
    _configuration(shelf, chosen)


def _configuration(shelf: Shelf, chosen: NamedPair) -> None:
    links = " and ".join(f"[{plain(arm)}]({cell_link(cell)})" for arm, cell in chosen.cells)
    changes = ask(shelf, configuration, chosen)
    with st.expander("Configuration: what differs between the two", expanded=True):
        st.markdown(f"The cells: {links}.")
        if not changes:
            st.caption("Nothing that is recorded differs.")
            return
        rows = [
            (one.setting, one.reference or "not stated", one.arm or "not stated") for one in changes
        ]
        table(shown(pd.DataFrame(rows, columns=["setting", *(arm for arm, _ in chosen.cells)])),
              "settings")  # fmt: skip


def _requests(chosen: NamedPair, found: PairRequests) -> None:
    note = bracketed(*chosen.badges)
    if not found.distributions:
        st.caption(
            "No requests are held of these cells (their reports had none, or they were removed since), "
            "so there is no distribution."
        )
    grid(
        [specification(drawn_pair.distribution(one, note)) for one in found.distributions],
        [f"{METRICS[one.metric].label}: share of requests at most so long, by arm"
         for one in found.distributions],
    )  # fmt: skip
    there = [one for one in found.first_tokens if one.points]
    if there:
        longest, latest = (max(p[i] for one in there for p in one.points) for i in (0, 1))
        grid(
            [specification(drawn_pair.first_token_by_prompt(one, note, (longest, latest)))
             for one in there],
            [f"Time to first token over prompt length, {one.arm}" for one in there],
        )  # fmt: skip
    st.markdown("Did both arms answer the same?")
    for sentence in found.outputs:
        st.markdown(f"- {plain(sentence)}")
