"""The trend in words: one sentence for all series, one for each."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.nightly.regressions import Budgets
from answers.trend.answer import Trend, trend, trend_json, watch, watched
from tests.analysis.in_a_row import history
from tests.analysis.test_accepted_nights import falling, said_on
from warehouse.filters import Filters
from warehouse.store import Reader


def of(*levels: float, **given: float) -> Trend:
    """The trend of one series."""
    return trend(history(*levels, **given), Budgets())


@pytest.mark.parametrize(
    ("levels", "headline"),
    [
        ((100.0,), "Did something get worse? Not known yet: nothing was measured in three nights"),
        (
            (100.0, 100.0),
            "Did something get worse? Not known yet: nothing was measured in three nights",
        ),
        (
            (100.0, 104.0, 97.0),
            "Nothing is shown to have got worse since 2026-11-01, but too little is known of 1 of 1 "
            "watched figures",
        ),
        (
            [100.0] * 8,
            "Nothing got worse since 2026-11-01 by more than is fine, in any of 1 watched figures",
        ),
        (
            (*[100.0] * 8, *[90.0] * 4),
            "Output throughput of a on code is 10.2 % worse since 2026-11-09 (2), with "
            "engine_version 1 → 2",
        ),
    ],
)
def test_the_headline_says_whether_something_broke(
    levels: tuple[float, ...], headline: str
) -> None:
    assert of(*levels).headline == headline


def test_the_headline_of_the_recorded_nights_names_a_setting_as_its_server_does(
    examples: Path,
) -> None:
    with Reader(examples) as reader:
        found = watch(watched(reader, Filters()), Budgets())

    assert "with async_scheduling False → not stated and max_num_seqs 32 → 2; " in found.headline
    assert found.headline.endswith("more of 24 watched figures got worse")


def test_no_series_at_all_is_said_and_is_not_enough_evidence() -> None:
    found = trend([], Budgets())

    assert found.headline == "Did something get worse? No night was measured yet"
    assert (found.status, found.summary) == ("not enough evidence", "")


def test_a_drift_is_in_the_headline_the_summary_and_its_own_sentence() -> None:
    found = of(*falling(0.002, 20), noise=0.01, repeats=2)

    assert found.headline == (
        "Nothing got worse by more than is fine since 2026-11-01, but 1 of 1 watched figures slowly "
        "get worse"
    )
    assert "1 drift. 32 nights, 2026-11-01 to 2026-12-02." in found.summary
    assert "It drifts by -0." in found.lines[0].said


def test_a_line_says_size_since_when_against_what_and_what_to_do() -> None:
    line = of(*[100.0] * 10, *[90.0] * 8, *[92.7] * 12).lines[0]

    assert "since 2026-11-11 (2)" in line.said
    assert "against the best level before, 2026-11-01 (1) to 2026-11-10 (1)" in line.said
    assert "accept it with draftboard gate accept" in line.said
    assert "the last of 2 moves" in line.said


def test_an_acceptance_is_said_with_who_and_why() -> None:
    series = history(*[100.0] * 8, *[90.0] * 6)

    line = trend(series, Budgets(), [said_on("2026-11-12")]).lines[0]

    assert "night 2026-11-12 was accepted by Ann: the new sampler is right" in line.said


def test_the_worst_series_comes_first() -> None:
    series = [*history(*[100.0] * 8), *history(*[100.0] * 6, 80.0, 80.0, dataset="chat")]

    assert [line.status for line in trend(series, Budgets()).lines] == ["regression", "fine"]


def released(baseline: float, arm: float, **given: Any) -> Trend:
    """Twelve nights of a baseline and an arm that gains 30 %, then three of a release that changes
    each by its own factor."""
    labels = {"baseline": (100.0, baseline), "eagle3 K=3": (130.0, arm)}
    every = [
        history(*[old] * 12, *[old * factor + 1e-6] * 3, arm_label=label, noise=1e-4, **given)[0]
        for label, (old, factor) in labels.items()
    ]
    return trend(every, Budgets())


def test_a_release_that_makes_only_the_baseline_faster_is_a_regression_of_the_gain() -> None:
    found = released(1.2, 1.0)

    assert found.status == "regression"
    assert found.headline == (
        "The gain of eagle3 K=3 over the baseline fell from +30.0 to +8.3 %: the baseline became "
        "20.0 % faster (Gain in output throughput, code), since 2026-11-13 (2), with "
        "engine_version 1 → 2"
    )
    assert [line.status for line in found.lines] == ["regression", "fine", "fine"]
    assert found.lines[0].why.startswith("regression of the gain: ")
    assert found.lines[0].said.startswith("The gain of eagle3 K=3 over the baseline fell from")
    told = trend_json(found)["series"]
    assert [row["gain"] is None for row in told] == [False, True, True]
    assert found.lines[0].points[0].value == pytest.approx(1.3, rel=0.001)


def test_of_a_latency_the_gain_is_that_of_less() -> None:
    (line, *_) = released(0.8, 1.0, metric="tpot").lines

    # From 130 of 100, 30 % worse than the baseline, to 130 of 80.
    assert line.gain == (
        "the gain of eagle3 K=3 over the baseline fell from -30.0 to -62.5 %: the baseline became "
        "20.0 % better"
    )


def test_a_slower_arm_is_told_as_slower_and_not_as_a_lost_gain_as_well() -> None:
    found = released(1.0, 0.9)

    assert "eagle3 K=3 on code is 10.0 % worse" in found.headline
    assert [line.gain for line in found.lines] == [None, None]


def test_a_gain_that_stands_is_no_series_of_its_own() -> None:
    assert len(released(1.2, 1.2).lines) == 2


def test_an_arm_that_lost_within_its_budget_is_named_beside_the_baseline() -> None:
    (line, *_) = released(1.04, 0.96).lines

    assert line.gain is not None
    assert line.gain.endswith("the baseline became 4.0 % faster and eagle3 K=3 became 4.0 % slower")


@pytest.mark.parametrize("levels", [(100.0,), (100.0, 90.0), (*[100.0] * 8, 80.0)])
def test_json_has_null_for_unknown_and_nothing_that_is_no_number(levels: tuple[float, ...]) -> None:
    told = json.dumps(trend_json(of(*levels)), allow_nan=False, default=str)

    assert json.loads(told)["series"][0]["nights"] == len(levels)
