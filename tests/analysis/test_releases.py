"""Releases held against each other: which can be, and how their nights are pooled."""

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.budgets import Budgets
from analysis.nightly.nights import Series, series_over_nights
from analysis.nightly.regressions import assess
from analysis.nightly.releases import against, comparable

Measured = tuple[str, str, float]


def history(*nights: Measured, repeats: int = 1) -> list[Series]:
    """One night per (version, dataset, value)."""
    cells, values = [], []
    for night, (version, dataset, level) in enumerate(nights):
        for repeat in range(repeats):
            cell = f"n{night}r{repeat}"
            start = pd.Timestamp("2026-11-01T23:00Z") + pd.Timedelta(days=night, hours=repeat)
            cells.append(
                {"cell_id": cell, "status": "good", "model": "m", "gpu": "H200", "arm_label": "a",
                 "dataset": dataset, "concurrency": 8, "engine_version": version,
                 "started_at": start}
            )  # fmt: skip
            value = level * (1 + 0.01 * repeat)
            values.append(
                {"cell_id": cell, "metric": "output_throughput", "statistic": "mean",
                 "value": value}
            )  # fmt: skip
    return series_over_nights(pd.DataFrame(cells), pd.DataFrame(values))


CODE = [("2", "code", 100.0), ("10", "code", 90.0)]


def test_versions_stand_in_the_order_in_which_they_were_measured() -> None:
    assert comparable(history(*CODE)) == {"2": ("10",), "10": ("2",)}


def test_versions_of_different_series_are_no_pair() -> None:
    known = history(*CODE, ("3", "chat", 50.0))

    assert comparable(known) == {"2": ("10",), "10": ("2",)}
    assert against(known, "2", "3") == []


def test_nights_of_a_version_become_its_repeats() -> None:
    nights = [("1", "code", v) for v in (100, 102, 98)] + [("2", "code", v) for v in (80, 82, 78)]

    pooled = against(history(*nights), "1", "2")[0]

    old, new = pooled.nights
    assert (old.label, new.label) == ("1", "2")
    assert old.repeats == 3
    assert old.variance == pytest.approx(np.var(np.log([100, 102, 98]), ddof=1))
    assert new.mean == pytest.approx(np.mean(np.log([80, 82, 78])))


def test_a_single_night_keeps_its_own_repeats() -> None:
    old, _ = against(history(*CODE, repeats=3), "2", "10")[0].nights

    assert old.repeats == 3
    assert old.variance > 0


def test_the_newer_release_is_judged_as_nights_are() -> None:
    nights = [("1", "code", v) for v in (100, 101, 99)] + [("2", "code", v) for v in (80, 81, 79)]

    found = assess(against(history(*nights), "1", "2"), Budgets())[0]

    assert found.status == "regression"
    assert found.improvement == pytest.approx(-0.2, abs=0.01)
    assert (found.last_before, found.first) == ("1", "2")
    backwards = assess(against(history(*nights), "2", "1"), Budgets())[0]
    assert backwards.low > 0
