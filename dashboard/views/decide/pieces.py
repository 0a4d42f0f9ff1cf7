"""The parts in which a decision is shown, of the warehouse's results or of a reader's own files."""

import functools
from collections.abc import Iterable

import streamlit as st

from answers.decide import tables
from answers.decide.overview import Overview
from answers.decide.tiles import tiles as tiles_of
from answers.decide.values import Decision
from dashboard.charts import decide as charts
from dashboard.charts.spec import Drawing
from dashboard.chosen import LOAD, TRAFFIC
from dashboard.components import copied, plain


def load_map(drawing: Drawing, overview: Overview, key: str | None = None) -> None:
    """Draw traffic over loads as one chart, with the word and size of each. With a ``key`` a click
    on a field chooses its traffic and load."""
    lines = (
        f"{overview.place(one)}: {tables.words_by_load(one.levels)}" for one in overview.ordered
    )
    alt = f"Load map. {'. '.join(lines)}."
    if key is None:
        st.vega_lite_chart(drawing, alt=alt)
        return
    react = functools.partial(_chosen, key, overview)
    st.vega_lite_chart(drawing, alt=alt, key=key, on_select=react)


def _chosen(key: str, overview: Overview) -> None:
    """Choose the traffic and the load of the field that was clicked; the link then holds them."""
    picked = st.session_state[key]["selection"].get(charts.CHOSEN)
    if not picked:
        return
    loads = {level.load.short: level.load for one in overview.decisions for level in one.levels}
    st.session_state[TRAFFIC] = picked[0][charts.TRAFFIC]
    load = loads[picked[0][charts.LOAD]]
    if load.value is not None:
        st.session_state[LOAD] = f"{load.value:g}{'/s' if load.is_rate else ''}"


def tiles(one: Decision) -> None:
    """Draw what the decision brings and saves at the reader's load."""
    found = tiles_of(one)
    if not found and one.doubts:
        st.info(plain(one.doubts[0]))
    for tile in found:
        st.metric(tile.label, tile.value, tile.note, delta_color="off", delta_arrow="off")


def paste(one: Decision) -> None:
    """Draw what to give the engine."""
    config = one.config and f"--speculative-config '{one.config}'"
    for text in (config, one.serve):
        if text:
            copied(text)
    missing = tables.nothing_to_paste(one) if one.serve is None else ""
    notes = [tables.entries(one), missing, *tables.table_notes(one)]
    told = [note for note in notes if note]
    if told:
        st.caption(plain("  ".join(told)))


def bullets(sentences: Iterable[str], otherwise: str = "") -> None:
    """Draw sentences as a list, each once; ``otherwise`` where there is none."""
    told = list(dict.fromkeys(sentences)) or [otherwise]
    if told != [""]:
        st.markdown("\n".join(f"- {plain(sentence)}" for sentence in told))
