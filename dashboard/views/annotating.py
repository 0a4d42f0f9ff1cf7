"""Notes and exclusions on a page: who said what, and, for editors, forms to say more."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.access import may_edit, require_editor
from dashboard.answers import notes as answers_notes
from dashboard.components import plain
from dashboard.data import notes as data_notes
from dashboard.shelf import Shelf
from warehouse import annotations, exclusions
from warehouse.annotations import LONGEST_AUTHOR, LONGEST_TEXT, Action, Target
from warehouse.errors import DraftboardError
from warehouse.filters import Filters

_HELP = {
    "exclude": "Its cells are left out of every comparison, trend, verdict, gate and report, which "
    "say so. The run stays here with your reason, and can be taken back at any time.",
    "include": "Its cells count again in every answer.",
}


def excluded_here(shelf: Shelf, filters: Filters) -> None:
    """Say which runs an answer leaves out, and why; nothing where none is excluded."""
    sentence = exclusions.sentence(data_notes.left_out(shelf, filters))
    if sentence:
        st.caption(f"{plain(sentence)} They stand, marked, on the page Runs.")


def run(shelf: Shelf, head: pd.Series) -> None:
    """What was said of one run. ``head``: its row of ``data.runs``."""
    excluded = data_notes.exclusion_of(shelf, head)
    if excluded is not None:
        st.warning(plain(answers_notes.exclusion(excluded)))
    said = data_notes.of_run(shelf, head)
    if said:
        st.markdown("\n".join(f"- {plain(answers_notes.line(event))}" for event in said))
    if not may_edit():
        return
    target = data_notes.target_of(head)
    with st.expander("Write a note, exclude this run" if excluded is None else
                     "Write a note, take this run back"):  # fmt: skip
        _form(shelf, "note", target, "Note")
        if excluded is None:
            _form(shelf, "exclude", target, "Exclude this run")
        else:
            _form(shelf, "include", target, "Take this run back")


def night(shelf: Shelf, days: Sequence[str], study: str | None) -> None:
    """A form for a note on one of ``days``, nights of a study; nothing for viewers."""
    if not may_edit() or not days:
        return
    with (
        st.expander("Write a note on a night"),
        st.form("night-form", clear_on_submit=True, border=False),
    ):
        day = st.selectbox("Night", days, key="noted-night")
        only = study is not None and st.checkbox(
            f"Only for the study {plain(study)}", key="noted-study"
        )
        text = st.text_input("Note", key="night-text", max_chars=LONGEST_TEXT)
        if st.form_submit_button("Note on the night"):
            _write(shelf, "note", annotations.night(day, study if only else None), text)


def _form(shelf: Shelf, action: Action, target: Target, button: str) -> None:
    # A form for each run: what was typed for one is not taken for another that is chosen then.
    own = f"{action}-{target.source_id}-{target.run_id}"
    label, hint = ("Note", None) if action == "note" else ("Reason", _HELP[action])
    with st.form(own, clear_on_submit=True, border=False):
        text = st.text_input(label, key=f"{own}-text", max_chars=LONGEST_TEXT, help=hint)
        if st.form_submit_button(button):
            _write(shelf, action, target, text)


def _write(shelf: Shelf, action: Action, target: Target, text: str | None) -> None:
    user = require_editor()
    author = " ".join((user.name or user.email).split())[:LONGEST_AUTHOR] or "unknown"
    try:
        event = annotations.annotation(action, target, text or "", author)
        annotations.add(Path(shelf.root), event)
    except DraftboardError as error:
        st.error(plain(str(error)))
        return
    st.rerun()
