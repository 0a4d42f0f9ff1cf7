"""What a stranger sees once, above the first page: what this is, an example, and two ways on.

Folded away it stays so in this browser, by a cookie. No script of a page may set one, so the answer to
an image that the page then shows does.
"""

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response

from dashboard.doors.addresses import SEEN, base

_COOKIE, _YEAR_S = "draftboard_seen", 365 * 24 * 3600
_DOT = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
#: How the front stands in a session, and the form for files, which is then open.
_STANDS, _FORM = "how_the_front_stands", "add"
_OPEN, _FOLDED, _FILES = "open", "folded", "folded for files"
_WHAT = (
    "**Draftboard says whether speculative decoding pays where you serve**: on or not, with how many draft "
    "tokens, up to which load, and what that saves. It holds a server with and without it against each "
    "other, measured with GuideLLM or a benchmark that you have, and says how sure every difference is. "
    "For example: *Yes at 16 at once: serve with a draft model with 3 draft tokens; an output token costs "
    "16.8 % less.*"
)


def seen(_: Request) -> Response:
    """Answer an image that nobody sees, and let the browser keep that the front was folded away."""
    answer = Response(_DOT, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        _COOKIE, "1", _YEAR_S, path=f"{base()}/", httponly=True, samesite="lax"
    )  # fmt: skip
    return answer


def greet() -> None:
    """Draw the front for who came to the first page without a link and never folded it away."""
    new = not st.query_params and _COOKIE not in st.context.cookies
    stands = st.session_state.setdefault(_STANDS, _OPEN if new else "")
    if stands != _OPEN:
        return
    with st.container(border=True):
        st.markdown(_WHAT)
        with st.container(horizontal=True):
            st.button("Drop your two files here", on_click=_fold, args=(_FILES,), key="drop")
            st.button("Look at the examples", on_click=_fold, args=(_FOLDED,), key="look")


def keep_folded() -> None:
    """Draw what lets the browser keep that the front was folded away; in the sidebar, where it takes
    no room from the page."""
    if st.session_state.get(_STANDS) in (_FOLDED, _FILES):
        st.markdown(f"![]({base()}{SEEN})")


def drops_files() -> bool:
    """Whether the reader came for the form for files, which then stands above the page."""
    return st.session_state.get(_STANDS) == _FILES


def _fold(stands: str) -> None:
    st.session_state[_STANDS] = stands
    if stands == _FILES:
        st.session_state[_FORM] = True
