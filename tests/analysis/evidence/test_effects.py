"""Differences with their words, on studies small enough to work out by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from analysis.evidence.effects import study_numbers
from analysis.evidence.words import GAIN, LIKELY_GAIN, LOSS, OPEN, WORDS, words

Study = Callable[..., Any]
#: Three launches of each arm at one load, a tenth of a percent apart, the arm half as fast again.
STEADY = [(arm, 1, f"{arm}-{n}", 100 * speed * (1 + 0.001 * ((n * 7 + place) % 3)))
          for place, (arm, speed) in enumerate((("none", 1.0), ("eagle3", 1.5)))
          for n in range(3)]  # fmt: skip


def test_a_settled_gain_is_called_a_gain(study: Study) -> None:
    _, sure = study(STEADY)

    (row,) = sure.levels.to_dict("records")
    assert row["word"] == GAIN
    assert row["launches"] == 3
    assert row["improvement"] == pytest.approx(0.5, abs=0.002)


def test_an_interval_is_student_s_over_launches(study: Study) -> None:
    logs = {"none": (0.0, 0.0, 0.0), "eagle3": (0.1, 0.2, 0.3)}
    _, sure = study(
        (a, 1, f"{a}{n}", np.exp(x)) for a, xs in logs.items() for n, x in enumerate(xs)
    )

    (row,) = sure.levels.to_dict("records")
    # Residuals are ± 0.05 in both arms: s² = 4 x 0.05² / 2; the mean difference has 2 s² / 3.
    half = t.isf(0.025, 2) * np.sqrt(2 * (0.01 / 2) / 3)
    assert (row["variance"], row["dof"]) == (pytest.approx(0.005), 2)
    assert row["low"] == pytest.approx(np.expm1(0.2 - half))
    assert row["high"] == pytest.approx(np.expm1(0.2 + half))


def test_of_latencies_less_is_better(study: Study) -> None:
    _, sure = study(STEADY, metric="ttft")

    (row,) = sure.levels.to_dict("records")
    assert row["word"] == LOSS
    assert row["improvement"] == pytest.approx(-0.5, abs=0.002)
    assert row["low"] < row["improvement"] < row["high"] < 0


def test_repeats_within_one_launch_count_once(study: Study) -> None:
    once = [("none", 1, "a", 100.0), ("eagle3", 1, "b", 150.0)]

    _, sure = study([*once, *once, *once])

    (row,) = sure.levels.to_dict("records")
    assert (row["launches"], row["dof"], row["word"]) == (1, 0, OPEN)
    assert np.isnan(row["low"])
    assert np.isnan(row["adjusted_high"])


def test_a_launch_that_all_loads_share_widens_their_mean(study: Study) -> None:
    shared = (0.0, 0.06, -0.06)
    fixed = [("none", load, f"a{n}", 100.0) for load in (1, 2, 4) for n in range(3)]
    together = [
        ("eagle3", load, f"b{n}", 110 * np.exp(shared[n])) for load in (1, 2, 4) for n in range(3)
    ]
    apart = [("eagle3", load, f"b{n}", 110 * np.exp(shared[(n + at) % 3]))
             for at, load in enumerate((1, 2, 4)) for n in range(3)]  # fmt: skip

    (one,), (other,) = (study([*fixed, *x])[1].means.to_dict("records") for x in (together, apart))

    assert one["improvement"] == pytest.approx(other["improvement"])
    assert one["low"] < 0 < one["high"]
    assert other["low"] > 0.05


def test_launches_that_nobody_stated_are_capped_at_likely(study: Study) -> None:
    _, sure = study([(arm, load, None, value) for arm, load, _, value in STEADY])

    (row,) = sure.levels.to_dict("records")
    assert not row["independent"]
    assert row["adjusted_low"] > 0
    assert row["word"] == LIKELY_GAIN


def test_one_launch_is_open_and_has_no_interval(study: Study) -> None:
    _, sure = study([("none", 1, "a", 100.0), ("eagle3", 1, "b", 150.0)])

    (row,) = sure.levels.to_dict("records")
    assert (row["word"], row["launches"]) == (OPEN, 1)
    assert row["improvement"] == pytest.approx(0.5)
    assert np.isnan([row["low"], row["high"], row["p_value"], row["probability"]]).all()


def test_a_study_with_gaps_is_judged_where_arms_meet(study: Study) -> None:
    cells = [cell for cell in STEADY if cell[2] != "eagle3-2"]
    more = [(arm, 8, launch, value * 4) for arm, _, launch, value in STEADY]

    _, sure = study([*cells, *more])

    rows = {row["launches"]: row for row in sure.levels.to_dict("records")}
    assert sorted(rows) == [2, 3]
    assert all(np.isfinite([row["low"], row["high"]]).all() for row in rows.values())
    assert rows[2]["dof"] == rows[3]["dof"]


def test_without_a_stated_study_model_hardware_and_dataset_make_one(study: Study) -> None:
    found, _ = study(STEADY)
    keys = found.keys.assign(study=None)

    assert set(study_numbers(keys).values()) == {0}


@pytest.mark.parametrize(
    ("low", "high", "probability", "independent", "word"),
    [
        (0.01, 0.2, 0.99, True, "gain"),
        (-0.2, -0.01, 0.01, True, "loss"),
        (-0.01, 0.2, 0.95, True, "likely gain"),
        (-0.2, 0.01, 0.05, True, "likely loss"),
        (-0.1, 0.1, 0.5, True, "open"),
        (0.01, 0.2, 0.99, False, "likely gain"),
        (np.nan, np.nan, np.nan, True, "open"),
    ],
)
def test_a_word_says_what_the_interval_allows(
    low: float, high: float, probability: float, independent: bool, word: str
) -> None:
    (told,) = words(*(np.array([x]) for x in (low, high, probability)), np.array([independent]))

    assert told == word
    assert told in WORDS
