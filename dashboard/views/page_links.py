"""Links from one page to others, as one quiet row."""

from collections.abc import Mapping

import streamlit as st


def page_links(labels: Mapping[str, str]) -> None:
    """A link for each page that there is. ``labels``: its path in the URL -> what the link says."""
    # The pages import this module, so their list is known only when one of them is drawn.
    from dashboard.views import VIEWS

    there = {view.URL_PATH for view in VIEWS}
    with st.container(horizontal=True):
        for path, label in labels.items():
            if path in there:
                st.page_link(st.Page(_elsewhere, url_path=path, title=label), label=label)


def _elsewhere() -> None:
    """Stands for a page that the frame has registered under the same path."""
