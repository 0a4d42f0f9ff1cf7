"""The same cell over nights and versions: one series a setting and metric, one point a night."""

from dataclasses import dataclass, replace
from datetime import timedelta
from math import exp, inf, log
from sys import intern
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warehouse.catalogue import METRICS, Metric, percentile_label
from warehouse.loads import load_of

#: What makes two cells points of one series; everything else may change from night to night.
SERIES_FIELDS: tuple[str, ...] = (
    "study", "model", "gpu", "gpu_count", "tensor_parallel_size", "arm_label", "draft_model",
    "dataset", "load_profile", "concurrency", "rate", "trace", "comparable_as", "evidence",
)  # fmt: skip
_LOAD = ("load_profile", "concurrency", "rate", "trace")
#: Two configurations of one night are two points.
VERSION_FIELDS: tuple[str, ...] = (
    "engine_version",
    "model_revision",
    "draft_revision",
    "server_args",
)
#: A run that begins before noon belongs to the night before.
NOON = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Night:
    """One point. ``mean``: of log(value) over the repeats, turned so that more is better;
    ``variance``: of one repeat, NaN for a single one; ``at``: its first start, UTC; ``cell``:
    what is stated of its first cell."""

    label: str
    at: pd.Timestamp
    mean: float
    variance: float
    repeats: int
    cell: dict[str, Any]

    @property
    def day(self) -> str:
        """The day on which the night began: ``2026-11-21``."""
        return self.label[:10]


@dataclass(frozen=True, slots=True)
class Series:
    """The nights of one setting and metric, oldest first; ``about`` are its SERIES_FIELDS. ``over``:
    the baseline in the same nights, where the nights are an arm's gain over it."""

    about: dict[str, Any]
    metric: str
    statistic: str
    nights: tuple[Night, ...]
    over: "Series | None" = None

    @property
    def words(self) -> tuple[str, ...]:
        """The parts of the series' name, and its metric: people choose a series by these."""
        about = self.about
        load = load_of(*(about.get(name) for name in _LOAD))
        names = (
            about.get(field) or "unknown" for field in ("model", "gpu", "arm_label", "dataset")
        )
        return (*map(str, names), load.text if load else "unknown load", self.line)

    @property
    def name(self) -> str:
        """What the series is called, ``m, H200, eagle3 K=3, code, 8 at once``, without its
        metric."""
        return ", ".join(self.words[:-1])

    @property
    def line(self) -> str:
        """The metric and its statistic: ``Output throughput`` or ``Inter-token latency (ITL)
        P95``."""
        metric = METRICS[self.metric]
        chosen = f" {percentile_label(self.statistic)}" if metric.distribution else ""
        label = (
            metric.label
            if self.over is None
            else f"Gain in {metric.label[:1].lower()}{metric.label[1:]}"
        )
        return f"{label}{chosen}"

    @property
    def measure(self) -> Metric:
        """The metric of the values; that of a gain is the ratio to the baseline's value."""
        metric = METRICS[self.metric]
        return (
            metric if self.over is None else replace(metric, unit="of the baseline's", decimals=3)
        )


def of_many_nights(cells: pd.DataFrame, least: int) -> tuple[pd.DataFrame, int]:
    """Return the good cells of settings with ``least`` points or more, and how many settings have
    fewer.

    ``cells``: as the query of that name.
    """
    good = _good(cells)
    placed = _placed(good, [name for name in SERIES_FIELDS if name in good])
    points = placed.groupby("series")["point"].nunique()
    many = placed["series"].map(points >= least).to_numpy(dtype=bool)
    return good[many], int((points < least).sum())


