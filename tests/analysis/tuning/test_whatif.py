"""Predictions of what was not measured, against a fake server whose truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.drafts.acceptance_tables import position_counts
from analysis.matching.arms import load_points, of_family
from analysis.prediction.reach import Question
from analysis.prediction.rows import Points, Positions, points_of
from analysis.prediction.step_time import LEVEL
from analysis.prediction.whatif import (
    DraftedPoints,
    Forecast,
    Model,
    Prediction,
    Withheld,
    forecast,
)
from warehouse.errors import InvalidInput

Study = Callable[..., Any]
FAMILY = "draft_model (org/draft)"


def inputs(frames: Any, measurements: pd.DataFrame | None = None) -> tuple[Points, Positions]:
    measured = frames.measurements if measurements is None else measurements
    counts = position_counts(frames.cells, frames.acceptance, frames.positions)
    points = of_family(load_points(frames.cells, measured), 0, FAMILY)
    return points_of(points), Positions.of_frame(counts)


def model(frames: Any, dataset: str = "code") -> Model:
    return DraftedPoints(*inputs(frames)).model(dataset)


def test_a_load_and_a_k_between_the_measured_ones_are_predicted(
    study: Study, fake_server: Any
) -> None:
    found = model(study(ks=(0, 1, 2, 4))).predict(Question(k=3, concurrency=32))
    truth = fake_server().measured(32, 3, "code")
    assert found.mean_length == pytest.approx(truth["mean_acceptance_length"], rel=1e-3)
    for metric in ("itl", "ttft", "request_latency", "output_throughput"):
        assert getattr(found, metric) == pytest.approx(truth[metric], rel=0.01), metric
    assert found.warnings == ()


def test_a_step_takes_itl_times_length_and_a_prediction_adds_up(study: Study) -> None:
    found = model(study()).predict(Question(k=2, concurrency=16))
    assert found.step == pytest.approx(found.itl * found.mean_length)
    assert found.request_latency == pytest.approx((found.ttft + 199 * found.itl) / 1000)
    assert found.output_throughput == pytest.approx(16 * 200 / found.request_latency)


def test_a_better_draft_makes_the_same_steps_yield_more(study: Study) -> None:
    measured = model(study())
    now = measured.predict(Question(k=3, concurrency=16))
    better = measured.predict(Question(k=3, concurrency=16, mean_length=3.6))
    # But for the prompts that they take in more often.
    assert better.step == pytest.approx(now.step, rel=0.02)
    assert better.itl == pytest.approx(better.step / 3.6)
    assert better.output_throughput > now.output_throughput


def test_longer_outputs_spread_the_first_token_over_more(study: Study) -> None:
    measured = model(study())
    now = measured.predict(Question(k=3, concurrency=16))
    longer = measured.predict(Question(k=3, concurrency=16, output_tokens=400))
    assert longer.request_latency == pytest.approx((now.ttft + 399 * now.itl) / 1000)
    assert longer.warnings == (
        "An output length in tokens of 400 is outside what was measured (200).",
    )


def test_a_load_that_was_never_reached_is_not_predicted_as_if_it_were(
    study: Study, fake_server: Any
) -> None:
    server = fake_server(occupancy=0.7)
    found = model(study(server=server)).predict(Question(k=3, concurrency=32))
    truth = server.measured(32, 3, "code")
    assert found.itl == pytest.approx(truth["itl"], rel=0.01)
    assert found.output_throughput == pytest.approx(truth["output_throughput"], rel=0.01)


def test_a_dataset_that_is_slower_than_the_others_is_predicted_slower(
    study: Study, fake_server: Any
) -> None:
    lengths = {"short": (100, 200), "middle": (1000, 200), "long": (5000, 200)}
    frames = study(server=fake_server(lengths=lengths))
    of_middle = frames.cells.loc[frames.cells["dataset"] == "middle", "cell_id"]
    slow = frames.measurements["cell_id"].isin(of_middle) & (frames.measurements["metric"] == "itl")
    frames.measurements.loc[slow, "value"] *= 1.5
    measured = DraftedPoints(*inputs(frames)).model("middle")
    truth = 1.5 * fake_server(lengths=lengths).measured(16, 3, "middle")["itl"]
    assert measured.predict(Question(k=3, concurrency=16)).itl == pytest.approx(truth, rel=0.1)


def test_prompts_of_several_lengths_tell_what_a_prompt_token_costs(
    study: Study, fake_server: Any
) -> None:
    lengths = {"short": (100, 200), "middle": (1000, 200), "long": (5000, 200)}
    server = fake_server(lengths=lengths)
    measured = DraftedPoints(*inputs(study(server=server))).model("middle")
    found = measured.predict(Question(k=3, concurrency=16, prompt_tokens=3000))
    truth = fake_server(lengths={"asked": (3000, 200)}).measured(16, 3, "asked")
    assert found.warnings == ()
    assert found.itl == pytest.approx(truth["itl"], rel=0.03)
    assert found.output_throughput == pytest.approx(truth["output_throughput"], rel=0.03)


def test_two_measured_contexts_tell_what_lies_between_them_and_nothing_beyond(
    study: Study, fake_server: Any
) -> None:
    lengths = {"short": (500, 200), "long": (4000, 200)}
    measured = DraftedPoints(*inputs(study(server=fake_server(lengths=lengths), noise=0.02))).model(
        "short"
    )
    assert measured.step_time.knows_prompts
    found = measured.predict(Question(3, 16, prompt_tokens=2000))
    truth = fake_server(lengths={"asked": (2000, 200)}).measured(16, 3, "asked")
    assert found.warnings == ()
    for metric in ("itl", "output_throughput"):
        assert found.bands[metric].low <= truth[metric] <= found.bands[metric].high
    for length in (330, 6010):
        with pytest.raises(InvalidInput, match="is too far from what was measured"):
            measured.predict(Question(3, 16, prompt_tokens=length))


def test_lengths_that_hardly_differ_are_one_context_and_tell_nothing_of_others(
    study: Study, fake_server: Any
) -> None:
    lengths = {"short": (500, 200), "longer": (700, 200)}
    measured = DraftedPoints(*inputs(study(server=fake_server(lengths=lengths)))).model("short")
    assert not measured.step_time.knows_prompts
    with pytest.raises(InvalidInput, match="tokens of 760 is too far from what was measured"):
        measured.predict(Question(3, 16, prompt_tokens=760))


@pytest.mark.parametrize(
    ("question", "warning"),
    [
        (Question(5, 16), "K of 5 is outside what was measured (2 to 4)."),
        (Question(1, 16), "K of 1 is outside what was measured (2 to 4)."),
        (Question(3, 128), "Concurrency of 128 is outside what was measured (1 to 64)."),
    ],
)
def test_outside_the_measured_range_it_says_so(
    study: Study, question: Question, warning: str
) -> None:
    assert model(study(ks=(0, 2, 4))).predict(question).warnings == (warning,)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(9, 16), "K of 9 is too far"),
        (Question(3, 129), "Concurrency of 129 is too far"),
        (Question(3, 16, prompt_tokens=1000), "A prompt length in tokens of 1,000 is too far"),
        (Question(3, 16, prompt_tokens=151), "A prompt length in tokens of 151 is too far"),
        (Question(3, 16, prompt_tokens=66), "A prompt length in tokens of 66 is too far"),
        (Question(3, 16, output_tokens=99), "An output length in tokens of 99 is too far"),
        (Question(3, 16, mean_length=4.1), "between 1 and 4"),
        (Question(3, 16, mean_length=0.9), "between 1 and 4"),
    ],
)
def test_far_outside_it_refuses(study: Study, question: Question, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        model(study(ks=(0, 2, 4))).predict(question)


def test_no_baseline_is_predicted_from_speculative_arms(study: Study) -> None:
    with pytest.raises(InvalidInput, match="No baseline was measured"):
        model(study(ks=(2, 3))).predict(Question(0, 16))


def test_a_dataset_that_was_not_measured_is_named(study: Study) -> None:
    with pytest.raises(InvalidInput, match=r"'prose'; there is code\."):
        model(study(), "prose")
    with pytest.raises(InvalidInput, match="Only the baseline was measured on 'code'"):
        model(study(ks=(0,)))


def test_without_positions_the_lengths_by_k_give_the_decay(study: Study) -> None:
    frames = study(ks=(0, 2, 3))
    points, positions = inputs(frames)
    none = positions.where(positions.k < 0)
    found = DraftedPoints(points, none).model("code").predict(Question(4, 16))
    assert found.mean_length == pytest.approx(1 + 0.75 + 0.525 + 0.3465 + 0.21483, rel=0.02)


def of(withheld: tuple[Withheld, ...], left_out: str, metric: str) -> list[Withheld]:
    return [one for one in withheld if (one.left_out, one.metric) == (left_out, metric)]


def test_every_withheld_k_and_load_is_predicted_with_little_noise(study: Study) -> None:
    found = DraftedPoints(*inputs(study(noise=0.02, ks=(0, 1, 2, 3, 4, 5)))).model("code").withheld
    assert {one.k for one in of(found, "k", "itl")} == {1, 2, 3, 4, 5}
    # Withholding the lowest of 1, 4, 16, 64 leaves it too far away to be asked for.
    assert {one.concurrency for one in of(found, "concurrency", "itl")} == {4, 16}
    for left_out in ("k", "concurrency"):
        errors = [abs(one.error) for one in of(found, left_out, "output_throughput")]
        assert np.median(errors) < 0.03
    assert max(abs(one.error) for one in of(found, "k", "mean_length") if one.inside) < 0.03


def test_a_withheld_point_does_not_help_to_predict_itself(study: Study) -> None:
    frames = study(ks=(0, 1, 2, 3))
    odd = frames.cells.loc[frames.cells["num_speculative_tokens"] == 2, "cell_id"]
    slowed = frames.measurements.copy()
    rows = slowed["cell_id"].isin(odd) & (slowed["metric"] == "itl")
    slowed.loc[rows, "value"] *= 1.5
    found = of(DraftedPoints(*inputs(frames, slowed)).model("code").withheld, "k", "itl")
    assert [one.error for one in found if one.k == 2] == pytest.approx([1 / 1.5 - 1] * 4, abs=0.02)


def test_errors_that_were_found_widen_every_band(study: Study) -> None:
    frames = study(ks=(0, 1, 2, 3, 4, 5))
    odd = frames.cells.loc[frames.cells["num_speculative_tokens"].isin([2, 4]), "cell_id"]
    slowed = frames.measurements.copy()
    rows = slowed["cell_id"].isin(odd) & (slowed["metric"] == "itl")
    slowed.loc[rows, "value"] *= 1.3
    plain, rough = (DraftedPoints(*inputs(frames, m)).model("code") for m in (None, slowed))
    assert width(rough.predict(Question(3, 32))) > 3 * width(plain.predict(Question(3, 32)))
    assert rough.widths["itl"] > plain.widths["itl"]


def width(found: Prediction, metric: str = "output_throughput") -> float:
    band = found.bands[metric]
    return band.high / band.low - 1


def test_a_band_is_wider_beyond_what_was_measured(study: Study) -> None:
    measured = model(study(noise=0.03))
    inside = width(measured.predict(Question(3, 32)))
    assert width(measured.predict(Question(3, 128))) > inside
    assert width(measured.predict(Question(5, 32))) > inside


def test_a_band_holds_what_is_predicted_and_what_was_measured_nearly_always(study: Study) -> None:
    held = []
    for seed in range(10):
        measured = DraftedPoints(*inputs(study(noise=0.04, seed=seed))).model("code")
        held += [one.held for one in measured.withheld if one.metric != "mean_length"]
        for one in measured.withheld:
            assert one.low <= one.predicted <= one.high
    assert LEVEL - 0.08 < np.mean(held) < LEVEL + 0.08


def test_tokens_that_no_arm_drafted_are_doubted(study: Study) -> None:
    measured = model(study(ks=(0, 1, 2, 4)))
    assert measured.usual.doubt(4) == 0
    assert measured.usual.doubt(3) == 0
    # Position 5 is accepted in 0.75 · 0.7 · 0.66 · 0.62 · p of the drafts, a fifth of it in doubt.
    fifth = measured.usual.length(5) - measured.usual.length(4)
    assert measured.usual.doubt(5) == pytest.approx(0.2 * fifth / measured.usual.length(5))


def test_the_acceptance_of_a_withheld_k_is_withheld_too(study: Study, fake_server: Any) -> None:
    # Only K = 5 knows that the fifth token is hardly ever accepted.
    server = fake_server(acceptance=(0.75, 0.7, 0.66, 0.62, 0.2))
    found = (
        DraftedPoints(*inputs(study(server=server, ks=(0, 1, 2, 3, 4, 5)))).model("code").withheld
    )
    assert all(one.error > 0.02 for one in of(found, "k", "mean_length") if one.k == 5)


def test_one_k_and_one_load_leave_nothing_to_withhold(study: Study) -> None:
    measured = DraftedPoints(*inputs(study(ks=(0, 3), loads=(8,)))).model("code")
    assert measured.withheld == ()
    found = measured.predict(Question(3, 8))
    assert found.bands == {}
    assert "too few K and loads" in str(measured.why_no_band(found.question))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(4, 16), "one K was measured"),
        (Question(3, 16, output_tokens=300), "no request was that short or that long"),
        (Question(3, 16, prompt_tokens=150), "no request was that short or that long"),
    ],
)
def test_what_was_never_withheld_has_no_band(study: Study, question: Question, words: str) -> None:
    measured = model(study(ks=(0, 3)))
    assert measured.predict(question).bands == {}
    assert words in str(measured.why_no_band(question))
    assert set(measured.predict(Question(3, 32)).bands) == {
        "output_throughput", "itl", "ttft", "request_latency",
    }  # fmt: skip


def test_with_one_load_another_has_no_band(study: Study) -> None:
    measured = model(study(ks=(0, 1, 2, 3), loads=(8,)))
    assert measured.predict(Question(2, 8)).bands
    assert measured.predict(Question(2, 16)).bands == {}
    assert "one load was measured" in str(measured.why_no_band(Question(2, 16)))


def test_many_questions_at_once_get_the_answers_of_each(study: Study) -> None:
    measured = model(study(noise=0.05))
    asked = [Question(3, 8), Question(0, 64), Question(5, 128), Question(2, 4, mean_length=1.5)]
    for one, many in zip(asked, measured.predict_all(asked), strict=True):
        alone = measured.predict(one)
        assert many.itl == pytest.approx(alone.itl)
        assert many.bands["ttft"].high == pytest.approx(alone.bands["ttft"].high, rel=1e-3)
    assert measured.predict_all([]) == []


def answer(frames: Any, question: Question) -> Forecast:
    return forecast(DraftedPoints(*inputs(frames)).model("code"), question)


def test_a_forecast_stands_beside_the_baseline(study: Study) -> None:
    found = answer(study(), Question(3, 8))
    assert found.baseline is not None
    ratio = found.prediction.output_throughput / found.baseline.output_throughput
    assert found.improvement("output_throughput") == pytest.approx(ratio - 1)
    shorter = 1 - found.prediction.itl / found.baseline.itl
    assert found.improvement("itl") == pytest.approx(shorter)


def test_at_the_break_even_length_speculation_just_matches_the_baseline(study: Study) -> None:
    frames = study()
    (length,) = model(frames).break_even([Question(3, 32)]).middle
    even = answer(frames, Question(3, 32, mean_length=float(length)))
    assert even.improvement("output_throughput") == pytest.approx(0, abs=1e-3)


def test_a_forecast_without_a_baseline_claims_no_improvement(study: Study) -> None:
    found = answer(study(ks=(2, 3)), Question(3, 8))
    assert found.baseline is None
    assert found.improvement("itl") is None


def test_the_order_of_rows_and_the_unit_of_a_name_change_nothing(study: Study) -> None:
    frames = study(noise=0.05)
    points, positions = inputs(frames)
    chance = np.random.default_rng(3)
    rows, counts = (chance.permutation(len(one.k)) for one in (points, positions))
    shuffled = points.where(rows), positions.where(counts)
    question = Question(3, 8)
    assert DraftedPoints(*shuffled).model("code").predict(
        question
    ).output_throughput == pytest.approx(
        DraftedPoints(points, positions).model("code").predict(question).output_throughput
    )
