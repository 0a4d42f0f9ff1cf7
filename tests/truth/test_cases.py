"""Small studies whose right decision anybody can say: three launches of each arm, noise 1 %."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from analysis.evidence.words import GAIN, LOSS
from answers.decide.answer import decide_on
from answers.decide.values import DecideQuestion, Decision, MapLevel
from tests.truth.random_arms import Arm
from tests.truth.random_frames import ground_of_studies
from tests.truth.random_studies import RandomStudy
from warehouse.loads import Load, LoadKind

DSPARK, MTP, EAGLE, NGRAM = Arm("dspark", 7), Arm("mtp", 2), Arm("eagle3", 3), Arm("ngram", 3)
ADAPTIVE = Arm("dspark", 7, adaptive=True)
#: True gains, %, None where an arm was not measured; of several datasets one list each.
Gains = Mapping[Arm, Sequence[float | None]]
LOW_AND_HIGH: Gains = {MTP: (94, 89, 66, 41, 14), DSPARK: (170, 142, 58, 10, -26)}


def study(loads: Sequence[float], *datasets: Gains, kind: LoadKind = "concurrency") -> RandomStudy:
    """A study with these gains; the baseline makes 100 load^0.8 tokens a second and was measured
    wherever an arm was."""
    arms = tuple(datasets[0])
    given = np.array([[each[arm] for arm in arms] for each in datasets], dtype=np.float64)
    truth = np.insert(np.nan_to_num(np.log1p(given / 100)), 0, 0.0, axis=1)
    there = np.isfinite(given)
    measured = np.insert(there, 0, there.any(axis=1), axis=1)
    return RandomStudy(
        "00000", arms, tuple(Load(kind, float(x)) for x in loads),
        ("code", "prose")[: len(datasets)], 3, 0.01, 0.0, max(loads) ** 0.2 / 100, truth, truth,
        np.full(truth.shape, np.nan), measured,
    )  # fmt: skip


def decided(one: RandomStudy, **asked: Any) -> list[Decision]:
    return list(decide_on(ground_of_studies([one]), DecideQuestion(**asked)).decisions)


def at(one: Decision, load: float) -> MapLevel:
    (found,) = (level for level in one.levels if level.load.value == load)
    return found


def gain(one: Decision) -> float:
    assert one.operating is not None
    assert one.operating.difference.improvement is not None
    return one.operating.difference.improvement


def told(one: Decision) -> str:
    """Everything that is said beside the tables."""
    return " ".join([one.paragraph, *one.doubts])


def test_the_arm_is_the_best_at_the_largest_load_whatever_is_best_below() -> None:
    (one,) = decided(study((1, 8, 32, 64, 128), LOW_AND_HIGH))

    assert (one.answer, one.arm) == ("yes", MTP.label)
    assert gain(one) == pytest.approx(0.14, abs=0.03)
    assert "drafting nothing" not in one.paragraph
    assert [at(one, load).arm for load in (1, 8, 64, 128)] == [
        DSPARK.label, DSPARK.label, MTP.label, MTP.label,
    ]  # fmt: skip
    assert re.search(rf"1 and 8 at once {DSPARK.label}", one.paragraph)
    assert "open" not in one.paragraph


def test_the_same_load_stated_is_the_same_decision() -> None:
    given = study((1, 8, 32, 64, 128), LOW_AND_HIGH)

    assert decided(given) == decided(given, load=128)


@pytest.mark.parametrize(("load", "worse"), [(48, 0.41), (100, 0.14)])
def test_between_two_loads_the_arm_is_taken_that_is_better_at_both(
    load: float, worse: float
) -> None:
    """At 100 DSpark is better at neither; at both loads MTP is a settled gain on either side."""
    (one,) = decided(study((1, 8, 32, 64, 128), LOW_AND_HIGH), load=load)

    assert (one.answer, one.arm) == ("yes", MTP.label)
    assert one.operating is not None
    assert one.operating.load.value == load
    assert gain(one) == pytest.approx(worse, abs=0.04)
    assert "not measured" in one.paragraph


def test_between_a_load_that_gains_and_one_that_loses_it_is_open_and_no_no() -> None:
    (one,) = decided(study((1, 16, 64), {EAGLE: (60, 30, -20)}), load=32)

    assert one.answer == "open"
    assert one.headline.startswith("Open at 32 at once (not measured: ")
    assert one.headline.endswith("which is best there is open.")
    (loses,) = decided(study((1, 16, 64), {EAGLE: (60, -10, -20)}), load=32)
    assert loses.answer == "no"


def test_beyond_all_loads_nothing_is_known() -> None:
    (one,) = decided(study((1, 8, 32, 64, 128), LOW_AND_HIGH), load=512)

    assert one.answer == "open"
    assert "nothing is known" in one.paragraph.lower()


def test_a_rate_says_nothing_of_requests_at_once() -> None:
    (one,) = decided(study((1, 8, 32, 64, 128), LOW_AND_HIGH), load="8/s")

    assert one.answer == "open"
    assert "nothing is known of 8 requests/s" in one.headline
    (rate,) = decided(study((1, 4, 8), {EAGLE: (60, 50, 30)}, kind="poisson"), load=4)
    assert (rate.answer, rate.operating_load) == ("yes", Load("poisson", 4))


def test_a_missing_cell_is_no_evidence_for_drafting_nothing() -> None:
    (one,) = decided(study((1, 8, 16, 64), {EAGLE: (60, 50, None, 30), NGRAM: (10, 10, 10, 10)}))

    assert (one.answer, one.arm) == ("yes", EAGLE.label)
    assert one.operating_load == Load("concurrency", 64)
    assert {k for _, _, k in one.table or ((1, 64, 3),)} == {3}
    assert all(level.num_speculative_tokens for level in one.levels)
    assert "not measured at 16 at once" in one.paragraph
    assert "no drafts" not in one.paragraph


def test_an_arm_that_was_not_measured_at_the_largest_load_is_not_taken_there() -> None:
    (one,) = decided(study((8, 64, 128), {DSPARK: (100, 60, None), MTP: (30, 25, 20)}))

    assert (one.answer, one.arm) == ("yes", MTP.label)
    assert one.operating_load == Load("concurrency", 128)
    assert one.table is None
    assert [at(one, load).arm for load in (8, 64)] == [DSPARK.label] * 2
    assert re.search(r"dspark K=7 was not measured", told(one))


def test_an_arm_that_was_measured_at_one_load_decides_that_load_alone() -> None:
    (one,) = decided(study((1, 16, 128), {DSPARK: (160, None, None), MTP: (30, 25, 20)}))

    assert (one.answer, one.arm) == ("yes", MTP.label)
    assert one.operating_load == Load("concurrency", 128)
    assert at(one, 1).arm == DSPARK.label
    assert all(level.num_speculative_tokens for level in one.levels)


@pytest.mark.parametrize(
    ("arm", "kind", "loads"),
    [(ADAPTIVE, "concurrency", (8, 64, 128)), (EAGLE, "constant", (1, 4, 8))],
)
def test_a_server_whose_k_cannot_follow_the_load_drafts_where_it_loses(
    arm: Arm, kind: LoadKind, loads: tuple[int, ...]
) -> None:
    given = study(loads, {arm: (60, 30, -20)}, kind=kind)
    (there,), (below,) = decided(given), decided(given, load=loads[1])

    assert (there.answer, there.serve) == ("no", None)
    assert (below.answer, below.arm) == ("at some loads", arm.label)
    level = at(below, loads[2])
    assert level.num_speculative_tokens != 0
    assert level.difference.word == LOSS
    assert arm.label in [one.arm for one in below.against if one.load == level.load]
    assert below.table is None
    assert re.search(r"loses at (128 at once|8 requests/s)", below.paragraph)


def test_an_slo_takes_the_one_arm_that_meets_it() -> None:
    given = study((8, 64), {DSPARK: (100, -10), MTP: (40, 30)})
    (one,) = decided(given, slo="itl:p95<22ms")

    assert (one.answer, one.arm) == ("yes", MTP.label)
    assert one.operating_load == Load("concurrency", 64)
    assert gain(one) == pytest.approx(0.3, abs=0.04)
    assert "drafting nothing" not in one.paragraph


def test_at_rates_the_largest_one_decides_and_lower_ones_are_told() -> None:
    given = study((1, 4, 8), {DSPARK: (100, 60, None), MTP: (30, 25, -20)}, kind="poisson")
    (one,) = decided(given)

    assert one.answer == "no"
    assert one.operating_load == Load("poisson", 8)
    assert one.serve is None
    assert [(at(one, load).arm, at(one, load).difference.word) for load in (1, 4)] == [
        (DSPARK.label, GAIN)
    ] * 2
    assert re.search(r"dspark K=7 was not measured", told(one))


def test_a_mix_names_the_load_that_one_of_its_datasets_lacks() -> None:
    given = study((1, 16, 64), {EAGLE: (40, 20, -30)}, {EAGLE: (40, 20, None)})
    mix, code, _ = decided(given)

    assert [level.load.value for level in mix.levels] == [1, 16]
    assert re.search(r"64 at once[^.]*prose|prose[^.]*64 at once", told(mix))
    assert code.operating_load == Load("concurrency", 64)
    assert code.answer == "no"
