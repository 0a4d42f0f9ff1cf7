"""A bundle that somebody else opens shows the same views, page by page."""

from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from dashboard.views import VIEWS
from tests.dashboard.opening import opened
from warehouse.filters import Filters
from warehouse.storage.copies import bundle


def _shown(root: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Every sentence, table and chart of a page."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(root))
    st.cache_resource.clear()
    page = opened(path)
    kinds = ("header", "subheader", "markdown", "caption", "code", "text", "info", "warning")
    said = {kind: [one.value for one in page.get(kind)] for kind in kinds}
    charts = page.get("vega_lite_chart")
    return said | {
        "tables": [one.value.to_csv() for one in page.dataframe],
        "charts": [one.proto.spec for one in charts],
    }


@pytest.fixture(scope="module")
def shared(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of everything."""
    out = tmp_path_factory.mktemp("shared") / "bundle"
    bundle(filled, out, Filters())
    return out


@pytest.mark.parametrize("path", [view.URL_PATH for view in VIEWS])
def test_a_page_of_a_bundle_shows_what_the_original_shows(
    filled: Path, shared: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _shown(filled, path, monkeypatch)
    there = _shown(shared, path, monkeypatch)

    assert here["header"]
    if path == "data":
        # Of rejected files nothing is passed on.
        assert "broken.json" in here["tables"].pop()
        here["markdown"][0] = here["markdown"][0].replace("1 rejected file", "0 rejected files")
        assert here["caption"].pop().startswith("Correct the file")
    assert there == here
    st.cache_resource.clear()
