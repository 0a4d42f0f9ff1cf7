"""A reader's own reports, compared without touching the warehouse; drawn within Explore."""

from typing import Any

import pandas as pd
import streamlit as st

from answers.compare.words import counted
from answers.decide import tables
from dashboard.access import may_edit, require_editor
from dashboard.answers import decide as drawn
from dashboard.answers.compare import Page
from dashboard.answers.upload import Upload
from dashboard.components import plain, shown, table
from dashboard.data import upload as data_upload
from dashboard.download_menu import charts_menu
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


def _told(shelf: Shelf, filters: Filters | None, mine: Uploaded) -> Upload:
    """What the reports say, once for each choice: it stays with the session."""
    key = (shelf, filters)
    kept = st.session_state.get(_TOLD)
    if kept is None or kept[0] != key:
        kept = (key, data_upload.upload(shelf, filters, mine))
        st.session_state[_TOLD] = kept
    found: Upload = kept[1]
    return found


def _headline(told: Upload) -> str:
    if told.page is None:
        return "None of these files holds a result"
    if not told.page.titles:
        return f"{counted(told.cells.total, 'cell')} read; no pair to compare yet"
    return " ".join(one.headline for one in told.decided) or told.page.headline


def _body(told: Upload, mine: Uploaded) -> None:
    if told.page is not None:
        _answer(told.page, told)
        st.subheader("What was read")
        table(told.cells, "cells")
        if told.flags.total:
            table(told.flags, "flags")
    if mine.rejections:
        st.subheader("Rejected files")
        refused = pd.DataFrame(list(mine.rejections), columns=["file", "reason"])
        table(shown(refused), "rejected files")


def _answer(page: Page, told: Upload) -> None:
    if page.titles:
        for one in told.decided:
            st.markdown(plain(one.paragraph))
            table(drawn.table(tables.summary(one.decisions)), "decisions")
        st.caption(plain(page.evidence))
        for text in page.badges:
            st.badge(text, color="gray")
        for drawing in told.drawings:
            st.vega_lite_chart(drawing)
        charts_menu("own-report", dict(zip(page.titles, told.drawings, strict=False)))
        table(page.totals, "rows")
    if page.unmatched.total:
        st.markdown(f"Without a partner: {counted(page.unmatched.total, 'cell')}.")
        st.caption(
            "State what the reports leave open (dataset, gpu, spec_method …) and read them again."
        )
        table(page.unmatched, "cells")
