"""Nights in a row: what is a regression, since when, and what is only noise."""

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.regressions import Budgets, assess, budgets, worst
from tests.analysis.in_a_row import history, only
from warehouse.errors import UnknownKey


def test_a_night_that_passes_midnight_is_one_night() -> None:
    series = history(100, 100)

    assert [night.label for night in series[0].nights] == ["2026-11-01 (1)", "2026-11-02 (1)"]
    assert [night.repeats for night in series[0].nights] == [3, 3]


def test_two_versions_in_one_night_are_two_points() -> None:
    rows = history(100, 100, 80, started_at=pd.Timestamp("2026-11-01T23:00Z"))

    assert len(rows[0].nights) == 2


def test_a_drop_is_a_regression_with_size_first_bad_night_and_what_changed() -> None:
    found = only(100, 100, 100, 100, 100, 80, 80, 80)

    assert found.status == "regression"
    assert found.improvement == pytest.approx(-0.2, abs=0.02)
    assert found.low < found.improvement < found.high < 0
    assert found.since == 5
    assert found.series.nights[5].label == "2026-11-06 (2)"
    assert found.against == (0, 5)
    assert [change.sentence for change in found.changed] == ["engine_version: 1 → 2"]


def test_a_latency_regresses_where_it_rises() -> None:
    assert only(10, 10, 10, 10, 12, metric="itl").status == "regression"
    assert only(10, 10, 10, 10, 8, metric="itl").status == "fine"


def test_steady_nights_are_fine() -> None:
    found = only(*[100.0] * 8)

    assert found.status == "fine"
    assert found.low > -0.05


@pytest.mark.parametrize(("nights", "reason"), [((100,), "one night"), ((100, 70), "two nights")])
def test_one_night_or_two_tell_nothing_of_the_noise_of_nights(
    nights: tuple[float, ...], reason: str
) -> None:
    found = only(*nights)

    assert (found.status, found.reason) == ("not enough evidence", reason)
    assert found.improvement is None


def test_three_repeated_nights_suffice_for_a_large_drop() -> None:
    assert only(100, 100, 70).status == "regression"
    assert only(100, 103, 70, repeats=1).status == "not enough evidence"


def test_repeats_are_advised_only_where_they_can_help() -> None:
    draw = np.random.default_rng(6)
    wandering = 100 * np.exp(0.05 * draw.standard_normal(12))

    by_repeats = only(*[100.0] * 6, noise=0.2, repeats=2)
    by_nights = only(*wandering, noise=0.001, repeats=3)
    single = only(*wandering, repeats=1)

    assert by_repeats.status == by_nights.status == single.status == "not enough evidence"
    assert by_repeats.reason == "more repeats"
    assert (by_nights.reason, single.reason) == ("more nights", "more nights")


def test_a_drop_within_the_budget_is_fine() -> None:
    assert only(*[100.0] * 6, 97, 97, budget=budgets(["output_throughput=10%"])).status == "fine"
    assert (
        only(*[100.0] * 6, 90, 90, budget=budgets(["output_throughput=3%"])).status == "regression"
    )


def test_nights_that_wander_are_noise_even_if_repeats_agree() -> None:
    # within a night nothing moves, between nights 10 % does: no night stands out as a move
    found = only(100, 110, 99, 111, 98, 109, 95, 95, noise=0.0001)

    assert found.status != "regression"
    assert found.moves == ()


def test_false_alarms_are_rare_over_many_steady_series() -> None:
    draw = np.random.default_rng(7)
    levels = [100 * np.exp(0.03 * draw.standard_normal((60, 10)))]
    found = assess(
        [history(*row, repeats=1, noise=0.0)[0] for row in levels[0]], Budgets(default=0.0)
    )

    assert sum(one.status == "regression" for one in found) <= 1


def test_the_worst_status_counts() -> None:
    assert worst(["fine", "regression", "not enough evidence"]) == "regression"
    assert worst(["fine", "not enough evidence"]) == "not enough evidence"
    assert worst(["fine"]) == "fine"
    assert worst([]) == "not enough evidence"


def test_budgets_are_read_as_people_write_them() -> None:
    found = budgets(["itl=3%", "ttft.p95 = 0.1", "7%"])

    assert found.allowed("itl", "p95") == pytest.approx(0.03)
    assert found.allowed("ttft", "p95") == pytest.approx(0.1)
    assert found.allowed("ttft", "mean") == pytest.approx(0.07)


@pytest.mark.parametrize("text", ["itl", "itl=-3%", "speed=3%", "itl.p17=3%", "itl=three"])
def test_a_mistaken_budget_is_one_sentence(text: str) -> None:
    with pytest.raises(UnknownKey, match="use one of|write itl=3%"):
        budgets([text])


def test_a_loss_after_a_gain_is_held_against_the_better_level() -> None:
    found = only(*[100.0] * 8, *[110.0] * 8, *[102.0] * 3)

    assert found.status == "regression"
    assert found.against == (8, 16)
    assert found.improvement == pytest.approx(102 / 110 - 1, abs=0.02)
    labels = [night.label for night in found.series.nights]
    assert [move.first for move in found.moves] == [labels[8], labels[16]]
    assert found.moves[0].low > 0


def test_a_regression_that_is_mended_in_part_stays_one_since_its_first_night() -> None:
    found = only(*[100.0] * 10, *[90.0] * 8, *[92.7] * 12)

    assert (found.status, found.reason) == ("regression", "lasts")
    assert found.since == 10
    assert found.improvement == pytest.approx(-0.073, abs=0.01)


def test_a_regression_ends_when_its_end_is_shown() -> None:
    assert only(*[100.0] * 10, *[90.0] * 8, *[100.0] * 4).status == "fine"


def test_a_regression_that_became_worse_once_more_is_dated_from_then_on() -> None:
    assert only(*[100.0] * 10, *[90.0] * 8, *[80.0] * 4).since == 18


def test_one_bad_night_does_not_outlast_itself() -> None:
    assert only(*[100.0] * 10, 80.0).status == "regression"
    assert only(*[100.0] * 10, 80.0, *[100.0] * 3).status == "fine"


def test_one_bad_night_does_not_outlast_itself_where_nights_lie_far_apart() -> None:
    far_apart = (100.0, 103.0, 97.0, 101.0, 99.0, 103.0, 98.0, 102.0, 97.0, 101.0, 75.0)

    assert only(*far_apart, repeats=1, noise=0.0).status == "regression"
    assert only(*far_apart, 97.0, repeats=1, noise=0.0).status == "not enough evidence"


def test_two_nights_that_stand_out_are_no_level_to_hold_others_against() -> None:
    assert only(*[100.0] * 10, 115.0, 115.0, *[100.0] * 4).status == "fine"


def test_among_many_series_a_chance_finding_is_none() -> None:
    draw = np.random.default_rng(4)
    steady = [history(*100 * np.exp(0.02 * draw.standard_normal(20)), repeats=1)[0]
              for _ in range(40)]  # fmt: skip
    low = history(*100 * np.exp(0.02 * np.append(draw.standard_normal(19), -3.2)), repeats=1)[0]

    alone = assess([low], Budgets())[0]
    among = assess([low, *steady], Budgets())[0]

    assert alone.status == "regression"
    assert (among.status, among.reason) == ("not enough evidence", "chance")
