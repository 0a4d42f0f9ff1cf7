"""What stakeholders ask: each question is answered in at most one click from the first page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser.seen import DRAWN_MS, served, settle, visit
from tests.dashboard.tuning.conftest import fill_study

pytestmark = pytest.mark.browser
MOST_CLICKS = 1


@dataclass(frozen=True)
class Question:
    """``clicks``: links and buttons by their text, from the first page; ``answer``: a pattern of
    what then stands on the page."""

    text: str
    clicks: tuple[str, ...]
    answer: str


QUESTIONS = (
    Question("Should we turn it on, and which method with how many draft tokens?", (),
             r"(Yes|At some loads|Open).* at \d+ at once.*draft tokens?"),
    Question("How much more does the same machine serve?", (),
             r"Output throughput at \d+ at once\s+\+\d+\.\d\s?%\s+\w[\w ]*; 95\s?%: "),
    Question("What does it save at our load, and how sure is that?", (),
             r"Cost of an output token at \d+ at once\s+-\d+\.\d\s?%\s+(likely )?gain, same hardware; 95\s?%: "),
    Question("Does it hurt first-token latency?", ("What speaks against it",),
             r"\d+\.\d\s?% longer time to first token \(P95\)"),
    Question("Up to how many concurrent requests does it pay?", (),
             r"pays at [\d, and]+ at once"),
    Question("What speaks against it, and how good is the evidence?", ("What speaks against it",),
             r"What speaks against it: \d+.*\(95\s?%: .*(settled|likely)"),
    Question("What is still open, and what would settle it?", ("What is at stake",),
             r"At stake in the choice: \d+\.\d\s?%"),
    Question("Which K at which load?", ("Which method and K at which load?",),
             r"Taken: at 1 at once draft_model K=\d"),
    Question("What does it save per year at 50M tokens a day?", ("Cost & capacity",),
             r"For 1,000 million output tokens a day .* a year"),
    Question("How many GPUs does our traffic take within a service level?",
             ("Cost & capacity",),
             r"million output tokens a day (it takes \d+ GPUs? instead|both take \d+ GPU)"),
    Question("What do I type to serve it?", (), r"vllm serve .*num_speculative_tokens"),
    Question("Which load still meets our latency target?", ("Cost & capacity",),
             r"arms? in \d+ settings? meets? ttft:\S+ .*at some load"),
    Question("How does every latency change at every load?", ("Compare",),
             r"All metrics.*The study's table: .* against baseline"),
    Question("What if the load were higher, or K another?", ("Predict",),
             r"Predicted for K = \d at concurrency \d+: [\d,]+ output tokens per second"),
    Question("Did something get worse since the last release?", ("Trends",),
             r"(regression|not enough evidence|worse)"),
    Question("Where do the numbers come from, and how do I repeat them?",
             ("Data",), r"One run.*Run it again\s.*vllm serve .*Put the load on it"),
)  # fmt: skip


@pytest.fixture(scope="module")
def studied(kept: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard on a study with repeats, on a GPU that has a price."""
    root = tmp_path_factory.mktemp("studied")
    fill_study(root, launches=True)
    with served(root, tmp_path_factory.mktemp("log") / "studied.log") as found:
        yield found
        kept.goto("about:blank")  # Before the server is gone, which the page would complain of.


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.text)
def test_a_question_is_answered_in_one_click(kept: Page, studied: str, question: Question) -> None:
    visit(kept, studied)

    for name in question.clicks:
        _click(kept, name)

    assert len(question.clicks) <= MOST_CLICKS
    pattern = re.compile(question.answer, re.DOTALL)
    expect(kept.get_by_test_id("stMain")).to_have_text(
        pattern, use_inner_text=True, timeout=DRAWN_MS
    )


def _click(page: Page, name: str) -> None:
    """A link, else a button or the head of what is folded."""
    link = page.get_by_role("link", name=name, exact=True)
    wanted = link if link.count() else page.get_by_test_id("stMain").get_by_text(name)
    wanted.first.click()
    settle(page)


def test_whether_the_published_figures_are_right_is_one_click_from_the_demo(
    page: Page, address: str
) -> None:
    visit(page, address)
    _click(page, "Compare")
    pattern = re.compile(r"11 of 51 figures do not follow from their own rows")
    expect(page.get_by_test_id("stMain")).to_have_text(
        pattern, use_inner_text=True, timeout=DRAWN_MS
    )


def test_the_answer_can_be_sent_on_as_one_file(page: Page, studied: str) -> None:
    visit(page, studied)

    with page.expect_download() as started:
        page.get_by_role("button", name="Report", exact=True).click()

    assert started.value.suggested_filename.endswith(".html")
