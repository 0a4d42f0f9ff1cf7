"""A reader's own reports, compared without touching the warehouse; drawn within Explore."""

from typing import Any

import streamlit as st

from dashboard.access import may_edit, require_editor
from dashboard.answers import Answer
from dashboard.answers.upload import Told
from dashboard.components import plain, shown, table
from dashboard.data import upload as data_upload
from dashboard.download_menu import charts_menu
from dashboard.phrases import counted
from dashboard.shelf import Shelf
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, take_in
from warehouse.errors import DraftboardError
from warehouse.filters import Filters

_TYPES = ("json", "gz", "zst")
#: Where the session keeps what was read, and what it says.
_READ, _TOLD = "uploaded_reports", "uploaded_told"
_HINT = "dataset=code\ngpu=H200\ntensor_parallel_size=1"


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the form and what the reports say; a viewer is told why there is none."""
    if not may_edit():
        st.header("Compare a report of your own")
        st.info("Your role is viewer: to upload reports takes the role editor.")
        return
    top = st.container()
    reports = _reports()
    together = st.checkbox(
        "Also look for partners in the warehouse (the filters of the sidebar apply)",
        value=True,
        key="together",
    )
    if st.button("Read and compare", type="primary", disabled=not reports):
        _read(reports)
    mine = st.session_state.get(_READ)
    if mine is None:
        top.header("Compare a report of your own")
        return
    told = _told(shelf, filters if together else None, mine)
    top.header(plain(_headline(told)))
    _body(told, mine)


def _reports() -> list[Report]:
    st.caption(
        f"GuideLLM reports or vllm bench results, at most {MOST_FILES} files of {MOST_MB} MB. They "
        "are read in a private, temporary warehouse that is gone at once; the numbers stay in this "
        "browser session only."
    )
    files = st.file_uploader(
        "Reports", type=_TYPES, accept_multiple_files=True, max_upload_size=MOST_MB, key="reports"
    )
    common = st.text_area(
        "What the reports do not say, one key=value a line (the keys of draftboard ingest --set)",
        placeholder=_HINT,
        key="facts",
    )
    return [_report(number, file, _lines(common)) for number, file in enumerate(files or [], 1)]


def _report(number: int, file: Any, common: tuple[str, ...]) -> Report:
    own = st.text_input(
        f"Only of {plain(file.name)}, separated by blanks",
        placeholder="spec_method=eagle3 num_speculative_tokens=3",
        key=f"facts-{number}-{file.name}",
    )
    return Report(file.name, file.getvalue(), (*common, *(own or "").split()))


def _lines(text: str | None) -> tuple[str, ...]:
    return tuple(line.strip() for line in (text or "").splitlines() if line.strip())


def _read(reports: list[Report]) -> None:
    """Read the reports into the session, or say why not."""
    require_editor()
    st.session_state.pop(_READ, None)
    st.session_state.pop(_TOLD, None)
    try:
        with st.spinner("Reading the reports", show_time=True):
            st.session_state[_READ] = take_in(reports)
    except DraftboardError as error:
        st.error(plain(str(error)))


def _told(shelf: Shelf, filters: Filters | None, mine: Uploaded) -> Told:
    """What the reports say, once for each choice: it stays with the session."""
    key = (shelf, filters)
    kept = st.session_state.get(_TOLD)
    if kept is None or kept[0] != key:
        kept = (key, data_upload.told(shelf, filters, mine))
        st.session_state[_TOLD] = kept
    found: Told = kept[1]
    return found


def _headline(told: Told) -> str:
    if told.answer is None:
        return "None of these files holds a result"
    if not told.answer.titles:
        return f"{counted(told.cells.total, 'cell')} read; no pair to compare yet"
    return told.answer.headline


def _body(told: Told, mine: Uploaded) -> None:
    if told.answer is not None:
        _answer(told.answer, told)
        st.subheader("What was read")
        table(told.cells, "cells")
        if told.flags.total:
            table(told.flags, "flags")
    if not mine.rejections.empty:
        st.subheader("Rejected files")
        table(shown(mine.rejections), "rejected files")


def _answer(answer: Answer, told: Told) -> None:
    if answer.titles:
        st.markdown(plain(answer.against))
        st.caption(plain(answer.evidence))
        for text in answer.badges:
            st.badge(text, color="gray")
        for drawing in told.drawings:
            st.vega_lite_chart(drawing)
        charts_menu("own-report", dict(zip(answer.titles, told.drawings, strict=False)))
        table(answer.totals, "rows")
    if answer.unmatched.total:
        st.markdown(f"Without a partner: {counted(answer.unmatched.total, 'cell')}.")
        st.caption(
            "State what the reports leave open (dataset, gpu, spec_method …) and read them again."
        )
        table(answer.unmatched, "cells")