def _good(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[(cells["status"] == "good") & cells["started_at"].notna()].reset_index(drop=True)


def series_over_nights(cells: pd.DataFrame, measurements: pd.DataFrame) -> list[Series]:
    """Return every series of good cells whose start is known.

    ``cells``: as the query of that name; ``measurements``: cell_id, metric, statistic, value.
    Values that are not above zero and metrics of which neither direction is better are left out.
    """
    directed = [key for key, metric in METRICS.items() if metric.better != "neither"]
    values = measurements[measurements["metric"].isin(directed) & (measurements["value"] > 0)]
    good = _good(cells)
    by = [name for name in SERIES_FIELDS if name in good]
    row = pd.Index(good["cell_id"]).get_indexer(values["cell_id"])
    if not (row >= 0).any():
        return []
    placed = _placed(good, by)
    found = _points(placed, values[row >= 0], row[row >= 0])
    nights = _nights(placed, found)
    facts = _facts(good[by], found["cell"].drop_duplicates().to_numpy())
    # All lines of a setting share one record.
    abouts = {cell: {name: known.get(name) for name in by} for cell, known in facts.items()}
    return [
        Series(abouts[own[0]], intern(metric), intern(statistic), _by_time(nights, own[1]))
        for (_, metric, statistic), own in _of_series(found).items()
    ]


def _placed(cells: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the cells with at, night, and numbers: ``series`` of its setting, ``point`` of its
    night and versions."""
    at = pd.to_datetime(cells["started_at"], utc=True)
    placed = cells.assign(at=at, night=(at - NOON).dt.strftime("%Y-%m-%d"))
    versions = [name for name in VERSION_FIELDS if name in cells]
    return placed.assign(
        series=placed.groupby(by, dropna=False, sort=True).ngroup() if by else 0,
        point=placed.groupby(["night", *versions], dropna=False, sort=True).ngroup(),
    )


def _points(placed: pd.DataFrame, values: pd.DataFrame, row: NDArray[np.intp]) -> pd.DataFrame:
    """Return a row per series, line and night: series, metric, statistic, ``cell`` (the row of its
    first), mean, variance, repeats. ``row``: the cell of each value."""
    better = values["metric"].map({key: metric.better for key, metric in METRICS.items()})
    sign = np.where(better == "lower", -1.0, 1.0)
    rows = placed[["series", "point", "at"]].iloc[row].reset_index(drop=True)
    rows = rows.assign(
        metric=values["metric"].to_numpy(), statistic=values["statistic"].to_numpy(), cell=row,
        log=sign * np.log(values["value"].to_numpy(dtype=np.float64)),
    )  # fmt: skip
    # The first start of a night comes first; of equal ones any, as they come.
    rows = rows.sort_values("at", kind="stable")
    grouped = rows.groupby(["series", "metric", "statistic", "point"], sort=True)
    told = grouped.agg(cell=("cell", "first"), mean=("log", "mean"), variance=("log", "var"),
                       repeats=("log", "size"))  # fmt: skip
    return told.reset_index()


def _nights(placed: pd.DataFrame, found: pd.DataFrame) -> list[Night]:
    """Return a night for each row of ``found``; those of one cell share its record."""
    facts = _facts(placed.drop(columns=["series", "point"]), found["cell"].unique())
    at = {cell: record.pop("at") for cell, record in facts.items()}
    days = {cell: record.pop("night") for cell, record in facts.items()}
    labels = {cell: days[cell] + _version(record) for cell, record in facts.items()}
    columns = (found[name].tolist() for name in ("cell", "mean", "variance", "repeats"))
    return [
        Night(labels[cell], at[cell], mean, variance, repeats, facts[cell])
        for cell, mean, variance, repeats in zip(*columns, strict=True)
    ]


def _version(record: dict[str, Any]) -> str:
    version = record.get("engine_version")
    return f" ({version})" if version else ""


def _facts(cells: pd.DataFrame, rows: NDArray[Any]) -> dict[int, dict[str, Any]]:
    """Return row -> what is stated of the cell in that row; a field that is unknown is not
    there."""
    found: dict[int, dict[str, Any]] = {int(row): {} for row in rows}
    for name in cells:
        codes, values = pd.factorize(cells[name].iloc[rows])
        # Cells that say the same share the value.
        known = list(values)
        for row, code in zip(found, codes.tolist(), strict=True):
            if code >= 0:
                found[row][str(name)] = known[code]
    return found


def _of_series(found: pd.DataFrame) -> dict[tuple[int, str, str], tuple[int, list[int]]]:
    """Return (series, metric, statistic) -> a cell of the series, and its rows of ``found``."""
    columns = (found[name].tolist() for name in ("series", "metric", "statistic", "cell"))
    series: dict[tuple[int, str, str], tuple[int, list[int]]] = {}
    for at, (*key, cell) in enumerate(zip(*columns, strict=True)):
        series.setdefault((key[0], key[1], key[2]), (cell, []))[1].append(at)
    return series


def _by_time(nights: list[Night], rows: list[int]) -> tuple[Night, ...]:
    return tuple(sorted((nights[row] for row in rows), key=lambda night: night.at))


def as_improvement(log_gain: float, metric: str) -> float:
    """Return a gain in turned logs (more is better) as an improvement, a ratio."""
    # As ``improvement`` of new over old, whose ratio this is.
    return 1 - exp(-log_gain) if METRICS[metric].better == "lower" else exp(log_gain) - 1


def as_log_loss(budget: float, metric: str) -> float:
    """Return a loss that is still fine (a ratio) as a loss in turned logs, above zero."""
    if METRICS[metric].better == "lower":
        return log(1 + budget)
    return -log(1 - budget) if budget < 1 else inf
