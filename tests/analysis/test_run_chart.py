"""A series as a run chart: levels before and after, the noise around them, what changed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.nights import series_over_nights
from analysis.nightly.regressions import SIGMAS, Assessment, Budgets, assess, points, steps


def judged(
    levels: list[float], repeats: int = 1, metric: str = "output_throughput", spread: float = 0.0
) -> Assessment:
    """One night per level; the version is 1 as long as the level is the first one's, roughly."""
    cells: list[dict[str, Any]] = []
    values = []
    for night, level in enumerate(levels):
        for repeat in range(repeats):
            cell = f"n{night}r{repeat}"
            start = pd.Timestamp("2026-11-01T23:00Z") + pd.Timedelta(days=night, hours=repeat)
            version = "1" if abs(level / levels[0] - 1) < 0.1 else "2"
            cells.append(
                {"cell_id": cell, "status": "good", "model": "m", "gpu": "H200", "arm_label": "a",
                 "dataset": "code", "concurrency": 8, "engine_version": version,
                 "started_at": start}
            )  # fmt: skip
            value = level * np.exp(spread * (repeat - (repeats - 1) / 2))
            values.append({"cell_id": cell, "metric": metric, "statistic": "mean", "value": value})
    return assess(series_over_nights(pd.DataFrame(cells), pd.DataFrame(values)), Budgets())[0]


def test_a_move_has_two_levels_in_the_metrics_own_unit() -> None:
    found = points(judged([100, 101, 100, 101, 80, 81, 80, 81]))

    assert [point.part for point in found] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found[0].level == pytest.approx(np.sqrt(100 * 101))
    assert found[-1].level == pytest.approx(np.sqrt(80 * 81))
    assert found[4].value == pytest.approx(80)


def test_a_latency_keeps_its_direction() -> None:
    found = points(judged([10, 10.1, 10, 10.1, 12, 12.1, 12, 12.1], metric="itl"))

    assert found[-1].value == pytest.approx(12.1)
    assert all(p.low is not None and p.high is not None for p in found)
    assert all((p.low or 0) <= p.level <= (p.high or 0) for p in found)


def test_the_band_is_three_sigma_of_nights_around_their_levels_and_not_of_the_move() -> None:
    found = points(judged([100, 101] * 3 + [80, 80.8] * 3))[0]

    # Twelve nights half a step away from two levels: ten degrees of freedom.
    sigma = np.log(1.01) / 2 * np.sqrt(12 / 10)
    assert found.high == pytest.approx(found.level * np.exp(SIGMAS * sigma))


def test_a_move_that_chance_may_have_made_makes_the_band_wider() -> None:
    found = points(judged([100, 101, 100, 101, 80, 80.8, 80, 80.8]))[0]

    # Three degrees of freedom fewer for the place of the second level, which the nights chose.
    sigma = np.log(1.01) / 2 * np.sqrt(8 / 3)
    assert found.high == pytest.approx(found.level * np.exp(SIGMAS * sigma))


def test_repeats_that_scatter_more_than_nights_make_the_band() -> None:
    alike = points(judged([100, 100, 100, 100], repeats=3, spread=0.05))

    sigma = 0.05 / np.sqrt(3)
    assert alike[0].high == pytest.approx(100 * np.exp(SIGMAS * sigma), rel=1e-6)


def test_without_a_move_there_is_one_level() -> None:
    one = judged([100, 101, 99, 100, 101, 100])

    assert one.moves == ()
    assert {point.part for point in points(one)} == {0}


def test_a_single_night_has_no_band() -> None:
    (point,) = points(judged([100]))

    assert (point.low, point.high) == (None, None)


def test_what_changed_stands_with_the_night_it_came_with() -> None:
    one = judged([100, 100, 100, 100, 80, 80])

    assert [len(found) for found in steps(one.series)] == [0, 0, 0, 0, 1, 0]
    assert [change.sentence for change in points(one)[4].changed] == ["engine_version: 1 → 2"]
