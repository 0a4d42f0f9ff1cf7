"""The main control of every page, and that its link shows the same in a fresh profile."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.views import VIEWS
from tests.dashboard.browser.seen import (
    LAB,
    PUBLISHED,
    alike,
    choose,
    fresh,
    main,
    settle,
    shared,
    take,
    visit,
)

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Control:
    """``use``: what a reader does; ``parameter``: what the address then holds."""

    use: Callable[[Page], None]
    parameter: str


def _fill(label: str, text: str) -> Callable[[Page], None]:
    def use(page: Page) -> None:
        # Whichever of the two the page draws, which may be soon.
        box = page.get_by_role("textbox", name=label).or_(
            page.get_by_role("spinbutton", name=label)
        )
        box.fill(text)
        box.press("Enter")

    return use


def _own_price(page: Page) -> None:
    page.get_by_text("What you pay, and what you have to serve").click()
    choose(page, "Price", "my own price")
    settle(page)
    _fill("USD per hour", "3.6")(page)


def _higher_load(page: Page) -> None:
    page.get_by_role("slider", name="Concurrency").press("ArrowRight")


def _another_run(page: Page) -> None:
    take(page.get_by_role("combobox", name="Run", exact=True), page.get_by_role("option").nth(1))


def _another_figure(page: Page) -> None:
    page.get_by_role("radio", name="5: MLPerf, TP 1: all metrics").click()


#: Path -> its main control. A page that is not here is not asked.
CONTROLS = {
    "decide": Control(lambda page: choose(page, "Traffic", "prose"), "traffic=prose"),
    f"compare?subject={PUBLISHED}": Control(_another_figure, "figure=5"),
    "cost": Control(_own_price, r"usd_per_hour=3\.6"),
    "predict": Control(_higher_load, "load="),
    "trends": Control(_fill("How much worse is still fine?", "itl=3% 7%"), "budget=itl"),
    "data": Control(_another_run, "run="),
    "data?part=Published+figures": Control(
        lambda page: page.get_by_text("Show the figures that follow, too").click(), "all_figures="
    ),
    "data?part=Charts": Control(lambda page: choose(page, "Over", "Arm"), "x1=Arm"),
}  # fmt: skip


@pytest.mark.parametrize("path", CONTROLS)
def test_a_link_shows_in_a_fresh_profile_what_its_sender_saw(
    kept: Page, browser: Browser, address: str, path: str
) -> None:
    control = CONTROLS[path]
    visit(kept, f"{address}/{LAB if path == VIEWS[0].URL_PATH else path}")
    before = main(kept)

    control.use(kept)

    expect(kept).to_have_url(re.compile(control.parameter))
    settle(kept)
    with fresh(browser) as other:
        visit(other, shared(kept))
        alike(kept, other)
        assert main(other) != before
        expect(other).to_have_url(re.compile(control.parameter))
