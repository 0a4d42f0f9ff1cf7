"""The Decide page in a real browser: a stranger's two files, the map that is clicked, lost links."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import recorded_drop
from tests.dashboard.browser.seen import (
    LAB,
    choose,
    drop,
    serious,
    served,
    settle,
    shared,
    take,
    title,
    visit,
)

pytestmark = pytest.mark.browser
FIXTURES = Path(__file__).parents[2] / "fixtures" / "vllm-bench"
#: What ``vllm bench serve --save-result --save-detailed`` wrote under names of its own.
BENCH = sorted(FIXTURES.glob("openai-*.json"))
MOST = 6
READ_MS = 120_000


@dataclass
class Hand:
    """A reader who opens the page and counts what he does."""

    page: Page
    done: int = 0

    def open_form(self) -> None:
        self.done += 1
        self.page.get_by_text("Add your results:").click()
        expect(self.page.get_by_test_id("stFileUploader")).to_be_visible()

    def drop(self, files: list[tuple[str, Path]]) -> None:
        self.done += 1
        drop(self.page, files)
        settle(self.page)

    def choose(self, label: str, option: str) -> None:
        self.done += 2
        choose(self.page, label, option)
        settle(self.page)

    def verdict(self) -> str:
        """The sentence on the files: the first heading below the page's own."""
        heading = self.page.get_by_role("heading", level=3).first
        expect(heading).to_be_visible(timeout=READ_MS)
        settle(self.page)
        return heading.inner_text()


def files_of(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def test_two_bench_files_of_a_stranger_get_a_verdict_and_nothing_is_stored(
    page: Page, address: str, recorded: Path
) -> None:
    before = files_of(recorded)
    visit(page, f"{address}/{LAB}")
    hand = Hand(page)

    hand.open_form()
    hand.drop([(path.name, path) for path in BENCH])
    # Nothing in the file says that its server drafted nothing.
    hand.choose(f"Arm of {BENCH[0].name}", "Baseline: no speculation")

    assert re.match(r"Open \(one launch\) at .*, speculative K=3, gives", hand.verdict())
    body = page.get_by_test_id("stMain")
    expect(body).to_contain_text("One launch of each arm cannot tell a gain from luck")
    expect(body.get_by_test_id("stVegaLiteChart")).to_have_count(3)
    assert files_of(recorded) == before
    hand.choose(f"Arm of {BENCH[1].name}", "n-gram lookup")
    expect(page.get_by_role("heading", level=3).first).to_contain_text("ngram", timeout=READ_MS)
    assert hand.done <= MOST
    assert serious(page) == []


def test_two_guidellm_reports_of_one_name_take_one_answer_more(
    page: Page, address: str, tmp_path: Path
) -> None:
    arms = [recorded_drop("code", "none"), recorded_drop("code", "draft_model", 3)]
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    visit(page, f"{address}/{LAB}")
    hand = Hand(page)

    hand.open_form()
    hand.drop([("benchmarks.json.zst", arm.report) for arm in arms] + [(broken.name, broken)])
    expect(page.get_by_text("Which file is the baseline,")).to_be_visible(timeout=READ_MS)
    hand.choose("Arm of benchmarks.json.zst", "Baseline: no speculation")
    other = page.get_by_role("combobox", name="Arm of benchmarks.json.zst", exact=True).nth(1)
    take(other, page.get_by_role("option", name="Speculative, method not stated", exact=True))
    settle(page)

    assert re.match(r"Open \(one launch\) at ", hand.verdict())
    assert hand.done <= MOST
    expect(page.get_by_text("broken.json: This is neither an AIPerf report")).to_have_count(1)


def test_files_are_kept_only_when_an_editor_asks(
    page: Page, recorded: Path, tmp_path: Path
) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(recorded, root)
    with served(root, tmp_path / "server.log") as address:
        visit(page, f"{address}/?add=true")
        hand = Hand(page)
        hand.drop([(path.name, path) for path in BENCH])
        hand.choose(f"Arm of {BENCH[0].name}", "Baseline: no speculation")
        hand.verdict()

        page.get_by_role("button", name="Keep these files in the warehouse").click()

        expect(page.get_by_text("Kept: 2 files")).to_be_visible(timeout=READ_MS)
        assert len(list((root / "uploads").rglob("*.json"))) == 2
        visit(page, f"{address}/?model=tiny")
        assert re.match(r"Open \(one launch\) at .*, speculative K=3, gives", title(page))
        page.goto("about:blank")  # Before the server is gone, which the page would complain of.


def test_a_click_on_the_map_chooses_traffic_and_load_and_the_link_holds_both(
    page: Page, address: str
) -> None:
    visit(page, f"{address}/{LAB}")
    chart = page.get_by_test_id("stVegaLiteChart").filter(has_text="Does it pay, and where?")
    field = chart.locator("svg g.mark-text text", has_text=re.compile("^gain$")).last

    field.click(force=True)

    expect(page).to_have_url(re.compile("traffic="))
    expect(page).to_have_url(re.compile("at_load="))
    settle(page)
    assert title(page).startswith("structured: ")
    link = shared(page)
    expect(page).to_have_title(re.compile("^Decide: lab-target"))
    visit(page, link)
    assert title(page).startswith("structured: ")


@pytest.mark.parametrize("old", ["verdict", "draft-tokens"])
def test_an_old_address_leads_here_with_what_it_asked(page: Page, address: str, old: str) -> None:
    visit(page, f"{address}/{old}{LAB}&traffic=prose&at_load=4")

    expect(page).to_have_url(re.compile("traffic=prose"))
    assert title(page).startswith("prose: ")


def test_a_link_to_a_subject_that_is_gone_shows_no_verdict(page: Page, address: str) -> None:
    page.goto(f"{address}/?about=lost+on+H100")

    expect(page.get_by_test_id("stMain")).to_contain_text("lost on H100")
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(0)
    expect(page.get_by_test_id("stMetric")).to_have_count(0)


def test_the_page_is_short_as_it_opens_and_unfolded(page: Page, address: str) -> None:
    visit(page, f"{address}/{LAB}")
    main = page.get_by_test_id("stMain")
    assert main.evaluate("one => one.scrollHeight") <= 2700
    folds = ("which_k", "against", "stake", "by_load", "same", "left_out", "rules", "changed")

    visit(page, f"{address}/{LAB}&traffic=code&{'&'.join(f'{name}=true' for name in folds)}")

    page.wait_for_timeout(2000)
    assert main.evaluate("one => one.scrollHeight") <= 6000
    assert page.get_by_test_id("stVegaLiteChart").count() <= 6
    assert serious(page) == []
