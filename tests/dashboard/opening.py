"""A page of the dashboard in Streamlit's own test runner: no server, no browser, real results."""

from typing import Any

from streamlit.testing.v1 import AppTest

from warehouse.filters import Filters

#: A page may be drawn while other tests use the machine.
DRAWN_S = 60


def _script(path, filters):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    import streamlit as st

    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS
    from warehouse.errors import DraftboardError

    view = next(view for view in VIEWS if path == view.URL_PATH)
    try:
        view.render(open_shelf(), filters)
    except DraftboardError as error:  # as the frame does
        st.error(str(error))


def page_of(path: str, filters: Filters | None = None, **link: Any) -> AppTest:
    """The page of an address, not run yet; ``link``: the parameters after it."""
    page = AppTest.from_function(
        _script, args=(path, filters or Filters()), default_timeout=DRAWN_S
    )
    for name, value in link.items():
        page.query_params[name] = value
    return page


def opened(path: str, filters: Filters | None = None, **link: Any) -> AppTest:
    """The page of an address, drawn without an exception."""
    page = page_of(path, filters, **link).run()
    assert not page.exception, page.exception
    return page
