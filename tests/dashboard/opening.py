"""A page of the dashboard in Streamlit's own test runner: no server, no browser, real results."""

import functools
from typing import Any

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from warehouse.filters import Filters

#: A page may be drawn while other tests use the machine.
DRAWN_S = 60

# A server looks through all installed packages for components once; each AppTest would do it again,
# which takes as long as a page.
manifest_scanner.scan_component_manifests = functools.cache(
    manifest_scanner.scan_component_manifests
)


def _script(path, filters):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS

    next(view for view in VIEWS if path == view.URL_PATH).render(open_shelf(), filters)


def _guarded_script(path):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    from dashboard.frame import guarded
    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS
    from warehouse.filters import Filters

    view = next(view for view in VIEWS if path == view.URL_PATH)
    guarded(lambda: view.render(open_shelf(), Filters()))


def page_of(path: str, filters: Filters | None = None, **link: Any) -> AppTest:
    """The page of an address, not run yet; ``link``: the parameters after it."""
    page = AppTest.from_function(
        _script, args=(path, filters or Filters()), default_timeout=DRAWN_S
    )
    return _linked(page, link)


def opened(path: str, filters: Filters | None = None, **link: Any) -> AppTest:
    """The page of an address, drawn without an exception."""
    page = page_of(path, filters, **link).run()
    assert not page.exception, page.exception
    return page


def refused(path: str, **link: Any) -> str:
    """The one sentence with which a page refuses its link, as the frame shows it."""
    page = AppTest.from_function(_guarded_script, args=(path,), default_timeout=DRAWN_S)
    _linked(page, link).run()
    assert not page.exception, page.exception
    (error,) = page.error
    return error.value.replace("\\", "")


def _linked(page: AppTest, link: dict[str, Any]) -> AppTest:
    for name, value in link.items():
        page.query_params[name] = value
    return page


def encoded(spec: Any) -> set[str]:
    """The columns that a Vega-Lite chart encodes, wherever they stand in it."""
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(encoded(v) for key, v in spec.items() if key != "datasets"))
    if isinstance(spec, list):
        return set().union(*(encoded(v) for v in spec))
    return set()
