"""The download buttons of a page: one chart at a time, whatever the number of charts."""

import pytest
from streamlit.testing.v1 import AppTest


def _page(titles):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    from dashboard.downloads import charts_menu

    charts_menu("all", {title: {"mark": "point"} for title in titles})


@pytest.mark.parametrize(("titles", "choices"), [([], 0), (["a"], 0), (["a", "**b**", "c"], 1)])
def test_many_charts_take_no_more_buttons_than_one(titles: list[str], choices: int) -> None:
    page = AppTest.from_function(_page, args=(titles,)).run()

    assert not page.exception
    assert len(page.get("download_button")) == (3 if titles else 0)
    assert [box.options for box in page.selectbox] == [titles] * choices
