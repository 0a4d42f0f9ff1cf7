"""Notes and exclusions on a page: who said what, and, for editors, forms to say more."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from answers.runs import notes
from answers.runs.notes import PlacedNote
from answers.runs.read import OneRun
from dashboard.access import current_user, may_edit, require_editor
from dashboard.components import TableRows, listing, plain, sentence
from dashboard.shelf import Shelf, ask
from warehouse import annotations, queries
from warehouse.annotations import LONGEST_AUTHOR, LONGEST_TEXT, Action, Annotation, AnnotationTarget
from warehouse.errors import DraftboardError
from warehouse.filters import Filters

_HELP = {
    "exclude": "Its cells are left out of every comparison, trend, verdict, gate and report, which "
    "say so. The run stays here with your reason, and can be taken back at any time.",
    "include": "Its cells count again in every answer.",
}
_NOTES = {
    "night": "night", "about": "about", "said": "said", "text": "text", "by": "by",
    "written": "written (UTC)",
}  # fmt: skip


def excluded_here(shelf: Shelf, filters: Filters) -> None:
    """Say which runs an answer leaves out, and why; nothing where none is excluded."""
    text = queries.exclusions_sentence(left_out(shelf, filters))
    if text:
        st.caption(f"{plain(text)} They stand, marked, on the page Data.")


def left_out(shelf: Shelf, filters: Filters) -> Sequence[Annotation]:
    """Return the exclusions of the runs that the filters would keep, newest run first."""
    if not shelf.excluded:
        return ()
    return ask(shelf.with_excluded(), queries.left_out_of, filters)


def of_view(shelf: Shelf, filters: Filters) -> tuple[PlacedNote, ...]:
    """Return the notes on the nights and runs that the filters keep, and the exclusions of these
    runs."""
    version = notes_version(shelf)
    return ask(shelf.with_excluded(), notes.of_view, filters, version) if version else ()


def notes_version(shelf: Shelf) -> str:
    """Return a text that changes with everything that people say; a key for what is cached of
    it."""
    return annotations.version(Path(shelf.root))


def noted(found: Sequence[PlacedNote]) -> TableRows:
    """Return a table of night, what was said of what, by whom and when; the newest night first."""
    return listing(notes.newest_first(found), _NOTES)


def run(shelf: Shelf, one: OneRun) -> None:
    """Draw what was said of one run, and the forms to say more."""
    if one.exclusion is not None:
        st.warning(plain(notes.exclusion(one.exclusion)))
    if one.said:
        st.markdown("\n".join(f"- {plain(notes.line(event))}" for event in one.said))
    if not may_edit():
        return
    target = one.run.target
    other: tuple[Action, str] = (
        ("exclude", "Exclude this run") if one.exclusion is None else ("include", "Take this run back")
    )  # fmt: skip
    with st.expander(f"Write a note, {other[1][:1].lower()}{other[1][1:]}"):
        _form(shelf, "note", target, "Note")
        _form(shelf, other[0], target, other[1])


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
        text = st.text_input("Note", key=f"{key}-text", max_chars=LONGEST_TEXT)
        if st.form_submit_button("Note on the night"):
            _write(shelf, "note", annotations.night(day, study if only else None), text)


def author() -> str:
    """Return the name under which the current user writes. Raises NotAllowed for a viewer."""
    user = require_editor()
    return " ".join((user.name or user.email).split())[:LONGEST_AUTHOR] or "unknown"


def _form(shelf: Shelf, action: Action, target: AnnotationTarget, button: str) -> None:
    # A form for each run: what was typed for one is not taken for another that is chosen then.
    own = f"{action}-{target.source_id}-{target.run_id}"
    label, hint = ("Note", None) if action == "note" else ("Reason", _HELP[action])
    with st.form(own, clear_on_submit=True, border=False):
        text = st.text_input(label, key=f"{own}-text", max_chars=LONGEST_TEXT, help=hint)
        if st.form_submit_button(button):
            _write(shelf, action, target, text)


def _write(shelf: Shelf, action: Action, target: AnnotationTarget, text: str | None) -> None:
    name = author()
    try:
        event = annotations.annotation(action, target, text or "", name)
        account = current_user().email or None
        annotations.add(Path(shelf.root), replace(event, account=account))
    except DraftboardError as error:
        st.error(plain(sentence(error)))
        return
    st.rerun()
