"""The same cell over nights and versions: one series a setting and metric, one point a night; the gains of
arms over their baselines; and the series as Apache Otava reads them."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import exp, inf, log
from sys import intern
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import listed
from analysis.matching.arms import BASELINE
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
class SeriesNight:
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
class NightSeries:
    """The nights of one setting and metric, oldest first; ``about`` are its SERIES_FIELDS. ``over``:
    the baseline in the same nights, where the nights are an arm's gain over it."""

    about: dict[str, Any]
    metric: str
    statistic: str
    nights: tuple[SeriesNight, ...]
    over: "NightSeries | None" = None

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
        if self.over is None:
            return f"{metric.label}{chosen}"
        return f"Gain in {metric.label[:1].lower()}{metric.label[1:]}{chosen}"

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


def series_over_nights(cells: pd.DataFrame, measurements: pd.DataFrame) -> list[NightSeries]:
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
    facts = _facts(placed.drop(columns=["series", "point"]), found["cell"].unique())
    at = {cell: record.pop("at") for cell, record in facts.items()}
    labels = {}
    for cell, record in facts.items():
        day, version = record.pop("night"), record.get("engine_version")
        labels[cell] = f"{day} ({version})" if version else day
    # All lines of a setting share one record.
    abouts = {cell: {name: record.get(name) for name in by} for cell, record in facts.items()}
    series: dict[tuple[int, str, str], list[SeriesNight]] = {}
    first: dict[tuple[int, str, str], int] = {}
    names = ("series", "metric", "statistic", "cell", "mean", "variance", "repeats")
    for *key, cell, mean, variance, repeats in listed(found, *names):
        line = (key[0], key[1], key[2])
        night = SeriesNight(labels[cell], at[cell], mean, variance, repeats, facts[cell])
        series.setdefault(line, []).append(night)
        first.setdefault(line, cell)
    return [
        NightSeries(
            abouts[first[line]], intern(line[1]), intern(line[2]),
            tuple(sorted(nights, key=lambda night: night.at)),
        )
        for line, nights in series.items()
    ]  # fmt: skip


def _placed(cells: pd.DataFrame, by: list[str]) -> pd.DataFrame:
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
    return grouped.agg(
        cell=("cell", "first"),
        mean=("log", "mean"),
        variance=("log", "var"),
        repeats=("log", "size"),
    ).reset_index()


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


def as_improvement(log_gain: float, metric: str) -> float:
    """Return a gain in turned logs (more is better) as an improvement, a ratio."""
    # As ``improvement`` of new over old, whose ratio this is.
    return 1 - exp(-log_gain) if METRICS[metric].better == "lower" else exp(log_gain) - 1


def as_log_loss(budget: float, metric: str) -> float:
    """Return a loss that is still fine (a ratio) as a loss in turned logs, above zero."""
    if METRICS[metric].better == "lower":
        return log(1 + budget)
    return -log(1 - budget) if budget < 1 else inf


# --- What speculation gains over the baseline, night by night.
#
# A release that makes only the baseline faster takes the gain away without making anything slower.


_OF_THE_ARM = ("arm_label", "draft_model")


def gains(series: Sequence[NightSeries]) -> Iterator[NightSeries]:
    """Yield each arm's gain over the baseline of the same cells, in the nights that have both:
    logs, more is better, with the baseline's nights in ``over``."""
    baselines: dict[tuple[Any, ...], NightSeries] = {}
    keyed = []
    for one in series:
        setting = (pair for pair in sorted(one.about.items()) if pair[0] not in _OF_THE_ARM)
        keyed.append(((*setting, one.metric, one.statistic), one))
        if one.about.get("arm_label") == BASELINE:
            baselines[keyed[-1][0]] = one
    for key, one in keyed:
        base = baselines.get(key)
        if base is None or base is one:
            continue
        there = {night.label: night for night in base.nights}
        pairs = [(night, there[night.label]) for night in one.nights if night.label in there]
        told = []
        for arm, under in pairs:
            # The difference of two nights as a night; a repeat of it has the noise of both.
            repeats = min(arm.repeats, under.repeats)
            variance = repeats * (arm.variance / arm.repeats + under.variance / under.repeats)
            mean = arm.mean - under.mean
            told.append(replace(arm, mean=mean, variance=variance, repeats=repeats))
        over = replace(base, nights=tuple(under for _, under in pairs))
        yield replace(one, nights=tuple(told), over=over)


# --- Series over nights as Apache Otava reads them: a CSV file a setting, and one configuration.
#
# For those who want its E-divisive with a t test over years of nights; its 87 dependencies stay out
# of this project. Format: https://otava.apache.org (CSV importer).


def otava_files(series: list[NightSeries]) -> dict[str, str]:
    """Return file name -> text: ``otava.yaml`` and a CSV file for each setting, a row a night.

    Columns: time (UTC), version, then each metric in its unit. Configuration is JSON, which is
    YAML; ``OTAVA_CONFIG=otava.yaml otava analyze NAME`` in that folder reads both (0.8.0).
    """
    tests: dict[str, dict[str, object]] = {}
    files = {}
    settings: dict[str, list[NightSeries]] = defaultdict(list)
    for one in series:
        settings[repr(one.about)].append(one)
    for lines in settings.values():
        plain = re.sub(r"[^a-z0-9]+", "-", lines[0].name.lower()).strip("-")
        same = sum(known == plain or known.startswith(f"{plain}--") for known in tests)
        name = f"{plain}--{same + 1}" if same else plain
        metrics: dict[str, dict[str, object]] = {}
        rows: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for one in lines:
            column = f"{one.metric}_{one.statistic}"
            sign = 1 if METRICS[one.metric].better == "higher" else -1
            metrics[column] = {"column": column, "direction": sign, "scale": 1.0}
            for night in one.nights:
                version = str(night.cell.get("engine_version") or "unknown")
                key = (f"{night.at:%Y-%m-%d %H:%M:%S +0000}", version)
                rows[key][column] = f"{np.exp(sign * night.mean):.6g}"
        tests[name] = {
            "type": "csv", "file": f"{name}.csv", "time_column": "time", "attributes": ["version"],
            "metrics": metrics,
        }  # fmt: skip
        table = [{"time": key[0], "version": key[1], **rows[key]} for key in sorted(rows)]
        frame = pd.DataFrame(table, columns=["time", "version", *metrics])
        files[f"{name}.csv"] = frame.to_csv(index=False, lineterminator="\n")
    return {"otava.yaml": json.dumps({"tests": tests}, indent=2) + "\n", **files}
