"""Which subject a page shows while a reader filters: never another one in silence."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from warehouse.contract import Facts

DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3}
#: Model and dataset of the results, in the order of their paths: of the prose alone, the second
#: model stands first.
PLACES = (
    ("m-one", "code"), ("m-two", "prose"), ("m-one", "prose"), ("m-three", "code"),
    ("m-two", "sql"),
)  # fmt: skip
#: Page -> its box of subjects.
BOXES = {"decide": "about", "cost": "about", "compare": "subject"}
every_page = pytest.mark.parametrize(("path", "key"), BOXES.items())


@pytest.fixture(scope="module")
def three_models(
    tmp_path_factory: pytest.TempPathFactory,
    fill_cells: Callable[..., None],
    make_facts: Callable[..., Facts],
) -> Path:
    """A warehouse with three subjects, which nobody may change."""
    root = tmp_path_factory.mktemp("three-models") / "warehouse"
    for path, (model, dataset) in enumerate(PLACES):
        known = [
            make_facts(model=model, dataset=dataset, concurrency=load, study="s", **arm)
            for arm in ({"spec_method": "none"}, DRAFT)
            for load in (1, 4, 16)
        ]
        fill_cells(root, f"{path}", known)
    return root


@pytest.fixture(autouse=True)
def shown(three_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard opens the three subjects."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(three_models))


def _filtered(path):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    import streamlit as st

    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS
    from warehouse.filters import Filters

    filters = Filters(dataset=tuple(st.session_state.get("kept", ())))
    next(view for view in VIEWS if path == view.URL_PATH).render(open_shelf(), filters)


def keep(page: AppTest, *datasets: str) -> None:
    """The reader keeps these datasets."""
    page.session_state["kept"] = datasets
    page.run()
    assert not page.exception, page.exception


def opened(path: str, *datasets: str) -> AppTest:
    page = AppTest.from_function(_filtered, args=(path,), default_timeout=60)
    keep(page, *datasets)
    return page


def said(page: AppTest) -> str:
    texts = [*page.header, *page.info, *page.caption]
    return "\n".join(text.value for text in texts).replace("\\", "")


HIDDEN = "The filters leave nothing to show of "


@every_page
@pytest.mark.parametrize("dataset", ["code", "prose"])
def test_a_filter_does_not_change_on_which_subject_a_page_opens(
    path: str, key: str, dataset: str
) -> None:
    first = opened(path).selectbox(key=key).value
    page = opened(path, dataset)

    assert "m-one" in first
    assert page.selectbox(key=key).value == first
    assert HIDDEN not in said(page)


@every_page
def test_where_the_filters_hide_the_first_subject_a_sentence_says_so(path: str, key: str) -> None:
    page = opened(path)
    first = page.selectbox(key=key).value

    keep(page, "sql")

    assert "m-two" in page.selectbox(key=key).value
    assert f"{HIDDEN}{first}, which stands first without them." in said(page)
    keep(page)
    assert page.selectbox(key=key).value == first
    assert HIDDEN not in said(page)


@every_page
@pytest.mark.parametrize("dataset", ["prose", "none such"])
def test_a_subject_that_was_chosen_stays_so_while_the_filters_hide_it(
    path: str, key: str, dataset: str
) -> None:
    page = opened(path)
    chosen = next(name for name in page.selectbox(key=key).options if "m-three" in name)
    page.selectbox(key=key).set_value(chosen).run()
    assert not page.exception
    keep(page, "code")
    assert page.selectbox(key=key).value == chosen

    keep(page, dataset)

    assert page.selectbox(key=key).value == chosen
    assert not page.get("vega_lite_chart")
    assert HIDDEN + chosen in said(page) or "Remove one in the sidebar" in said(page)
    keep(page)
    assert page.selectbox(key=key).value == chosen
    assert page.get("vega_lite_chart")
