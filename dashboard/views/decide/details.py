"""What is folded on the Decide page: each part is made when a reader opens it."""

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit import column_config as col

from answers.decide import tables
from answers.decide.accepted import (
    accepted,
    accepted_in,
    changes,
    operating_cell,
    outputs_of,
    rule_rows,
    rules,
)
from answers.decide.overview import Overview
from answers.decide.subjects import Named
from answers.decide.tables import behind, fields
from answers.decide.tables import tiles as tiles_of
from answers.decide.values import Cell, Decision, Question
from dashboard.charts import decide as charts
from dashboard.charts.spec import Drawing, specification
from dashboard.chosen import LOAD, TRAFFIC, Told, decided, traffics
from dashboard.components import copied, plain, table, texts
from dashboard.downloads import charts_menu, rows_menu
from dashboard.links import cell_link
from dashboard.shelf import Shelf, ask, cached
from warehouse.annotations import last_decisions
from warehouse.filters import Filters

# --- The parts in which a decision is shown, of the warehouse's results or of a reader's own files.


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


# --- A decision as rows of a file.


def rows_of(found: Sequence[Decision]) -> pd.DataFrame:
    """Return every arm at every load of every decision, unrounded."""
    return pd.DataFrame([_row(one, cell) for one in found for cell in one.arms])


def _row(one: Decision, cell: Cell) -> dict[str, object]:
    told = cell.difference
    return {
        "model": one.subject.model, "gpu": one.subject.gpu,
        "tensor_parallel_size": one.subject.tensor_parallel_size,
        "engine_version": one.subject.engine_version, "evidence": one.subject.evidence,
        "traffic": one.traffic.name, "load": cell.load.text, "arm": cell.arm,
        "metric": told.metric, "statistic": told.statistic, "expected": told.improvement,
        "low": told.low, "high": told.high, "adjusted_low": told.adjusted_low,
        "adjusted_high": told.adjusted_high, "word": told.word, "launches": cell.launches,
        "taken": cell.taken,
    }  # fmt: skip


# --- What is folded on the Decide page: each part is made when a reader opens it.


#: The field whose cells are shown: its box, its parameter.
SQUARE = "square"
#: The titles of the charts as files.
LOAD_MAP, _HEAT_MAP = "Load map", "Method and K"
_LINK = "measured in"


@cached
def drawings(shelf: Shelf, question: Question, about: Named, traffic: str) -> dict[str, Drawing]:
    """Return the charts of a decision by their titles; ``traffic``: its name."""
    overview = decided(shelf, question, about).overview
    assert overview is not None  # Whoever asks was told of it.
    one = traffics(overview)[traffic]
    drawn = {LOAD_MAP: charts.load_map(overview, one), _HEAT_MAP: charts.heat_map(one)}
    return {name: specification(chart) for name, chart in drawn.items()}


def draw(shelf: Shelf, told: Told) -> None:
    """Draw every part, folded; then the files."""
    question, overview, one = told.question, told.overview, told.one
    drawn = drawings(shelf, question, told.about, told.traffic)
    changed = changes(overview.decisions, last_decisions(Path(shelf.root)))
    left = tuple(tables.left_out(one))
    _fold("which_k", "Which method and K at which load?", lambda: _which_k(shelf, one, drawn[_HEAT_MAP]),
          SQUARE in st.query_params)  # fmt: skip
    _fold("against", _counted("What speaks against it", len(one.against)), lambda: against(one))
    _fold("stake", f"What is at stake ({tables.at_stake(one)}), and what would settle it?",
          lambda: _stake(one))  # fmt: skip
    _fold("by_load", "By load, by arm, by traffic: all figures", lambda: _figures(overview, one))
    _fold("same", "Do the arms answer the same?", lambda: _same(shelf, one))
    _fold("left_out", _counted("What was left out", len(left)),
          lambda: bullets(left, "Nothing: every cell that was measured decides."))  # fmt: skip
    if not one.traffic.mix:
        _fold("rules", "Rules of thumb beside the measurement",
              lambda: _rules(shelf, question.filters, one))  # fmt: skip
    _fold("changed", _counted("What changed since the last decision", len(changed)),
          lambda: bullets(changed, "Nothing that was recorded; record it with: draftboard verdict --record"))  # fmt: skip
    with st.container(horizontal=True):
        rows_menu("decide", lambda: rows_of(overview.decisions))
        charts_menu("decide", drawn)


