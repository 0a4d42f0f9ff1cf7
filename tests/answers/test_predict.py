"""Forecasts as values: what they stand on, what may be asked, and that unknown is said as such."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.money.paying import Paying, Refusal
from analysis.prediction.reach import Question
from answers.predict.answer import fitted, forecast_answer, forecast_lines, predict, subjects
from answers.predict.break_even import break_even
from answers.predict.values import (
    FittedPlace,
    ForecastAnswer,
    ForecastCost,
    RefusedForecast,
    forecasts_json,
    numbers,
    title,
)
from tests.dashboard.conftest import source
from tests.dashboard.tuning.conftest import arm, fill_study, tuned_cell
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Flag
from warehouse.store import Reader, open_writer

UNPRICED = Paying()


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("studied")
    fill_study(root)
    return root


def found_at(
    root: Path, asked: Question, paying: Paying = UNPRICED
) -> list[ForecastAnswer | RefusedForecast]:
    with Reader(root) as reader:
        return list(predict(reader, Filters(), asked, paying))


def of_code(root: Path, **changes: Any) -> FittedPlace:
    if changes:
        fill_study(root, **changes)
    with Reader(root) as reader:
        (one,) = (s for s in subjects(reader, Filters()) if s.place.dataset == "code")
    return fitted(one)


def test_every_family_and_dataset_has_its_answer(studied: Path) -> None:
    code, chat = sorted(found_at(studied, Question(3, 32)), key=lambda one: one.place.dataset)[::-1]
    assert (code.place.dataset, chat.place.dataset) == ("code", "chat")
    assert isinstance(code, ForecastAnswer)
    throughput = code.figures[0]
    assert throughput.low is not None
    assert throughput.high is not None
    assert throughput.low < throughput.predicted < throughput.high
    assert throughput.measured is None
    assert (
        title(code.place) == "draft_model (tiny-draft) on code, lab/target, TP 1, H200 [simulated]"
    )
    assert code.headline.startswith("Predicted for K = 3 at concurrency 32: ")


def test_what_was_measured_stands_beside_what_is_predicted(studied: Path) -> None:
    found = of_code(studied)
    (point,) = (p for p in found.points if (p.k, p.load) == (3, 16))
    assert forecast_answer(found, Question(3, 16)).figures[0].measured == point.output_throughput
    assert point.repeats == 3


def test_far_from_what_was_measured_is_refused_with_the_reason(studied: Path) -> None:
    found = found_at(studied, Question(3, 1024))
    assert all(isinstance(one, RefusedForecast) for one in found)
    assert "too far from what was measured" in forecasts_json(found)["refused"][0]["reason"]


def test_loads_of_a_rate_are_no_concurrency(tmp_path: Path) -> None:
    fill_study(tmp_path, ks=(0, 1, 2), load_profile="poisson", rate=4.0)
    assert found_at(tmp_path, Question(2, 16)) == []


@pytest.mark.parametrize(
    ("name", "left_out"), [("error_rate_high", True), ("synthetic_acceptance", False)]
)
def test_cells_with_too_many_errors_are_not_forecast_from(
    tmp_path: Path, name: str, left_out: bool
) -> None:
    before = of_code(tmp_path, ks=(0, 1, 2, 3))
    flag = Flag(name, "error", "Nearly all requests failed.")
    base = {"model": "lab/target", "engine": "vllm", "engine_version": "0.32.0", "gpu": "H200",
            "gpu_count": 1, "tensor_parallel_size": 1, "load_profile": "concurrent",
            "evidence": "simulated", "precision": "bfloat16", "dataset": "code", "repeat": 9,
            "request_format": "chat_completions", "concurrency": 16}  # fmt: skip
    origin = source("doubtful")
    bad = tuned_cell(origin.source_id, 0, Facts(**base | arm(3)), factor=0.01)
    with open_writer(tmp_path) as writer:
        writer.add(origin, iter([replace(bad, flags=(flag,))]))
        writer.commit()
    assert (of_code(tmp_path).points == before.points) is left_out


@pytest.mark.parametrize("fact", ["model", "gpu", "gpu_count", "tensor_parallel_size", "evidence"])
def test_an_unknown_fact_is_said_as_unknown(tmp_path: Path, fact: str) -> None:
    fill_study(tmp_path, ks=(0, 1, 2), **{fact: None})
    found = found_at(tmp_path, Question(2, 16))
    told = forecasts_json(found)["forecasts"]
    assert len(told) == 2
    assert {one[fact] for one in told} == {None}
    for one in found:
        assert isinstance(one, ForecastAnswer)
        assert not {"None", "nan"} & set(title(one.place).replace(",", "").split())


def test_a_price_for_more_gpus_than_are_known_is_refused_beside_the_forecast(
    tmp_path: Path,
) -> None:
    fill_study(tmp_path, ks=(0, 1, 2), gpu_count=None, tensor_parallel_size=None)
    found = found_at(tmp_path, Question(2, 16), Paying(usd_per_hour=98.0, gpus_per_instance=8))
    assert all(isinstance(one, ForecastAnswer) and isinstance(one.cost, Refusal) for one in found)
    (told, _) = forecasts_json(found)["forecasts"]
    assert told["cost"] is None
    assert "--gpus-used" in told["no_cost"]


def test_a_price_gives_what_a_token_costs_with_and_without_drafts(studied: Path) -> None:
    one = found_at(studied, Question(3, 32), Paying(usd_per_hour=3.6))[0]
    assert isinstance(one, ForecastAnswer)
    assert isinstance(one.cost, ForecastCost)
    assert one.cost.predicted == pytest.approx(1000 / one.figures[0].predicted)
    assert one.cost.baseline == pytest.approx(1000 / (one.figures[0].baseline or 0))
    assert numbers(one)[1][-1][0].startswith("Cost per million output tokens")


def test_what_may_be_asked_reaches_twice_beyond_what_was_measured(studied: Path) -> None:
    offer = of_code(studied).offer
    assert offer.ks == (0, 1, 2, 3, 4, 5, 6, 7, 8)
    assert offer.loads == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert (offer.k_range, offer.load_range) == ((1, 4), (1, 128))
    assert offer.start == (4, 16)


def test_lines_lead_through_the_answer(studied: Path) -> None:
    found, asked = of_code(studied), Question(3, 32)
    drawn, alone = forecast_lines(found, asked), forecast_answer(found, asked)
    for line in (drawn.over_load, drawn.over_k):
        (here,) = (step for step in line if (step.k, step.load) == (3, 32))
        assert here.figures[0].predicted == pytest.approx(alone.figures[0].predicted)
        assert here.figures[0].high == pytest.approx(alone.figures[0].high, rel=1e-3)
    assert {step.k for step in drawn.baseline} == {0}
    assert [step.load for step in drawn.over_load if step.beyond] == [256]


def test_a_forecast_and_the_question_of_a_draft_tell_one_length_from_which_it_pays(
    studied: Path,
) -> None:
    found = of_code(studied)
    for k, load in ((1, 64), (3, 32), (4, 128)):
        (step,) = break_even(found, (), k, (load,)).steps
        alone = forecast_answer(found, Question(k, load))
        assert alone.break_even_length == step.length
        assert step.length is not None
        even = forecast_answer(found, Question(k, load, mean_length=step.length))
        assert even.figures[0].improvement == pytest.approx(0, abs=0.02)
    assert forecast_answer(found, Question(0, 32)).break_even_length is None


def test_without_a_baseline_nothing_is_compared(tmp_path: Path) -> None:
    found = of_code(tmp_path, ks=(1, 2, 3))
    one = forecast_answer(found, Question(2, 16))
    assert one.headline.endswith("no baseline was measured to compare with.")
    assert forecast_lines(found, Question(2, 16)).baseline == ()
    assert one.break_even_length is None
    assert forecasts_json([one])["forecasts"][0]["baseline"] is None


def test_it_is_said_which_law_the_step_follows_and_what_the_bands_held(studied: Path) -> None:
    one = forecast_answer(of_code(studied), Question(3, 32))
    sentences = " ".join(one.trust)
    assert "A 90 % band is meant to hold 90 of 100 new measurements; of " in sentences
    assert "The time of a step follows the " in sentences
    assert "Each K withheld in turn (20 points)" in sentences
