"""A series as a run chart: levels before and after, the noise around them, what changed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.budgets import Budgets
from analysis.nightly.nights import series_over_nights
from analysis.nightly.regressions import Assessment, assess
from analysis.nightly.run_chart import SIGMAS, STEP_PER_SIGMA, moved, points, steps


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
    rows = points(judged([100, 101, 100, 101, 80, 81, 80, 81]))

    assert list(rows["part"]) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert rows["level"].iloc[0] == pytest.approx(np.sqrt(100 * 101))
    assert rows["level"].iloc[-1] == pytest.approx(np.sqrt(80 * 81))
    assert rows["value"].iloc[4] == pytest.approx(80)


def test_a_latency_keeps_its_direction() -> None:
    rows = points(judged([10, 10.1, 10, 10.1, 12, 12.1, 12, 12.1], metric="itl"))

    assert rows["value"].iloc[-1] == pytest.approx(12.1)
    assert (rows["low"] <= rows["level"]).all()
    assert (rows["level"] <= rows["high"]).all()


def test_the_band_is_three_sigma_of_the_steps_between_nights_but_not_of_the_move() -> None:
    rows = points(judged([100, 101, 100, 101, 80, 80.8, 80, 80.8]))

    sigma = np.log(1.01) / STEP_PER_SIGMA
    assert rows["high"].iloc[0] / rows["level"].iloc[0] == pytest.approx(np.exp(SIGMAS * sigma))


def test_repeats_that_scatter_more_than_nights_make_the_band() -> None:
    alike = points(judged([100, 100, 100, 100], repeats=3, spread=0.05))

    sigma = 0.05 / np.sqrt(3)
    assert alike["high"].iloc[0] == pytest.approx(100 * np.exp(SIGMAS * sigma), rel=1e-6)


def test_without_a_move_there_is_one_level() -> None:
    one = judged([100, 101, 99, 100, 101, 100])

    assert not moved(one)
    assert set(points(one)["part"]) == {0}


def test_a_single_night_has_no_band() -> None:
    rows = points(judged([100]))

    assert len(rows) == 1
    assert np.isnan(rows["low"].iloc[0])


def test_what_changed_stands_with_the_night_it_came_with() -> None:
    one = judged([100, 100, 100, 100, 80, 80])

    assert [len(found) for found in steps(one.series)] == [0, 0, 0, 0, 1, 0]
    assert points(one)["changed"].iloc[4] == "engine_version: 1 → 2"