def _fold(key: str, label: str, show: Callable[[], None], opened: bool = False) -> None:
    """Draw a part that is made when it is open; the link keeps which parts are."""
    part = st.expander(plain(label), opened, key=key, bind="query-params")
    if part.open:
        with part:
            show()


def _counted(label: str, number: int) -> str:
    return f"{label}: {number or 'nothing'}"


def _which_k(shelf: Shelf, one: Decision, drawing: Drawing) -> None:
    taken = "; ".join(f"at {level.load.text} {tables.taken(level)}" for level in one.levels)
    st.markdown(f"Taken: {plain(taken)}. At stake: {plain(tables.at_stake(one))}.")
    alt = f"Expected improvement by load and arm, as a heat map. Taken: {taken}."
    if "params" in drawing:
        st.vega_lite_chart(drawing, alt=alt, key="map", on_select=_choose)
    else:  # It says what is unknown: there is nothing to click on.
        st.vega_lite_chart(drawing, alt=alt)
    cells = {field.name: field.cells for field in fields(one)}
    chosen = st.selectbox(
        "The cells behind a field: choose it here or click on it", list(cells), index=None,
        key=SQUARE, bind="query-params", placeholder="no field chosen",
    )  # fmt: skip
    if chosen is not None:
        found = ask(shelf, behind, cells[chosen])
        header = ["arm", "repeat", "completed", "errored", "flags", "run", _LINK]
        lines = [
            [each.arm, each.repeat, each.completed, each.errored, each.flags, each.run,
             cell_link(each.cell)]
            for each in found
        ]  # fmt: skip
        table(texts(header, lines), "cells", {_LINK: col.LinkColumn(_LINK, display_text="open")})


def _choose() -> None:
    """Put the field that was clicked into the box below, which is what the link holds."""
    picked = st.session_state["map"]["selection"].get(charts.CHOSEN)
    if picked:
        st.session_state[SQUARE] = picked[0][charts.FIELD]


def against(one: Decision) -> None:
    """Draw what speaks against a decision."""
    bullets((loss.sentence for loss in one.against), "Nothing that was measured.")


def _stake(one: Decision) -> None:
    rivals = ", ".join(one.rivals)
    st.markdown(
        f"At stake in the choice: {plain(tables.at_stake(one))}"
        + (f"; may be better: {plain(rivals)}." if rivals else ".")
    )
    bullets(tables.doubts(one))


def _figures(overview: Overview, one: Decision) -> None:
    st.markdown(plain(one.paragraph))
    table(texts(*tables.summary(overview.decisions)), "decisions")
    st.markdown("**By load**")
    table(texts(*tables.by_load(one)), "loads")
    st.markdown("**Every arm**")
    table(texts(*tables.by_arm(one)), "fields")


def _same(shelf: Shelf, one: Decision) -> None:
    cell = operating_cell(one)
    same = None if cell is None else ask(shelf, outputs_of, cell)
    if same is None:
        st.markdown("Unknown: no outputs of both arms are known at your load.")
        return
    st.markdown(f"{plain(same.arm)} beside the baseline, at {plain(same.load)}:")
    bullets(same.sentences)


def _rules(shelf: Shelf, filters: Filters, one: Decision) -> None:
    st.caption(
        "What published rules say of each arm, and at which concurrency the expected gains agree. "
        "They contradict one another; the measurement wins."
    )
    found = accepted_in(one, ask(shelf, accepted, filters))
    table(texts(*rule_rows(rules(one, found))), "rules")
