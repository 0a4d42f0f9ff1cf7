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

from answers.decide.tables import summary
from answers.decide.values import Question
from dashboard.data import cost as data_cost
from dashboard.data import decide as data_decide
from dashboard.data.report import Wanted, report
from dashboard.report import html
from dashboard.report_parts import MOST_ROWS
from dashboard.shelf import open_shelf
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.filters import Filters

FACTS = {"model": "lab/tiny-target"}
FILTERS = Filters(model=(FACTS["model"],), gpu=("H200",))
HOSTILE = "</script><img src=x onerror=alert(1)>"
MOST_BYTES = 5_000_000


@pytest.mark.usefixtures("warehouse")
def test_it_says_the_same_as_the_verdict_and_the_cost_page() -> None:
    shelf = open_shelf()
    question = Question(FILTERS)
    (subject,) = data_decide.subjects(shelf, question).values()
    wanted = Wanted(question, tokens_per_day=50e6)

    made = report(shelf, wanted)

    assert made.headline == subject.headline
    assert dict(made.scope)["Speculation"] == subject.leads[0].arm
    grids = {grid.caption: grid for section in made.sections for grid in section.grids}
    decided = grids["What to serve with"].rows
    assert [list(row) for row in decided] == summary(subject.decisions)[1]
    asked = data_cost.Asked(
        data_decide.narrowed(subject, FILTERS), wanted.paying, tokens_per_day=50e6
    )
    cost = data_cost.cost_answer(shelf, asked)
    assert cost.headline in [text for section in made.sections for text in section.paragraphs]
    assert len(grids["USD per million output tokens"].rows) == min(cost.totals.total, MOST_ROWS)


def _ours(page: str) -> str:
    """The page without the library that draws the charts."""
    return page.replace(vl_convert.javascript_bundle(), "")


@pytest.mark.usefixtures("warehouse")
def test_it_stands_alone_and_is_small() -> None:
    page = html(
        report(open_shelf(), Wanted(Question(FILTERS), link="http://localhost:8501/?model=a&gpu=b"))
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
    page = html(report(open_shelf(), Wanted(Question())))

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

    made = report(open_shelf(), Wanted(Question()))

    assert dict(made.scope)["Hardware"] == "unknown"
    assert dict(made.scope)["Measured"] == "unknown when"
    assert made.badges == ("evidence unknown",)
    assert "unknown" in html(made).split("What does it cost")[1]


@pytest.mark.usefixtures("warehouse")
def test_what_cannot_be_reported_is_one_sentence() -> None:
    shelf = open_shelf()
    with pytest.raises(UnknownKey, match="No cell matches"):
        report(shelf, Wanted(Question(Filters(dataset=("gone",)))))
    with pytest.raises(UnknownKey, match="There is no subject 'x'"):
        report(shelf, Wanted(Question(), subject="x"))
    with pytest.raises(InvalidInput, match="no verdict to report"):
        report(shelf, Wanted(Question(Filters(gpu=("B200",)))))


def test_the_command_writes_the_file(filled: Path, tmp_path: Path) -> None:
    from dashboard.report_cli import report as command

    out = tmp_path / "report.html"
    words = ["--warehouse", str(filled), "--gpu", "H200", "--usd-per-hour", "4", "--out", str(out)]
    done = CliRunner().invoke(command, [*words, "--tokens-per-day", "5e7"], catch_exceptions=False)

    assert done.exit_code == 0
    assert done.output.startswith(f"Wrote {out}")
    assert "50 million output tokens a day" in out.read_text(encoding="utf-8")
    assert "Example:" in CliRunner().invoke(command, ["--help"]).output


@pytest.mark.browser
@pytest.mark.usefixtures("warehouse")
def test_in_a_browser_it_draws_every_chart_asks_the_network_nothing_and_prints_short(
    tmp_path: Path,
) -> None:
    made = report(open_shelf(), Wanted(Question(FILTERS)))
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
    assert pages <= 10
