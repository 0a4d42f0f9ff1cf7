"""The report: one file that needs nothing else and says the dashboard's numbers."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from analysis.money.cost import Demand
from answers.cost.answer import cost
from answers.cost.values import Terms
from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.tables import summary
from answers.decide.values import DecideQuestion, Decisions
from answers.report import ReportRequest, Section, StakeholderReport, report
from dashboard.downloads import html
from dashboard.shelf import open_shelf
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.filters import Filters

FACTS = {"model": "lab/tiny-target"}
FILTERS = Filters(model=(FACTS["model"],), gpu=("H200",))
HOSTILE = "</script><img src=x onerror=alert(1)>"
MOST_BYTES = 5_000_000
MOST_PAGES = 4


@pytest.mark.usefixtures("warehouse")
def test_it_says_the_same_as_the_decision_and_its_costs() -> None:
    known = open_shelf().reader
    (subject,) = overviews(decide(known, DecideQuestion(FILTERS)).decisions)
    daily = 50e6

    made = report(known, ReportRequest(DecideQuestion(FILTERS), tokens_per_day=daily))

    assert made.headline == subject.headline
    assert dict(made.scope)["Speculation"] == subject.leads[0].arm
    grids = {grid.caption: grid for section in made.sections for grid in section.grids}
    assert [list(row) for row in grids["What to serve with"].rows] == summary(subject.decisions)[1]
    money = cost(Decisions(subject.decisions), Terms(demand=Demand(daily)))
    section = next(one for one in made.sections if "cost" in one.title)
    assert section.paragraphs == (money.headline,)
    assert len(grids["Output tokens"].rows) == len(money.rows)
    assert "no pair" not in html(made).casefold()


def _section(made: StakeholderReport, title: str) -> Section:
    return next(one for one in made.sections if one.title == title)


def test_it_counts_what_it_shows_of_more_than_it_has_room_for(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for method, k in (("none", None), ("eagle3", 3), ("eagle3", 5)):
        arm = {"spec_method": method, "num_speculative_tokens": k}
        known = [
            make_facts(dataset=f"set {n:02}", concurrency=load, **arm)
            for n in range(14)
            for load in (1, 4)
        ]
        fill_cells(empty_place, f"{method} {k}", known)

    made = report(open_shelf().reader, ReportRequest(DecideQuestion()))

    pays = _section(made, "Does it pay, and at which loads?")
    assert len(pays.figures) == 4
    assert "4 of 15 load maps are shown; the others stand in the dashboard." in pays.notes
    assert (len(pays.grids[0].rows), pays.grids[0].more) == (12, 3)
    drafts = _section(made, "What to draft at which load?")
    assert (
        f"{len(drafts.grids)} of 15 tables are shown; the others stand in the dashboard."
        in drafts.notes
    )
    speed = _section(made, "How fast is it?")
    assert len(speed.figures) == 6
    assert speed.notes[0].startswith("1 of 14 settings")


def _ours(page: str) -> str:
    """The page without the library that draws the charts."""
    return page.replace(vl_convert.javascript_bundle(), "")


@pytest.mark.usefixtures("warehouse")
def test_it_stands_alone_and_is_small() -> None:
    page = html(
        report(
            open_shelf().reader,
            ReportRequest(DecideQuestion(FILTERS), link="http://localhost:8501/?model=a&gpu=b"),
        )
    )

    assert len(page.encode()) < MOST_BYTES
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|img|link|iframe)[^>]+(src|href)=", _ours(page))
    assert 'href="http://localhost:8501/?model=a&amp;gpu=b"' in page
    for title in ("Does it pay", "cost", "How is this calculated", "Where do the numbers come"):
        assert title in page


@pytest.fixture
def hostile(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    """A study whose names would be markup if anybody let them."""
    for method, k in (("none", None), (HOSTILE, 3)):
        arm = {"spec_method": method, "num_speculative_tokens": k}
        facts = [make_facts(model=HOSTILE, dataset=HOSTILE, concurrency=c, **arm) for c in (1, 4)]
        fill_cells(empty_place, f"run {method}", facts)


@pytest.mark.usefixtures("hostile")
def test_markup_in_any_name_is_text() -> None:
    page = html(report(open_shelf().reader, ReportRequest(DecideQuestion())))

    assert "<img" not in _ours(page)
    assert "&lt;img" in page
    charts = page.split('id="charts">')[1].split("</script>")[0]
    assert HOSTILE in json.dumps(json.loads(charts))


def test_unknown_values_everywhere_are_said(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for method, k in (("none", None), ("ngram", 3)):
        facts = make_facts(
            model=None, gpu=None, engine=None, engine_version=None, tensor_parallel_size=None,
            gpu_count=None, precision=None, evidence=None, spec_method=method,
            num_speculative_tokens=k,
        )  # fmt: skip
        fill_cells(empty_place, method, [facts], started_at=None)

    made = report(open_shelf().reader, ReportRequest(DecideQuestion()))

    assert dict(made.scope)["Hardware"] == "unknown"
    assert dict(made.scope)["Measured"] == "unknown when"
    assert made.badges == ("evidence unknown",)
    assert "unknown" in html(made).split("What does it cost")[1]


@pytest.mark.usefixtures("warehouse")
def test_what_cannot_be_reported_is_one_sentence() -> None:
    shelf = open_shelf()
    with pytest.raises(UnknownKey, match="No cell matches"):
        report(shelf.reader, ReportRequest(DecideQuestion(Filters(dataset=("gone",)))))
    with pytest.raises(UnknownKey, match="There is no subject 'x'"):
        report(shelf.reader, ReportRequest(DecideQuestion(), subject="x"))
    with pytest.raises(InvalidInput, match="no verdict to report"):
        report(shelf.reader, ReportRequest(DecideQuestion(Filters(gpu=("B200",)))))


def test_the_command_writes_the_file(filled: Path, tmp_path: Path) -> None:
    from commands.share import report as command

    out = tmp_path / "report.html"
    words = ["--warehouse", str(filled), "--gpu", "H200", "--usd-per-hour", "4", "--out", str(out)]
    done = CliRunner().invoke(command, [*words, "--tokens-per-day", "5e7"], catch_exceptions=False)

    assert done.exit_code == 0
    assert done.output.startswith(f"Wrote {out}")
    assert "50 million output tokens a day" in out.read_text(encoding="utf-8")
    assert "Example:" in CliRunner().invoke(command, ["--help"]).output


@pytest.fixture
def wide(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    """A study of fourteen arms on six datasets and two sizes."""
    arms = [("none", None), *((m, k) for m in ("eagle3", "ngram") for k in range(1, 8))]
    for method, k in arms:
        arm = {"spec_method": method, "num_speculative_tokens": k}
        known = [
            make_facts(dataset=f"set {n}", tensor_parallel_size=size, concurrency=load, **arm)
            for n in range(6)
            for size in (1, 2)
            for load in (1, 2, 4, 8, 16)
        ]
        fill_cells(empty_place, f"{method} {k}", known)


@pytest.mark.browser
@pytest.mark.parametrize("results", ["warehouse", "wide"])
def test_in_a_browser_it_draws_every_chart_asks_the_network_nothing_and_prints_short(
    tmp_path: Path, results: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(results)
    made = report(open_shelf().reader, ReportRequest(DecideQuestion(), tokens_per_day=50e6))
    file = tmp_path / "report.html"
    file.write_text(html(made), encoding="utf-8")
    wanted = sum(len(section.figures) for section in made.sections)
    asked: list[str] = []
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(file.as_uri())
        page.wait_for_function(f"document.querySelectorAll('.chart svg').length >= {wanted}")
        pages = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True)))
        browser.close()

    assert asked == [file.as_uri()]
    assert wrong == []
    assert pages <= MOST_PAGES
