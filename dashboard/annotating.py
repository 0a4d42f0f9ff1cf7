"""Notes and exclusions on a page: who said what, and, for editors, forms to say more."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from answers.runs import notes
from answers.runs.read import OneRun
from dashboard.components import TableRows, errors_told, plain, tabled
from dashboard.doors.access import current_user, may_edit, require_editor
from dashboard.shelf import Shelf, ask
from warehouse import annotations, queries
from warehouse.filters import Filters

_HELP = {
    "exclude": "Its cells are left out of every comparison, trend, verdict, gate and report, which "
    "say so. The run stays here with your reason, and can be taken back at any time.",
    "include": "Its cells count again in every answer.",
}


def excluded_here(shelf: Shelf, filters: Filters) -> None:
    """Say which runs an answer leaves out, and why; nothing where none is excluded."""
    if not shelf.excluded:
        return
    text = queries.exclusions_sentence(ask(shelf.with_excluded(), queries.left_out_of, filters))
    if text:
        st.caption(f"{plain(text)} They stand, marked, on the page Data.")


def notes_version(shelf: Shelf) -> str:
    """Return a text that changes with everything that people say; empty before the first of it."""
    return annotations.version(shelf.root)


def noted(found: Sequence[notes.PlacedNote]) -> TableRows:
    """Return a table of night, what was said of what, by whom and when; the newest night first."""
    return tabled(*notes.note_rows(found))


def run(shelf: Shelf, one: OneRun) -> None:
    """Draw what was said of one run, and the forms to say more."""
    if one.exclusion is not None:
        st.warning(plain(notes.exclusion(one.exclusion)))
    if one.said:
        st.markdown("\n".join(f"- {plain(notes.line(event))}" for event in one.said))
    if not may_edit():
        return
    other: annotations.Action = "exclude" if one.exclusion is None else "include"
    button = "Exclude this run" if one.exclusion is None else "Take this run back"
    with st.expander(f"Write a note, {button[:1].lower()}{button[1:]}"):
        _form(shelf, "note", one.run.target, "Note")
        _form(shelf, other, one.run.target, button)


def night(shelf: Shelf, days: Sequence[str], study: str | None, key: str = "night") -> None:
    """Draw a form for a note on one of ``days``, nights of a study; nothing for viewers."""
    if not may_edit() or not days:
        return
    with (
        st.expander("Write a note on a night"),
        st.form(f"{key}-form", clear_on_submit=True, border=False),
    ):
        day = st.selectbox("Night to note on", days, key=f"noted-{key}")
        only = study is not None and st.checkbox(
            f"Only for the study {plain(study)}", key=f"noted-{key}-study"
        )
        text = st.text_input("Note", key=f"{key}-text", max_chars=annotations.LONGEST_TEXT)
        if st.form_submit_button("Note on the night"):
            _write(
                shelf,
                "note",
                annotations.AnnotationTarget(night=day, study=study if only else None),
                text,
            )


def author() -> str:
    """Return the name under which the current user writes. Raises NotAllowed for a viewer."""
    user = require_editor()
    return " ".join((user.name or user.email).split())[: annotations.LONGEST_AUTHOR] or "unknown"


def _form(
    shelf: Shelf, action: annotations.Action, target: annotations.AnnotationTarget, button: str
) -> None:
    # A form for each run: what was typed for one is not taken for another that is chosen then.
    own = f"{action}-{target.source_id}-{target.run_id}"
    label, hint = ("Note", None) if action == "note" else ("Reason", _HELP[action])
    with st.form(own, clear_on_submit=True, border=False):
        text = st.text_input(
            label, key=f"{own}-text", max_chars=annotations.LONGEST_TEXT, help=hint
        )
        if st.form_submit_button(button):
            _write(shelf, action, target, text)


def _write(
    shelf: Shelf, action: annotations.Action, target: annotations.AnnotationTarget, text: str | None
) -> None:
    name = author()
    with errors_told():
        event = annotations.annotation(action, target, text or "", name)
        annotations.add(shelf.root, replace(event, account=current_user().email or None))
        st.rerun()
