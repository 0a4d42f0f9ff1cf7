"""The frame: filters in the sidebar, one entry per page, and the one place where errors are shown.

Start with ``python -m streamlit run dashboard/app.py`` from the root of the repository.
"""

import functools

import streamlit as st

from dashboard import data
from dashboard.components import plain
from dashboard.filters import sidebar
from dashboard.shelf import open_shelf
from dashboard.views import VIEWS
from warehouse.errors import DraftboardError


def main() -> None:
    """Draw the frame and the page that was asked for."""
    st.set_page_config(page_title="Draftboard", layout="wide")
    try:
        _draw()
    except DraftboardError as error:
        st.error(plain(str(error)))
        st.stop()


def _draw() -> None:
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
    st.navigation(pages, position="top").run()


if __name__ == "__main__":
    main()
