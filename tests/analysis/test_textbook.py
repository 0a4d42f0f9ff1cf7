"""The two models without measurements, by hand and against the figures they were published with."""

from pathlib import Path

import pytest
import yaml

from analysis.prediction.reach import DECODE_CAPS, DecodeShare, Textbook, single_stream_speedup
from warehouse.errors import InvalidInput

STUDY = Path(__file__).parents[2] / "examples/claims/published-study.yaml"
#: An article's simulated end-to-end gains, by acceptance rate.
PUBLISHED = yaml.safe_load(STUDY.read_text(encoding="utf-8"))["what_if"]["points"]


@pytest.mark.parametrize(("acceptance", "gain"), PUBLISHED.items())
def test_one_set_of_parameters_meets_all_four_published_gains(
    acceptance: float, gain: float
) -> None:
    assert DecodeShare().gain(acceptance) == pytest.approx(gain, rel=0.025)


def test_a_gain_by_hand() -> None:
    # a = 0.5, K = 2: L = 1 + 0.5 + 0.25 = 1.75; s = 1.75 / 1.25 = 1.4; 1 / (0.5 + 0.5 / 1.4).
    model = DecodeShare(decode_share=0.5, num_speculative_tokens=2, draft_cost=0.125)
    assert model.gain(0.5) == pytest.approx(1 / (0.5 + 0.5 / 1.4))


def test_the_cap_holds_and_differs_by_kind_of_text() -> None:
    # Everything accepted: decoding would be 5 / 1.4 = 3.57 times as fast, and may be 2.0.
    assert DecodeShare(cap=DECODE_CAPS["natural_language"]).gain(1.0) == pytest.approx(1 / 0.7)
    assert DecodeShare().gain(1.0) == pytest.approx(1 / 0.6)


def test_drafts_that_are_never_accepted_cost_what_they_cost() -> None:
    # L = 1, s = 1 / 1.4: decoding takes 1.4 times as long, the request 0.4 + 0.84.
    assert DecodeShare().gain(0.0) == pytest.approx(1 / 1.24)


@pytest.mark.parametrize(
    ("accepted", "cost", "speedup"),
    [(0.0, 0.0, 1.0), (4.0, 0.1, 5 / 1.5), (1.0, 0.5, 1.0), (0.0, 0.1, 1 / 1.1)],
)
def test_the_single_stream_formula(accepted: float, cost: float, speedup: float) -> None:
    assert single_stream_speedup(accepted, cost) == pytest.approx(speedup)


@pytest.mark.parametrize("acceptance", [-0.1, 1.2, float("nan")])
def test_an_acceptance_in_percent_is_refused(acceptance: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        DecodeShare().gain(acceptance)


@pytest.mark.parametrize(("accepted", "cost"), [(-1.0, 0.1), (2.0, -0.1)])
def test_negative_figures_are_refused(accepted: float, cost: float) -> None:
    with pytest.raises(InvalidInput, match="0 or more"):
        single_stream_speedup(accepted, cost)


def test_both_models_share_their_parameters_and_are_marked() -> None:
    found = Textbook(0.5, 2, "code", decode_share=0.5, draft_cost=0.125)
    assert found.end_to_end_gain == pytest.approx(1 / (0.5 + 0.5 / 1.4))
    # μ = 0.5 + 0.25: 1.75 / (1.75 / 8 + 1).
    assert found.single_stream_speedup == pytest.approx(1.75 / (1.75 / 8 + 1))
    assert found.model.cap == 2.5
    assert found.as_json()["evidence"] == "textbook model"
