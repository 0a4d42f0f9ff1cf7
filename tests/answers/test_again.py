"""What is said of a cell that was measured again."""

import pytest

from analysis.evidence.words import Word
from answers.again import RepeatedLine, outcome, row


def line(
    word: Word, low: float | None, high: float | None, metric="output_throughput"
) -> RepeatedLine:
    return RepeatedLine(
        metric, "mean", original=100.0, again=101.0, lowest=100.0, highest=102.0, improvement=0.01,
        low=low, high=high, adjusted_low=low, adjusted_high=high, word=word,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        ([line("gain", 0.005, 0.015)], "differs", "It does not repeat: 1 of 1 figures differ"),
        ([line("likely loss", -0.01, 0.03)], "likely differs", "It probably does not repeat"),
        ([line("open", -0.009, 0.019)], "repeats", "It repeats: no figure is shown to differ"),
        ([line("open", -0.009, 0.021)], "open", "none to be the same: output throughput +1.0"),
        ([line("open", None, None)], "open", "one launch each says nothing"),
        ([], "open", "one launch each says nothing"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_the_headline_uses_the_words_of_every_decision(lines, status, said) -> None:
    assert outcome(lines)[0] == status
    assert said in outcome(lines)[1]


def test_the_throughput_is_named_where_it_is_among_what_differs() -> None:
    lines = [line("loss", -0.2, -0.1, "ttft"), line("gain", 0.005, 0.015), line("open", -1, 1)]
    _, said = outcome(lines)
    assert said.startswith("It does not repeat: 2 of 3 figures differ, Output throughput:")
    assert said.endswith("(95 %: 0.5 to 1.5\u202f%): gain.")


def test_an_interval_that_says_nothing_is_not_spelt_out() -> None:
    assert row(line("open", -0.009, 0.019))[5] == "-0.9 to +1.9\u202f%"
    assert row(line("open", -1e9, 0.9))[5] == "beyond ±1000 %"
    assert row(line("open", None, None))[5] == "none: one launch each"
