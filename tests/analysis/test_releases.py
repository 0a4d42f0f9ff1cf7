"""Releases held against each other: which can be, and what the newer one did."""

import numpy as np
import pandas as pd
import pytest

from analysis.nightly.nights import NightSeries, series_over_nights
from analysis.nightly.regressions import between_releases, comparable_releases
from answers.trend.answer import release

Measured = tuple[str, str, float]


def history(*nights: Measured, repeats: int = 1) -> list[NightSeries]:
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
    assert comparable_releases(history(*CODE)) == {"2": ("10",), "10": ("2",)}


def test_versions_of_different_series_are_no_pair() -> None:
    known = history(*CODE, ("3", "chat", 50.0))

    assert comparable_releases(known) == {"2": ("10",), "10": ("2",)}
    assert between_releases(known, "2", "3") == []


THREE_EACH = [("1", "code", v) for v in (100.0, 101.0, 99.0)] + [
    ("2", "code", v) for v in (80.0, 81.0, 79.0)
]


def test_all_nights_of_a_release_are_held_against_those_of_the_other() -> None:
    found = between_releases(history(*THREE_EACH), "1", "2")[0]

    assert found.improvement == pytest.approx(-0.2, abs=0.001)
    # The t interval of two groups of three: 2.776 standard errors of the difference.
    error = np.log(1.0125) * np.sqrt(2 / 3)
    assert found.high == pytest.approx(0.8 * np.exp(2.776 * error) - 1, abs=0.01)
    backwards = between_releases(history(*THREE_EACH), "2", "1")[0]
    assert backwards.low > 0


def test_one_night_each_tells_no_noise_however_often_it_was_repeated() -> None:
    found = between_releases(history(*CODE, repeats=3), "2", "10")[0]

    assert (found.improvement, found.low, found.high) == (None, None, None)


def test_a_release_is_said_in_one_sentence() -> None:
    series = history(*THREE_EACH)

    assert release(series, "1", "2").headline == (
        "2 against 1: 0 better, 1 worse and 0 without a clear difference, of 1 series."
    )
    assert release(series, "1", "3").headline == "No series was measured with both 1 and 3."
