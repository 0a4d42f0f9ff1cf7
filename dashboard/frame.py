"""The frame around every page: filters in the sidebar, one entry per page, and the one place where
errors are shown. Streamlit runs it at every action of a reader.
"""

import functools
import logging
from collections.abc import Callable
from types import ModuleType

import streamlit as st

from dashboard import annotating, links, welcome
from dashboard.components import copied, plain, sentence
from dashboard.doors.access import NotAllowed, NotLetIn, User, configured_login, current_user
from dashboard.filters import DAYS, LABELS, chips, filter_options, sidebar
from dashboard.shelf import shown_shelf
from dashboard.views import VIEWS
from warehouse.errors import DraftboardError, WarehouseMissing
from warehouse.storage.current import not_fresh

#: Three draft tokens of which two were accepted. One colour, seen on light and dark grounds alike.
_TOKENS = (
    '<g fill="#738296" stroke="#738296" stroke-width="2.5"><rect x="2" y="9" width="7" height="14" rx="2"/>'
    '<rect x="12.5" y="9" width="7" height="14" rx="2"/>'
    '<rect x="23" y="9" width="7" height="14" rx="2" fill="none"/></g>'
)
_MARK = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{_TOKENS}</svg>'
_NAME = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 178 32">{_TOKENS}<text x="40" y="23" '
    'font-family="Helvetica, Arial, sans-serif" font-size="21" '
    'font-weight="700" fill="#738296">Draftboard</text></svg>'
)
#: Page -> the question by which the first page leads to it: on a phone names of pages stand in a menu.
_ASKS = {
    "compare": "How does every latency change?",
    "cost": "How many GPUs does that take?",
    "predict": "What if load or K differed?",
    "trends": "Did something get worse?",
    "data": "Where do figures come from?",
}
_logger = logging.getLogger("draftboard.dashboard")


def main() -> None:
    """Draw the frame and the page that was asked for."""
    st.set_page_config(page_title="Draftboard", page_icon=_MARK, layout="wide")
    st.logo(_NAME, size="large", icon_image=_MARK)
    guarded(_enter)


def guarded(draw: Callable[[], None]) -> None:
    """Call ``draw``; an error is one sentence on the page, never a traceback."""
    try:
        draw()
    except WarehouseMissing as missing:
        st.header("No results yet")
        st.info(plain(sentence(missing)))
        st.markdown("Take results in, files or folders, then open this page again:")
        copied("draftboard ingest PATHS", "shell")
        st.markdown("Or look around first, with results that were recorded in a lab:")
        copied("make demo", "shell")
    except DraftboardError as error:
        st.error(plain(sentence(error)))
    except Exception as error:
        # The last place that can say it in a sentence; the traceback is for the server's log.
        _logger.exception("A page failed")
        st.error(
            plain(
                f"This view cannot be drawn ({type(error).__name__}): a mistake of Draftboard, not "
                "yours. Choose other filters or another page; the server's log has the details to "
                "report."
            )
        )


def _enter() -> None:
    """Draw the page for the current user; nothing is read before it is decided who reads."""
    try:
        user = current_user()
    except NotLetIn as refusal:
        # What is left of a page whose reader's login has ended: the gate has the way in.
        st.navigation(_pages(lambda _: None), position="hidden").run()
        st.markdown(plain(str(refusal)))
        if isinstance(refusal, NotAllowed):
            _log_out()
        else:
            st.link_button("Open again", links.address())
        return
    _draw(user)


def _log_out() -> None:
    if st.button("Log out", key="log-out"):
        st.logout()


def _pages(draw: Callable[[ModuleType], None]) -> list[st.Page]:
    return [
        st.Page(
            functools.partial(draw, view),
            title=view.TITLE,
            url_path=view.URL_PATH,
            default=view is VIEWS[0],
        )
        for view in VIEWS
    ]


def _draw(user: User) -> None:
    asked = links.parameters()
    shelf, is_behind = shown_shelf()
    if (stale := not_fresh(shelf.root)) is not None:
        st.warning(plain(stale))
    filters = sidebar(filter_options(shelf))
    page = st.navigation(pages := _pages(lambda view: view.render(shelf, filters)), position="top")
    # A page may say more exactly what it is about.
    about = ", ".join([*filters.model, *filters.dataset, *filters.arm])
    st.set_page_config(page_title=" · ".join(filter(None, (page.title, about, "Draftboard"))))
    if not links.report_gone(asked, LABELS | DAYS, (page.url_path, filters)):
        if page.url_path == "":
            welcome.greet()
        chips(filters)
        notes = st.container()
        # It appears after half a second: what takes longer should not look like nothing.
        with st.spinner("Reading the warehouse…", show_time=True):
            page.run()
        if page.url_path == "":
            with st.container(horizontal=True, gap=None):
                for other in pages[1:]:
                    st.page_link(other, label=_ASKS.get(other.url_path))
        links.read_whole(asked, LABELS | DAYS)
        with notes:
            annotating.excluded_here(shelf, filters)
    with st.sidebar:
        if is_behind:
            st.caption(
                "Newer results are being read. They are shown at a click once they are there."
            )
        links.share()
        welcome.keep_folded()
        if configured_login() is not None:
            st.caption(f"{plain(user.name)}, {user.role}")
            _log_out()


if __name__ == "__main__":
    main()
