"""Nights in a row: what is a regression, since when, and what is only noise."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.budgets import Budgets, budgets
from analysis.nightly.nights import Series, series_over_nights
from analysis.nightly.regressions import Assessment, as_json, assess, worst
from warehouse.errors import UnknownKey


def history(
    *levels: float, repeats: int = 3, noise: float = 0.01, metric: str = "output_throughput",
    **changes: Any,
) -> list[Series]:  # fmt: skip
    """One night per level (tokens/s); the version changes where the level first does."""
    draw = np.random.default_rng(1)
    cells, values = [], []
    for night, level in enumerate(levels):
        for repeat in range(repeats):
            cell = f"n{night}r{repeat}"
            cells.append({
                "cell_id": cell, "status": "good", "model": "m", "gpu": "H200", "arm_label": "a",
                "dataset": "code", "concurrency": 8, "server_args": "{}",
                "engine_version": "1" if level == levels[0] else "2",
                "started_at": pd.Timestamp("2026-11-01T23:00Z") + pd.Timedelta(days=night, hours=repeat),
            } | changes)  # fmt: skip
            value = level * np.exp(noise * draw.standard_normal())
            values.append({"cell_id": cell, "metric": metric, "statistic": "mean", "value": value})
    return series_over_nights(pd.DataFrame(cells), pd.DataFrame(values))


def only(*levels: float, budget: Budgets = Budgets(), **given: Any) -> Assessment:  # noqa: B008
    return assess(history(*levels, **given), budget)[0]


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
    assert found.first == "2026-11-06 (2)"
    assert found.last_before == "2026-11-05 (1)"
    assert [change.sentence for change in found.changed] == ["engine_version: 1 → 2"]
    assert as_json(found)["first_bad"] == "2026-11-06 (2)"


def test_a_latency_regresses_where_it_rises() -> None:
    assert only(10, 10, 10, 10, 12, metric="itl").status == "regression"
    assert only(10, 10, 10, 10, 8, metric="itl").status == "fine"


def test_steady_nights_are_fine() -> None:
    found = only(*[100.0] * 8)

    assert found.status == "fine"
    assert found.low > -0.05


def test_two_nights_suffice_where_both_were_repeated() -> None:
    assert only(100, 70).status == "regression"


def test_one_night_is_not_enough() -> None:
    found = only(100)

    assert (found.status, found.first) == ("not enough evidence", None)
    assert "one night only" in found.why


def test_without_repeats_and_few_nights_nothing_tells_the_noise() -> None:
    assert "nothing tells the noise" in only(100, 70, repeats=1).why
    assert only(100, 100, 100, 100, 70, repeats=1).status == "regression"


def test_noise_wider_than_the_budget_is_not_enough_evidence() -> None:
    found = only(100, 100, noise=0.1, repeats=2)

    assert found.status == "not enough evidence"
    assert "repeats" in found.why


def test_a_drop_within_the_budget_is_fine() -> None:
    assert only(*[100.0] * 6, 97, 97, budget=budgets(["output_throughput=10%"])).status == "fine"
    assert (
        only(*[100.0] * 6, 90, 90, budget=budgets(["output_throughput=3%"])).status == "regression"
    )


def test_nights_that_wander_are_noise_even_if_repeats_agree() -> None:
    # within a night nothing moves, between nights 10 % does: no night stands out as a move
    found = only(100, 110, 99, 111, 98, 109, 95, 95, noise=0.0001)

    assert found.status != "regression"
    assert found.first == "2026-11-08 (2)"


def test_false_alarms_are_rare_over_many_steady_series() -> None:
    draw = np.random.default_rng(7)
    levels = [100 * np.exp(0.03 * draw.standard_normal((60, 10)))]
    found = assess(
        [history(*row, repeats=1, noise=0.0)[0] for row in levels[0]], Budgets(default=0.0)
    )

    assert sum(one.status == "regression" for one in found) <= 1


def test_the_worst_status_counts() -> None:
    good, bad, unknown = only(100, 100), only(100, 70), only(100)

    assert worst([good, bad, unknown]) == "regression"
    assert worst([good, unknown]) == "not enough evidence"
    assert worst([good]) == "fine"
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
