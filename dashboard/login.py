"""What a visitor sees who sees nothing else: why, and the way in or out."""

import functools
from urllib.parse import urlsplit

import streamlit as st

from dashboard import links
from dashboard.access import LoginNeeded, NotAllowed, Refused, User, configured_login
from dashboard.components import plain
from dashboard.views import VIEWS


def show(refusal: Refused) -> None:
    """One sentence, and a button where one helps. Nothing of the warehouse is read here."""
    # Every page's address leads here: Streamlit would call an address without a page a mistake.
    pages = [
        st.Page(
            functools.partial(_page, refusal),
            title=view.TITLE,
            url_path=view.URL_PATH,
            default=view is VIEWS[0],
        )
        for view in VIEWS
    ]
    st.navigation(pages, position="hidden").run()


def account(user: User) -> None:
    """Who is logged in, in the sidebar; nothing where there is no login."""
    if configured_login() is None:
        return
    st.caption(f"{plain(user.name)}, {user.role}")
    _log_out()


def _page(refusal: Refused) -> None:
    st.markdown(plain(str(refusal)))
    if isinstance(refusal, LoginNeeded):
        _log_in()
    elif isinstance(refusal, NotAllowed):
        _log_out()


def _log_in() -> None:
    login = configured_login()
    for provider in login.providers if login else ():
        label = "Log in" if provider is None else f"Log in with {plain(provider)}"
        if st.button(label, type="primary", key=f"log-in-{provider}"):
            st.login(provider)
    asked = urlsplit(links.address())
    if asked.query or asked.path.strip("/"):
        st.caption("Logging in leads to the first page. Then open your link again:")
        st.code(asked.geturl(), language=None, wrap_lines=True)


def _log_out() -> None:
    if st.button("Log out", key="log-out"):
        st.logout()
