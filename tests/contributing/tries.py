"""Prints, as JSON, what the pages of the copy offer: run in the copy, on its warehouse."""

import json
import sys

from streamlit.testing.v1 import AppTest

from dashboard.views import VIEWS

#: Page -> the link that leads to where a metric is chosen.
_LINKS = {"compare": {"metric": "Decode time"}, "data": {"part": "Charts"}}


def _page(path):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS
    from warehouse.filters import Filters

    next(view for view in VIEWS if path == view.URL_PATH).render(open_shelf(), Filters())


def _offered(path: str) -> list[str]:
    page = AppTest.from_function(_page, args=(path,), default_timeout=120)
    for name, value in _LINKS.get(path, {}).items():
        page.query_params[name] = value
    page.run()
    assert not page.exception, page.exception
    boxes = [*page.selectbox, *page.multiselect]
    shown = [str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()]
    return [*(option for box in boxes for option in box.options), *shown]


if __name__ == "__main__":
    there = {view.URL_PATH for view in VIEWS}
    sys.stdout.write(json.dumps({path: _offered(path) for path in sys.argv[1:] if path in there}))
