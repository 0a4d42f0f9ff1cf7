"""A published study as values: what was printed, recomputed, and what was measured here."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.published.claims import judge
from analysis.published.claims_file import read_claims
from answers.compare.values import (
    ArmChange,
    ComparedArm,
    ComparedSetting,
    GeometricMean,
    RepeatSpan,
)
from answers.decide.values import DecisionSubject
from answers.published.answer import study
from answers.published.values import MEAN, PEAK, MeasuredHere, PublishedStudy
from warehouse.filters import Filters
from warehouse.loads import Load

FILE = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"


def told(settings: tuple[ComparedSetting, ...] = ()) -> PublishedStudy:
    tables = read_claims(FILE.read_text(encoding="utf-8"), FILE.name)
    return study(tables, judge(tables), settings)


def here() -> tuple[ComparedSetting, ...]:
    """EAGLE-3 measured on ShareGPT: +25 % on average and +30 % at 100 at once in TTFT P95, in ms."""
    subject = DecisionSubject(None, "openai/gpt-oss-120b", "H200", 1, "vllm", "0.13.0", 1, "gpu")
    change = ArmChange(
        Load("concurrency", 100.0), "ttft", "p95", True, RepeatSpan(12000.0, 11000.0, 13000.0),
        RepeatSpan(8400.0, 8000.0, 9000.0), 0.3, 0.2, 0.4, 0.15, 0.45, "gain", 3, 3, ("a", "b"),
    )  # fmt: skip
    mean = GeometricMean("ttft", "p95", 8000.0, 6000.0, 0.25, ("1", "100"), (), ())
    arm = ComparedArm("eagle3 K=3", "eagle3 K=3", (), (change,), (mean,), (), (), (), True)
    return (ComparedSetting("ShareGPT · TP 1", subject, "sharegpt", (arm,)),)


def test_the_headline_says_what_was_printed_and_gives_no_advice() -> None:
    found = told()

    assert found.headline == (
        "Published: EAGLE-3 with 3 draft tokens, 9.5 to 20.7 % more output tokens per second on "
        "average over loads 1 to 200."
    )
    assert found.title.endswith("[published, single run]")


def test_the_length_that_follows_from_a_printed_rate_stands_beside_the_printed_one() -> None:
    # Length = 1 + K times the rate.
    assert told().drafts == (
        ("2", "45.4 %", "1.91", "1.91"), ("3", "35.6 %", "2.07", "2.07"), ("4", "28.3 %", "2.13", "2.13"),
    )  # fmt: skip


def test_each_figure_has_what_was_printed_of_it() -> None:
    figures = told().figures

    assert [one.number for one in figures] == list(range(1, 9))
    assert [len(one.plots) for one in figures] == [2, 2, 2, 2, 6, 6, 2, 3]
    first = figures[0].plots[0].values
    assert [(v.arm, v.of, v.text) for v in first] == [
        ("baseline", MEAN, "970.9"), ("eagle3 K=3", MEAN, "1,171.7"),
        ("baseline", PEAK, "2,024"), ("eagle3 K=3", PEAK, "2,574"),
    ]  # fmt: skip
    ttft = figures[1].plots[0].values
    assert {v.of for v in ttft} == {MEAN, "100 at once", "200 at once"}


def test_the_figure_of_draft_tokens_compares_numbers_of_draft_tokens() -> None:
    figure = told().figures[3]

    speed = figure.plots[0].values
    assert [(v.arm, v.text) for v in speed if v.of == MEAN] == [
        ("eagle3 K=2", "1,160.6"), ("eagle3 K=3", "1,171.7"), ("eagle3 K=4", "1,078.4"),
    ]  # fmt: skip
    assert {v.text for v in speed if v.of == PEAK} == {"2,480", "2,574", "2,240"}


def test_flagged_figures_are_named_where_they_stand() -> None:
    found = told()

    flagged = {
        (t.title, line.metric): line.flag for t in found.tables for line in t.lines if line.flag
    }
    assert flagged == {
        ("MLPerf, TP 1", "itl"): "swapped with another row",
        ("MLPerf, TP 1", "tpot"): "swapped with another row",
        ("MLPerf, TP 2", "ttft"): "wrong sign",
    }
    assert "TTFT, P95 -9.2 %" in found.figures[5].answer
    assert len(found.mistakes) == 4
    assert (found.checked, found.flagged) == (51, 11)


def test_money_stands_as_printed_recomputed_and_on_the_gpus_used() -> None:
    assert told().money[0][1:] == ("4.41 USD", "4.41 USD", "0.551 USD")


def test_what_was_measured_here_stands_beside_in_the_printed_unit() -> None:
    found = told(here())
    table = next(one for one in found.tables if one.title == "ShareGPT, TP 1")

    lines = {line.metric: line for line in table.lines}
    assert lines["ttft"].measured == (
        MeasuredHere("eagle3 K=3", (), MEAN, 8.0, 6.0, 0.25, None, None, None),
    )
    assert lines["itl"].measured == ()
    at_load = [m for m in found.figures[1].plots[0].measured if m.of == "100 at once"]
    assert [(m.value, m.word) for m in at_load] == [(8.4, "gain")]
    others = [line for one in found.tables if one is not table for line in one.lines]
    assert not any(line.measured for line in others)


def test_acceptance_that_was_set_by_hand_stands_beside_without_a_word_or_an_interval() -> None:
    (setting,) = here()
    by_hand = ("dummy weights", "synthetic acceptance")
    arm = replace(setting.arms[0], badges=by_hand)
    plot = told((replace(setting, arms=(arm,)),)).figures[1].plots[0]

    assert [(m.of, m.value, m.badges, m.low, m.high, m.word) for m in plot.measured] == [
        (MEAN, 6.0, by_hand, None, None, None), ("100 at once", 8.4, by_hand, None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "meets"),
    [
        (Filters(), True),
        (Filters(model=("openai/gpt-oss-120b",)), True),
        (Filters(dataset=("MLPerf",)), True),
        (Filters(dataset=("code",)), False),
        (Filters(gpu=("H100",)), False),
        (Filters(arm=("baseline",)), False),
        (Filters(since="2026-01-01"), False),
    ],
)
def test_filters_keep_a_study_that_they_can_be_about(filters: Filters, meets: bool) -> None:
    assert told().meets(filters) is meets
