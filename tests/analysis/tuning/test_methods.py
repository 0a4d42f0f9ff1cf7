"""Arms ranked against one baseline, over the loads that they share."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.drafts.best_k import Goal
from analysis.verdicts.methods import Ranking, rankings

Study = Callable[..., Any]


def both(study: Study, **changes: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A draft model at K = 2 and 4 with the baseline, and n-gram at K = 3 as fast as K = 2."""
    one = study(ks=(0, 2, 4), **changes)
    other = study(ks=(2,), method="ngram", **changes)
    renamed = other.cells.assign(num_speculative_tokens=3, arm_label="ngram K=3")
    return (
        pd.concat([one.cells, renamed], ignore_index=True),
        pd.concat([one.measurements, other.measurements], ignore_index=True),
    )


def only(cells: pd.DataFrame, measured: pd.DataFrame, **goal: Any) -> Ranking:
    (ranking,) = rankings(cells, measured, Goal(**goal))
    return ranking


def names(ranking: Ranking) -> list[tuple[str, int, int | None]]:
    return [(arm.family.split()[0], arm.k, arm.rank) for arm in ranking.arms]


def test_arms_of_any_method_are_ranked_and_equals_share_a_rank(
    study: Study, fake_server: Any
) -> None:
    cheap = fake_server(draft_token=0.2)
    found = only(*both(study, loads=(1, 8), repeats=3, noise=0.001, server=cheap))
    assert sorted(names(found)) == [("draft_model", 2, 2), ("draft_model", 4, 1), ("ngram", 3, 2)]
    first = found.arms[0]
    assert first.gain.improvement == pytest.approx(first.value / first.baseline - 1, rel=1e-6)
    assert first.gain.low < first.gain.improvement < first.gain.high
    assert first.concurrencies == (1, 8)
    assert found.dataset == "code"


def test_an_arm_that_misses_a_load_gets_no_rank(study: Study) -> None:
    cells, measured = both(study, loads=(1, 8), repeats=2)
    gone = (cells["num_speculative_tokens"] == 4) & (cells["concurrency"] == 1)
    found = only(cells[~gone], measured)
    assert names(found)[-1] == ("draft_model", 4, None)
    assert found.arms[-1].concurrencies == (8,)
    assert {arm.rank for arm in found.arms[:-1]} == {1}


def test_a_load_of_the_baseline_alone_is_left_out(study: Study) -> None:
    cells, measured = both(study, loads=(1, 8, 64), repeats=2)
    gone = (cells["spec_method"] != "none") & (cells["concurrency"] == 64)
    assert {arm.concurrencies for arm in only(cells[~gone], measured).arms} == {(1, 8)}


def test_arms_that_have_no_load_in_common_are_each_told_alone(study: Study) -> None:
    cells, measured = both(study, loads=(1, 8), repeats=2)
    gone = ((cells["spec_method"] == "ngram") & (cells["concurrency"] == 1)) | (
        (cells["spec_method"] == "draft_model") & (cells["concurrency"] == 8)
    )
    found = only(cells[~gone], measured)
    assert {arm.rank for arm in found.arms} == {None}


def test_lower_is_better_where_the_metric_says_so(study: Study, fake_server: Any) -> None:
    cheap = fake_server(draft_token=0.2)
    found = only(*both(study, loads=(1, 8), repeats=3, noise=0.001, server=cheap), metric="itl")
    assert names(found)[0] == ("draft_model", 4, 1)
    assert found.arms[0].gain.improvement == pytest.approx(
        1 - found.arms[0].value / found.arms[0].baseline, rel=1e-6
    )


def test_without_a_baseline_there_is_nothing_to_rank_against(study: Study) -> None:
    cells, measured = both(study, loads=(1,), repeats=2)
    assert rankings(cells[cells["spec_method"] != "none"], measured, Goal()) == []


def test_each_dataset_has_its_own_ranking(study: Study, fake_server: Any) -> None:
    server = fake_server(lengths={"code": (100, 200), "prose": (100, 200)})
    found = rankings(*both(study, loads=(1, 8), repeats=2, server=server), Goal())
    assert [ranking.dataset for ranking in found] == ["code", "prose"]
