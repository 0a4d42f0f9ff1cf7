"""What a decision says of an open load: the share that is served, and who meets the SLO."""

from pathlib import Path

import pytest

from answers.decide.answer import decide
from answers.decide.values import DecideQuestion, Decision
from tests.answers.test_compare import Fill, fill
from warehouse.store import Reader

__all__ = ["fill"]
RATE = ({"load_profile": "poisson", "rate": 4.0},)
TRACE = ({"load_profile": "trace", "trace": "bursts.csv"},)


def decided(path: Path, slo: str | None = None) -> Decision:
    with Reader(path) as reader:
        (one,) = decide(reader, DecideQuestion(slo=slo)).decisions
    return one


@pytest.mark.parametrize("loads", [RATE, TRACE])
def test_where_both_keep_up_latency_decides_and_the_shares_are_said(fill: Fill, loads) -> None:
    said = decided(fill(loads, attained={"none": 0.985}))
    assert said.operating is not None
    assert said.operating.difference.metric == "ttft"
    assert "shorter time to first token" in said.paragraph
    assert "Both keep up there (the baseline 98.5" in said.paragraph
    assert "so latency decides" in said.paragraph


@pytest.mark.parametrize(
    ("attained", "words"),
    [
        ({"none": 0.7}, "keeps up there: the baseline 70.0"),
        ({"none": 0.5, "eagle3": 0.8, "ngram": 0.6}, "Neither keeps up there: the baseline 50.0"),
        ({"eagle3": 0.8, "ngram": 0.6}, "The baseline alone keeps up there"),
    ],
)
def test_an_arm_that_falls_short_is_named_with_its_share(
    fill: Fill, attained: dict[str, float], words: str
) -> None:
    said = decided(fill(RATE, attained=attained))
    assert words in said.paragraph


def test_of_a_closed_load_nothing_is_said(fill: Fill) -> None:
    assert "keeps up" not in decided(fill()).paragraph


def test_who_meets_the_slo_is_said(fill: Fill) -> None:
    said = decided(fill(RATE, attained={}), "ttft:p95<80ms")
    assert "the baseline misses ttft:p95<80ms and eagle3 K=3 meets it" in said.paragraph
