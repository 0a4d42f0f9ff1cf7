"""Three rules of thumb beside the measurement: they contradict one another, and it wins."""

from pathlib import Path

import pytest
import yaml

from analysis.drafts.acceptance_tables import Arm, Says, opinions

STUDY = Path(__file__).parents[2] / "examples/claims/published-study.yaml"


def said(arm: Arm) -> list[Says]:
    return [opinion.says for opinion in opinions(arm, best=(3,), measured=(0, 2, 3, 4))]


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        # The published study at K = 3: fine, poor, and a draft not worth its cost.
        (Arm(3, 0.356, 2.07), ["keep", "fewer", "off"]),
        (Arm(2, 0.454, 1.91), ["more", "fewer", "off"]),
        (Arm(4, 0.283, 2.13), ["fewer", "fewer", "off"]),
        (Arm(2, 0.29, 1.58), ["keep", "fewer", "off"]),
        (Arm(3, 0.70, 3.10), ["more", "keep", "keep"]),
        (Arm(5, 0.90, 5.50), ["keep", "more", "keep"]),
        (Arm(5, 0.40, 3.00), ["fewer", "fewer", "keep"]),
    ],
)
def test_what_each_rule_says(arm: Arm, expected: list[Says]) -> None:
    assert said(arm) == expected


def test_the_published_winner_is_right_by_one_rule_of_three() -> None:
    found = opinions(Arm(3, 0.356, 2.07), best=(3,), measured=(0, 2, 3, 4))
    assert [opinion.agrees for opinion in found] == [True, False, False]


def test_a_rule_that_asks_for_what_was_not_measured_is_not_judged() -> None:
    found = opinions(Arm(3, 0.70, 3.10), best=(3,), measured=(0, 3))
    assert [(opinion.says, opinion.agrees) for opinion in found] == [
        ("more", None),
        ("keep", True),
        ("keep", True),
    ]
    without_baseline = opinions(Arm(3, 0.356, 2.07), best=(3,), measured=(3,))
    assert [opinion.agrees for opinion in without_baseline] == [True, None, None]


def test_a_best_k_of_zero_says_off() -> None:
    found = opinions(Arm(3, 0.356, 2.07), best=(0,), measured=(0, 3))
    assert [opinion.agrees for opinion in found] == [False, None, True]


def test_where_k_are_tied_a_rule_may_name_any_of_them() -> None:
    found = opinions(Arm(3, 0.70, 3.10), best=(3, 4), measured=(0, 3, 4))
    assert [(opinion.says, opinion.agrees) for opinion in found] == [
        ("more", True),
        ("keep", True),
        ("keep", True),
    ]


def test_every_opinion_tells_its_figure() -> None:
    found = opinions(Arm(3, 0.356, 1.5), best=(3,), measured=(3,))
    assert [opinion.why for opinion in found] == [
        "acceptance of 36 % is between 30 and 50 %: K = 3",
        "acceptance of 36 % is below 50 %: poorly aligned",
        "0.50 accepted tokens a cycle: a net loss",
    ]


def test_on_the_published_study_the_rules_contradict_one_another_and_the_measurement() -> None:
    study = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    peaks = {row["num_speculative_tokens"]: row["peak_output_tokens_per_second"]
             for row in study["draft_tokens"]}  # fmt: skip
    best = max(peaks, key=lambda k: peaks[k])
    found = {
        row["num_speculative_tokens"]: opinions(
            Arm(row["num_speculative_tokens"], row["acceptance_rate"],
                row["mean_acceptance_length"]),
            best=(best,), measured=(0, *peaks),
        )
        for row in study["draft_tokens"]
    }  # fmt: skip
    assert best == 3
    for k, opinion in found.items():
        assert len({o.says for o in opinion}) > 1, k
        # The third rule calls every arm of a study that gained 20 % not worth its draft.
        assert opinion[2].says == "off"
        assert opinion[2].agrees is False
