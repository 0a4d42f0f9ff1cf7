"""When speculation has paid: for its preparation, and at each load."""

import pandas as pd
import pytest

from analysis.money.break_even import (
    acceptance_rate_at,
    break_even,
    break_even_length,
    ks_that_pay,
    pays_at,
)
from warehouse.errors import InvalidInput


def test_an_investment_is_paid_back_by_tokens_and_by_hours() -> None:
    found = break_even(850.0, usd_saved_per_million=0.85, usd_saved_per_hour=2.0)

    assert found.tokens == pytest.approx(1e9)
    assert found.hours == 425.0


@pytest.mark.parametrize("saved", [0.0, -1.0, float("nan")])
def test_what_saves_nothing_never_pays(saved: float) -> None:
    found = break_even(100.0, saved, saved)
    assert (found.tokens, found.hours) == (None, None)


@pytest.mark.parametrize("spent", [-1.0, float("nan"), float("inf")])
def test_an_impossible_investment_is_refused(spent: float) -> None:
    with pytest.raises(InvalidInput, match="investment"):
        break_even(spent, 1.0, 1.0)


@pytest.mark.parametrize(
    ("length", "baseline", "speculative", "needed"),
    [(2.0, 100.0, 100.0, 2.0), (2.4, 100.0, 120.0, 2.0), (2.0, 120.0, 100.0, 2.4)],
)
def test_the_length_needed_is_the_price_of_a_step(
    length: float, baseline: float, speculative: float, needed: float
) -> None:
    assert break_even_length(length, baseline, speculative) == pytest.approx(needed)


def test_the_length_needed_translates_to_a_rate() -> None:
    assert acceptance_rate_at(2.5, 3) == pytest.approx(0.5)


def _pair(concurrency: int, arm: int, speculative: float, cell: str) -> dict[str, object]:
    return {
        "setting": 0, "arm_id": arm, "concurrency": concurrency, "metric": "output_throughput",
        "statistic": "mean", "baseline": 100.0 * concurrency, "speculative": speculative,
        "speculative_id": cell,
    }  # fmt: skip


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """K = 2 (arm 1) and K = 4 (arm 2), at concurrency 1 and 10; K = 4 loses at 10."""
    pairs = pd.DataFrame(
        [
            _pair(1, 1, 160.0, "a"), _pair(10, 1, 1100.0, "b"),
            _pair(1, 2, 200.0, "c"), _pair(10, 2, 800.0, "d"),
        ]
    )  # fmt: skip
    cells = pd.DataFrame(
        {
            "cell_id": list("abcd"), "arm_label": ["K=2", "K=2", "K=4", "K=4"],
            "dataset": "code", "tensor_parallel_size": 1, "num_speculative_tokens": [2, 2, 4, 4],
        }
    )  # fmt: skip
    acceptance = pd.DataFrame(
        {"cell_id": list("abcd"), "source": "counters", "mean_length": [2.0, 2.2, 3.0, 2.8]}
    )
    return pairs, cells, acceptance


def test_each_load_and_k_says_from_which_acceptance_it_pays() -> None:
    found = pays_at(*tables())
    rows = {(p.k, p.concurrency): p for p in found}

    assert rows[2, 1].break_even_length == pytest.approx(2.0 * 100 / 160)
    assert rows[4, 10].break_even_length == pytest.approx(2.8 * 1000 / 800)
    assert rows[4, 10].break_even_rate == pytest.approx((3.5 - 1) / 4)
    assert {key: p.pays for key, p in rows.items()} == {
        (2, 1): True, (2, 10): True, (4, 1): True, (4, 10): False,
    }  # fmt: skip
    assert ks_that_pay(found, 0) == {1: (2, 4), 10: (2,)}


def test_an_unknown_k_has_a_length_but_no_rate() -> None:
    pairs, cells, acceptance = tables()
    (first, *_) = pays_at(pairs, cells.assign(num_speculative_tokens=None), acceptance)

    assert (first.k, first.break_even_rate) == (None, None)
    assert first.break_even_length == pytest.approx(1.25)
    assert ks_that_pay([first], 0) == {}


def test_counters_are_believed_before_requests_and_the_order_of_rows_is_nothing() -> None:
    pairs, cells, acceptance = tables()
    doubted = acceptance.assign(source="requests", mean_length=9.0)
    mixed = pd.concat([doubted, acceptance]).sample(frac=1, random_state=1)

    assert pays_at(pairs.iloc[::-1], cells.iloc[::-1], mixed) == pays_at(*tables())


def test_repeats_are_averaged_as_ratios() -> None:
    pairs, cells, acceptance = tables()
    again = pairs.head(1).assign(baseline=400.0, speculative=160.0, speculative_id="b")
    (one, *_) = pays_at(pd.concat([pairs.head(1), again]), cells, acceptance)

    # Lengths 2.0 and 2.2; ratios 1.6 and 0.4: geometric means of both.
    assert one.length == pytest.approx((2.0 * 2.2) ** 0.5)
    assert one.break_even_length == pytest.approx(one.length / (1.6 * 0.4) ** 0.5)


def test_a_level_without_acceptance_is_left_out() -> None:
    pairs, cells, acceptance = tables()
    assert [p.concurrency for p in pays_at(pairs, cells, acceptance.head(1))] == [1]
    assert pays_at(pairs, cells, acceptance.head(0)) == []
