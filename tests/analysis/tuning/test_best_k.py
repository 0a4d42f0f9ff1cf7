"""The best K of each load: leaders, ties inside the noise, SLOs, and what a table is made of."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.drafts.best_k import BestK, Goal, best_k
from analysis.drafts.dynamic_k import dynamic_table
from analysis.service.slo import parse
from warehouse.errors import InvalidInput

Study = Callable[..., Any]


def given(study: Study, values: dict[tuple[int, int], list[float]], metric: str) -> Any:
    """Frames in which (concurrency, K) has these values of ``metric``, one a repeat."""
    repeats = len(next(iter(values.values())))
    frames = study(
        ks=tuple(sorted({k for _, k in values})),
        loads=tuple(sorted({load for load, _ in values})), repeats=repeats,
    )  # fmt: skip
    cells = frames.cells.assign(k=frames.cells["num_speculative_tokens"].fillna(0).astype(int))
    kept = [key in values for key in zip(cells["concurrency"], cells["k"], strict=True)]
    cells = cells[kept]
    rows = [
        (cell.cell_id, "canonical", metric, "mean", values[cell.concurrency, cell.k][cell.repeat])
        for cell in cells.itertuples()
    ]
    columns = ["cell_id", "origin", "metric", "statistic", "value"]
    return cells.drop(columns="k"), pd.DataFrame(rows, columns=columns)


def found(study: Study, values: dict[tuple[int, int], list[float]], **goal: Any) -> BestK:
    asked = Goal(**goal)
    (best,) = best_k(*given(study, values, asked.metric), asked)
    return best


def test_the_leader_of_each_load_is_taken_where_it_is_clearly_ahead(study: Study) -> None:
    values = {
        (1, 0): [100, 101, 102], (1, 2): [140, 142, 143], (1, 4): [180, 182, 181],
        (8, 0): [500, 505, 501], (8, 2): [620, 622, 625], (8, 4): [560, 561, 558],
    }  # fmt: skip
    one, eight = found(study, values).choices
    assert (one.k, one.leader, one.tied) == (4, 4, (4,))
    assert (eight.k, eight.leader, eight.tied) == (2, 2, (2,))
    assert eight.gain is not None
    assert eight.gain.improvement == pytest.approx(622.3 / 502.0 - 1, abs=0.001)
    assert eight.gain.low > 0
    assert eight.evidence == "3 repeats"


def test_inside_the_noise_the_smaller_k_is_taken(study: Study) -> None:
    # K = 4 is ahead by 4 % on average, but repeats vary by 10 %.
    values = {(8, 0): [300, 301, 299], (8, 2): [500, 450, 550], (8, 4): [480, 560, 520]}
    (choice,) = found(study, values).choices
    assert (choice.leader, choice.k, choice.tied) == (4, 2, (2, 4))


def test_a_difference_too_small_to_matter_is_a_tie_however_sure(study: Study) -> None:
    values = {(8, 2): [500.0, 500.1, 500.2], (8, 4): [505.0, 505.1, 505.2]}
    assert found(study, values).choices[0].k == 2
    assert found(study, values, tie=0.001).choices[0].k == 4


def test_one_repeat_decides_by_the_size_alone_and_says_so(study: Study) -> None:
    values = {(8, 0): [300.0], (8, 2): [500.0], (8, 4): [505.0], (32, 0): [300.0], (32, 2): [310.0],
              (32, 4): [340.0]}  # fmt: skip
    first, second = found(study, values).choices
    assert (first.k, first.tied, first.evidence) == (2, (2, 4), "one repeat: noise unknown")
    assert (second.k, second.leader) == (4, 4)


def test_no_speculation_is_the_smallest_k_of_all(study: Study) -> None:
    (choice,) = found(study, {(64, 0): [500, 502, 501], (64, 3): [450, 452, 455]}).choices
    assert (choice.k, choice.gain) == (0, None)


def test_a_metric_that_is_better_low_is_led_by_the_lowest(study: Study) -> None:
    values = {(8, 0): [9.0, 9.1, 9.0], (8, 2): [5.0, 5.1, 5.0], (8, 4): [7.0, 7.1, 7.0]}
    best = found(study, values, metric="itl")
    assert best.choices[0].k == 2
    worth = best.candidates().set_index("k")["worth"]
    assert worth[2] > worth[4] > worth[0]


def test_within_an_slo_only_k_that_meet_it_in_every_repeat_are_chosen(study: Study) -> None:
    values = {(8, 0): [100, 101, 99], (8, 2): [140, 141, 142], (8, 4): [180, 181, 182]}
    cells, throughput = given(study, values, "output_throughput")
    _, itl = given(
        study, {(8, 0): [9, 9, 9], (8, 2): [5, 5, 5], (8, 4): [5, 5, 7]}, "itl"
    )  # fmt: skip
    goal = Goal(slo=parse("itl:mean<6ms"))
    (choice,) = best_k(cells, pd.concat([throughput, itl]), goal)[0].choices
    assert choice.allowed == (2,)
    assert choice.k == 2
    none = Goal(slo=parse("itl:mean<1ms"))
    (choice,) = best_k(cells, pd.concat([throughput, itl]), none)[0].choices
    assert (choice.k, choice.evidence) == (None, "no K meets the SLO")
    # What was never measured cannot be met.
    (choice,) = best_k(cells, throughput, goal)[0].choices
    assert choice.k is None


def test_tied_k_are_worth_the_same_so_a_table_does_not_change_between_them(study: Study) -> None:
    values = {
        (1, 2): [500, 450, 550], (1, 4): [480, 560, 520],
        (8, 2): [800, 801, 802], (8, 4): [900, 901, 902],
    }  # fmt: skip
    best = found(study, values)
    assert [choice.k for choice in best.choices] == [2, 4]
    assert dynamic_table(best.candidates()).entries == ((1, 8, 4),)


def test_a_tied_leader_does_not_make_the_table_change_for_its_sake(study: Study) -> None:
    # K = 4 leads at load 1 by 4 %, inside the noise: no reason to leave K = 2, which wins at 8.
    values = {
        (1, 2): [500, 450, 550], (1, 4): [480, 560, 520],
        (8, 2): [900, 901, 902], (8, 4): [800, 801, 802],
    }  # fmt: skip
    assert dynamic_table(found(study, values).candidates()).entries == ((1, 8, 2),)


def test_arms_on_other_prompts_never_meet(study: Study) -> None:
    cells, measured = given(study, {(8, 2): [500.0] * 3, (8, 4): [500.0] * 3}, "output_throughput")
    of_four = cells["num_speculative_tokens"] == 4
    cells.loc[of_four, "prompt_set_hash"] = "others"
    (choice,) = best_k(cells, measured, Goal())[0].choices
    assert choice.tied == (choice.leader,)


def test_each_family_has_a_table_of_its_own_and_the_same_baseline(study: Study) -> None:
    one = study(ks=(0, 2), loads=(8,), repeats=2)
    other = study(ks=(3,), loads=(8,), repeats=2, method="ngram")
    cells = pd.concat([one.cells, other.cells])
    measured = pd.concat([one.measurements, other.measurements])
    tables = best_k(cells, measured, Goal())
    assert {best.family for best in tables} == {"draft_model (org/draft)", "ngram (org/draft)"}
    assert [sorted(best.choices[0].values) for best in tables] == [[0, 2], [0, 3]]


def test_nothing_speculative_is_no_table(study: Study) -> None:
    frames = study(ks=(0,), loads=(8,))
    assert best_k(frames.cells, frames.measurements, Goal()) == []
    assert best_k(frames.cells, frames.measurements.iloc[:0], Goal()) == []


def test_a_metric_without_a_better_direction_is_refused(study: Study) -> None:
    frames = study(ks=(0, 2), loads=(8,))
    with pytest.raises(InvalidInput, match="neither better high nor low"):
        best_k(frames.cells, frames.measurements, Goal(metric="prompt_tokens"))


def test_the_order_of_rows_and_the_unit_change_nothing(study: Study) -> None:
    frames = study(ks=(0, 1, 2, 4), repeats=3, noise=0.05, seed=3)
    goal = Goal()
    (straight,) = best_k(frames.cells, frames.measurements, goal)
    (shuffled,) = best_k(
        frames.cells.sample(frac=1, random_state=1),
        frames.measurements.sample(frac=1, random_state=2).assign(
            value=lambda rows: rows["value"] * 1000
        ),
        goal,
    )
    assert [(c.k, c.tied) for c in straight.choices] == [(c.k, c.tied) for c in shuffled.choices]


def test_the_right_k_is_found_in_a_study_of_usual_noise(study: Study) -> None:
    frames = study(ks=(0, 1, 2, 4, 6), loads=(1, 8, 64, 256), repeats=3, noise=0.02, seed=5)
    truth = study(ks=(0, 1, 2, 4, 6), loads=(1, 8, 64, 256))
    (best,) = best_k(frames.cells, frames.measurements, Goal())
    (exact,) = best_k(truth.cells, truth.measurements, Goal())
    for choice, true in zip(best.choices, exact.choices, strict=True):
        assert choice.k is not None
        assert true.leader is not None
        assert true.values[choice.k] > 0.95 * true.values[true.leader]
