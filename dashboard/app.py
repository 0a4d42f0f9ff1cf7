"""The frame: who may come in, filters in the sidebar, one entry per page, and the one place where
errors are shown.

Start with ``python -m streamlit run dashboard/app.py`` from the root of the repository.
"""

import functools
import logging
from collections.abc import Callable

import streamlit as st

from dashboard import annotating, data, links, login, memory
from dashboard.access import Refused, User, current_user
from dashboard.components import plain
from dashboard.filters import DAYS, LABELS, sidebar
from dashboard.shelf import open_shelf
from dashboard.views import VIEWS
from warehouse.errors import DraftboardError

memory.give_back()
_logger = logging.getLogger("draftboard.dashboard")


def main() -> None:
    """Draw the frame and the page that was asked for."""
    st.set_page_config(page_title="Draftboard", layout="wide")
    guarded(_enter)


def guarded(draw: Callable[[], None]) -> None:
    """Call ``draw``; an error is one sentence on the page, never a traceback."""
    try:
        draw()
    except DraftboardError as error:
        st.error(plain(str(error)))
    except Exception as error:
        # The last place that can say it in a sentence; the traceback is for the server's log.
        _logger.exception("A page failed")
        st.error(plain(_unforeseen(error)))


def _unforeseen(error: Exception) -> str:
    return (
        f"This view cannot be drawn ({type(error).__name__}): a mistake of Draftboard, not yours. "
        "Choose other filters or another page; the server's log has the details to report."
    )


def _enter() -> None:
    """Nothing is read before it is decided who reads."""
    try:
        user = current_user()
    except Refused as refusal:
        login.show(refusal)
        return
    _draw(user)


def _draw(user: User) -> None:
    asked = links.parameters()
    shelf = open_shelf()
    filters = sidebar(data.filter_options(shelf))
    pages = [
        st.Page(
            functools.partial(view.render, shelf, filters),
            title=view.TITLE,
            url_path=view.URL_PATH,
            default=view is VIEWS[0],
        )
        for view in VIEWS
    ]
    page = st.navigation([*pages, *links.former(VIEWS, pages)], position="top")
    notes = st.container()
    # It appears after half a second: what takes longer should not look like nothing.
    with st.spinner("Reading the warehouse…", show_time=True):
        page.run()
    with notes:
        links.report_gone(asked, LABELS | DAYS)
        annotating.excluded_here(shelf, filters)
    with st.sidebar:
        links.share()
        login.account(user)


if __name__ == "__main__":
    main()
