"""Nights in a row for tests: one series with a night per level."""

from typing import Any

import numpy as np
import pandas as pd

from analysis.nightly.nights import NightSeries, series_over_nights
from analysis.nightly.regressions import Assessment, Budgets, assess


def history(
    *levels: float, repeats: int = 3, noise: float = 0.01, metric: str = "output_throughput",
    **changes: Any,
) -> list[NightSeries]:  # fmt: skip
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
