"""The same cell over nights and versions: one series a setting and metric, one point a night."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import records
from analysis.significance.improvement import improvement
from warehouse.catalogue import METRICS

Floats = NDArray[np.float64]

#: What makes two cells points of one series; everything else may change from night to night.
SERIES_FIELDS: tuple[str, ...] = (
    "study", "model", "gpu", "gpu_count", "tensor_parallel_size", "arm_label", "draft_model",
    "dataset", "load_profile", "concurrency", "rate", "comparable_as", "evidence",
)  # fmt: skip
#: Two configurations of one night are two points.
VERSION_FIELDS: tuple[str, ...] = (
    "engine_version",
    "model_revision",
    "draft_revision",
    "server_args",
)
_ADDED = {"at", "night", "metric", "statistic", "value"}
#: A run that begins before noon belongs to the night before.
NOON = timedelta(hours=12)


@dataclass(frozen=True)
class Night:
    """One point. ``mean``: of log(value) over the repeats, turned so that more is better;
    ``variance``: of one repeat, NaN for a single one; ``at``: its first start, UTC; ``cell``: the
    record of its first cell."""

    label: str
    at: pd.Timestamp
    mean: float
    variance: float
    repeats: int
    cell: dict[str, Any]


@dataclass(frozen=True)
class Series:
    """The nights of one setting and metric, oldest first; ``about`` are its SERIES_FIELDS."""

    about: dict[str, Any]
    metric: str
    statistic: str
    nights: tuple[Night, ...]

    @property
    def name(self) -> str:
        """``eagle3 K=3, code, concurrency 8``: enough to find it."""
        about = self.about
        load = (
            f"concurrency {about['concurrency']:g}" if about.get("concurrency") is not None
            else f"{about['rate']:g} requests/s" if about.get("rate") is not None else "unknown load"
        )  # fmt: skip
        names = (
            about.get(field) or "unknown" for field in ("model", "gpu", "arm_label", "dataset")
        )
        return ", ".join([*map(str, names), load])


def series_over_nights(cells: pd.DataFrame, measurements: pd.DataFrame) -> list[Series]:
    """Every series of good cells whose start is known.

    ``cells``: as the query of that name; ``measurements``: cell_id, metric, statistic, value.
    Values that are not above zero and metrics of which neither direction is better are left out.
    """
    directed = [key for key, metric in METRICS.items() if metric.better != "neither"]
    values = measurements[measurements["metric"].isin(directed) & (measurements["value"] > 0)]
    good = cells[(cells["status"] == "good") & cells["started_at"].notna()]
    by = [name for name in SERIES_FIELDS if name in good]
    rows = _placed(good).merge(values[["cell_id", "metric", "statistic", "value"]], on="cell_id")
    return [
        _series(group, by)
        for _, group in rows.groupby([*by, "metric", "statistic"], dropna=False, sort=True)
    ]


def _placed(cells: pd.DataFrame) -> pd.DataFrame:
    at = pd.to_datetime(cells["started_at"], utc=True)
    return cells.assign(at=at, night=(at - NOON).dt.date.astype(str))


def _series(rows: pd.DataFrame, by: list[str]) -> Series:
    metric, statistic = str(rows["metric"].iloc[0]), str(rows["statistic"].iloc[0])
    about = {name: _known(rows[name].iloc[0]) for name in by}
    versions = [name for name in VERSION_FIELDS if name in rows]
    nights = [
        _night(group, metric) for _, group in rows.groupby(["night", *versions], dropna=False)
    ]
    return Series(about, metric, statistic, tuple(sorted(nights, key=lambda night: night.at)))


def _night(rows: pd.DataFrame, metric: str) -> Night:
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    logs = sign * np.log(rows["value"].to_numpy(dtype=np.float64))
    first = records(rows.sort_values("at"))[0]
    cell = {name: value for name, value in first.items() if name not in _ADDED}
    version = _known(first.get("engine_version"))
    label = f"{first['night']}" + (f" ({version})" if version else "")
    variance = float(logs.var(ddof=1)) if len(logs) > 1 else float("nan")
    return Night(label, first["at"], float(logs.mean()), variance, len(logs), cell)


def as_improvement(log_gain: float, metric: str) -> float:
    """A gain in turned logs (more is better) as an improvement, a ratio."""
    better = METRICS[metric].better
    found = improvement(1.0, float(np.exp(-log_gain if better == "lower" else log_gain)), better)
    assert found is not None
    return found


def _known(value: Any) -> Any:
    return None if value is None or pd.isna(value) else value
