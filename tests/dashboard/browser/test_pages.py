"""Every page in a real browser: it opens, fits every screen, and axe finds nothing serious."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from benchmarks.large import QUICK, large_warehouse
from tests.dashboard.browser.seen import LAB, PATHS, serious, served, sideways, visit

pytestmark = pytest.mark.browser
WIDTHS = (1440, 1024, 390)
#: Where the number of cells matters.
LARGE = ("", "/compare", "/cost", "/predict", "/data", "/data?part=Charts")
#: What the page Data has beside its runs.
PARTS = tuple(f"/data?part={part}" for part in ("Charts", "SQL", "Published+figures"))
#: Charts that are drawn where somebody unfolds them.
UNFOLDED = ("/predict?fold_break_even=true",)


@pytest.mark.parametrize("path", [*PATHS, *PARTS, *UNFOLDED])
def test_a_page_opens_fits_every_screen_and_is_accessible(
    kept: Page, address: str, path: str
) -> None:
    kept.set_viewport_size({"width": WIDTHS[0], "height": 900})
    visit(kept, address + path)
    assert serious(kept) == []
    for width in WIDTHS:
        kept.set_viewport_size({"width": width, "height": 900})
        kept.wait_for_timeout(300)
        assert sideways(kept) <= 0, width


@pytest.mark.parametrize("path", [*PATHS, *PARTS, *UNFOLDED])
def test_a_page_is_accessible_on_a_dark_ground(dark: Page, address: str, path: str) -> None:
    visit(dark, address + path)

    ground = dark.get_by_test_id("stApp").evaluate("one => getComputedStyle(one).backgroundColor")
    assert ground == "rgb(20, 23, 27)"
    assert serious(dark) == []


#: Texts of charts that reach beyond their chart, by more than a pixel.
_CUT = """one => [...one.querySelectorAll('[data-testid=stVegaLiteChart] svg')].flatMap(chart => {
    const end = chart.getBoundingClientRect().right + 1;
    return [...chart.querySelectorAll('text')].filter(
        text => text.getBoundingClientRect().right > end).map(text => text.textContent);
})"""


@pytest.mark.parametrize(
    "path", ["", f"/{LAB}", "/cost", f"/cost{LAB}", "/compare", "/predict", *UNFOLDED]
)
def test_no_label_of_a_chart_is_cut_on_a_phone(kept: Page, address: str, path: str) -> None:
    kept.set_viewport_size({"width": WIDTHS[-1], "height": 900})
    visit(kept, address + path)

    assert kept.get_by_test_id("stVegaLiteChart").count()
    assert kept.get_by_test_id("stMain").evaluate(_CUT) == []


@pytest.fixture(scope="module")
def large(kept: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard on the synthesised warehouse of the benchmarks, in its smaller size."""
    root = large_warehouse(tmp_path_factory.mktemp("large"), QUICK)
    with served(root, tmp_path_factory.mktemp("log") / "large.log") as found:
        yield found
        kept.goto("about:blank")  # Before the server is gone, which the page would complain of.


@pytest.mark.parametrize("path", LARGE)
def test_a_page_of_many_cells_opens_and_says_that_they_are_simulated(
    kept: Page, large: str, path: str
) -> None:
    visit(kept, large + path)

    expect(kept.get_by_test_id("stMain")).to_contain_text("imulated")
    assert sideways(kept) <= 0
