"""How sure a difference is: intervals of improvements from repeats of the same pair of cells.

The logarithm of new / old of each pair is one observation; its repeats give the interval, by a t
whose variance borrows from the other levels of the same series as far as they agree
(``analysis.significance.noise``). Everything inside a cell (its requests share batches) is one observation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.significance.evidence import BETTER, OPEN, WORSE, repeats_enough, verdicts
from analysis.significance.noise import Spread, half_width, spreads, tail_beyond
from analysis.significance.shared_moves import whole_series, widened
from warehouse.catalogue import METRICS

Floats = NDArray[np.float64]

#: What tells one series of levels from another.
SERIES: tuple[str, ...] = ("setting", "arm_id", "metric", "statistic")
#: What an interval covers: run-to-run noise, or nothing where there is one repeat.
RUNS, NOTHING = "runs", "nothing"
#: What a weighing of two answers costs, by simulation: intervals are this much surer than their
#: mixture says, so that a nominal 95 % covers 95 %.
CALIBRATION = 0.95


@dataclass(frozen=True)
class Interval:
    """Arrays of one shape. ``mean``, ``low``, ``high``: log ratios of new / old, ``noise``: the
    standard deviation of one repeat's log ratio, ``dof``: what stands behind it, ``p_value``: how
    easily noise alone goes this far (0-1). NaN where nothing is known."""

    mean: Floats
    low: Floats
    high: Floats
    noise: Floats
    dof: Floats
    p_value: Floats


@dataclass(frozen=True)
class Confidence:
    """``levels``: a row per setting, arm_id, concurrency, metric and statistic, with repeats,
    improvement, low, high (ratios, positive is better), noise (standard deviation of a repeat's
    log ratio), dof, p_value, verdict and repeats_enough (how many would settle what is open, NaN
    for more than ``evidence.MOST_REPEATS`` or where nothing tells); ``covers``: what the interval
    is of, ``runs``, or ``nothing`` where there is none. ``geomean``: the same over the
    levels of a series, without concurrency; its ``repeats`` are those of the level with the
    fewest, and ``shared`` says that they moved together at all levels: its interval is then of the
    repeats' own means."""

    levels: pd.DataFrame
    geomean: pd.DataFrame


def intervals(pairs: pd.DataFrame, level: float = 0.95) -> Confidence:
    """The interval of each level and of each mean over levels, at confidence ``level`` (0-1).

    ``pairs``: a row per pair with setting, arm_id, concurrency, metric, statistic, baseline and
    speculative, as ``Comparison.pairs``; the pairs of one level are its repeats, those that share a
    ``baseline_id`` one repeat together. Where ``repeat`` is there, repeats that move together at all
    levels (one server start) count as such. Metrics of which neither direction is better are left
    out. A level with one repeat has no interval.
    """
    logs = _logs(pairs)
    levels = _levels(logs)
    count = levels.groupby(list(SERIES), sort=False, dropna=False)["log"].transform("size")
    parts = [_batch(rows, int(number), level) for number, rows in levels.groupby(count)]
    empty = (_as_improvements(levels.iloc[:0], _nothing(0)),) * 2
    found = [
        pd.concat([part[which] for part in parts], ignore_index=True) if parts else empty[which]
        for which in (0, 1)
    ]
    means = _moved_together(found[1].drop(columns="concurrency"), logs, level)
    return Confidence(found[0], means)


def _moved_together(means: pd.DataFrame, logs: pd.DataFrame, level: float) -> pd.DataFrame:
    """The means over levels, wider where a series moves as one from repeat to repeat."""
    means = means.assign(shared=False)
    if "repeat" not in logs:
        return means
    told = {name: means[name].to_numpy(copy=True) for name in _TOLD}
    table = logs.pivot_table(index=[*SERIES, "concurrency"], columns="repeat", values="log")
    for rows, series in whole_series(table, means.set_index(list(SERIES))["repeats"]):
        grows, wider = _widened(means.iloc[rows], series, level)
        for name, values in wider.items():
            told[name][rows[grows]] = values[grows]
    return means.assign(**told)


#: What a series that moves as one changes.
_TOLD = ("low", "high", "dof", "p_value", "verdict", "shared")


def _widened(
    means: pd.DataFrame, series: Floats, level: float
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """Which of ``means`` grow, given their log ratios, and what then stands in their columns."""
    sign = np.where(_lower(means), -1.0, 1.0)
    middle, low, high = (
        sign * np.log1p(sign * means[name].to_numpy()) for name in ("improvement", "low", "high")
    )
    half, grows = widened(series, (high - low) / 2, (1 - level) * CALIBRATION)
    low, high = (sign * np.expm1(sign * end) for end in (middle - half, middle + half))
    verdict = verdicts(low, high)
    # What no longer stands by its interval must not stand by its p-value either.
    p_value = np.where(np.isin(verdict, (BETTER, WORSE)), means["p_value"], 1.0)
    dof = np.full(len(means), series.shape[-1] - 1.0)
    told = {"low": low, "high": high, "dof": dof, "p_value": p_value}
    return grows, {**told, "verdict": verdict, "shared": grows}


def _lower(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Where a lower value is better."""
    better = rows["metric"].map({key: metric.better for key, metric in METRICS.items()})
    return np.asarray(better == "lower", dtype=bool)


def ratio_interval(log_ratios: Floats, level: float = 0.95) -> tuple[Interval, Interval]:
    """Intervals of log ratios (…, levels, repeats): of each level, and of the mean over levels.

    NaN stands for a repeat that is missing. Each series needs a level with two repeats.
    """
    repeats = np.isfinite(log_ratios).sum(axis=-1).astype(np.float64)
    mean = np.nansum(log_ratios, axis=-1) / repeats
    squares = np.nansum((log_ratios - mean[..., None]) ** 2, axis=-1)
    return _intervals(mean, squares / np.maximum(repeats - 1, 1), repeats, level)


def _intervals(
    mean: Floats, variance: Floats, repeats: Floats, level: float
) -> tuple[Interval, Interval]:
    of_levels, of_mean = spreads(variance, repeats)
    alone = repeats < 2
    each = _interval(mean, of_levels, repeats, level)
    hidden = {name: np.where(alone, np.nan, getattr(each, name)) for name in _UNTOLD}
    each = Interval(mean=mean, noise=each.noise, **hidden)
    return each, _interval(mean.mean(axis=-1), of_mean, repeats.min(axis=-1), level)


_UNTOLD = ("low", "high", "dof", "p_value")


def _interval(mean: Floats, spread: Spread, repeats: Floats, level: float) -> Interval:
    half = half_width(spread, (1 - level) * CALIBRATION)
    noise = np.sqrt((spread.weight * spread.variance).sum(axis=-1) * repeats)
    dof = (spread.weight * spread.dof).sum(axis=-1)
    p_value = np.minimum(tail_beyond(spread, mean) / CALIBRATION, 1.0)
    return Interval(mean, mean - half, mean + half, noise, dof, p_value)


def _nothing(*shape: int) -> Interval:
    return Interval(*(np.full(shape, np.nan) for _ in range(6)))


def _logs(pairs: pd.DataFrame) -> pd.DataFrame:
    """A row per series, concurrency and repeat: the log ratio, NaN where one is not above zero."""
    better = pairs["metric"].map({key: metric.better for key, metric in METRICS.items()})
    rows = pairs[better.isin(["higher", "lower"])]
    positive = (rows["baseline"] > 0) & (rows["speculative"] > 0)
    ratio = (rows["speculative"] / rows["baseline"]).where(positive).astype("float64")
    logs = rows.assign(log=np.log(ratio))
    if "baseline_id" not in rows:
        return logs
    # Pairs that share a baseline share its noise, and cannot tell how large it is.
    grouped = logs.groupby([*SERIES, "concurrency", "baseline_id"], dropna=False)
    once = grouped["log"].mean(skipna=False).to_frame()
    if "repeat" in logs:
        once["repeat"] = grouped["repeat"].first()
    return once.reset_index()


def _levels(logs: pd.DataFrame) -> pd.DataFrame:
    """A row per series and concurrency: mean and variance of the log ratios, and their number."""
    grouped = logs.groupby([*SERIES, "concurrency"], dropna=False, sort=True)["log"]
    table = grouped.agg(["mean", "var", "size", "count"]).reset_index()
    # A mean over fewer repeats than there are would hide what could not be compared.
    table["log"] = table["mean"].where(table["count"] == table["size"])
    return table.rename(columns={"size": "repeats"}).drop(columns=["mean", "count"])


def _batch(rows: pd.DataFrame, levels: int, level: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Series that have the same number of levels, all at once: levels and means over levels."""
    shape = (-1, levels)
    mean, variance, repeats = (
        rows[name].to_numpy(dtype=np.float64).reshape(shape) for name in ("log", "var", "repeats")
    )
    told = (repeats > 1).any(axis=-1) & np.isfinite(mean).all(axis=-1)
    each, over = _nothing(*mean.shape), _nothing(len(mean))
    each.mean[:], over.mean[:] = mean, mean.mean(axis=-1)
    if told.any():
        known = _intervals(mean[told], np.nan_to_num(variance[told]), repeats[told], level)
        for whole, part in zip((each, over), known, strict=True):
            for name, values in vars(part).items():
                getattr(whole, name)[told] = values
    series = rows.iloc[::levels].assign(repeats=repeats.min(axis=-1).astype(np.int64))
    return _as_improvements(rows, each), _as_improvements(series, over)


def _as_improvements(rows: pd.DataFrame, found: Interval) -> pd.DataFrame:
    """Ratios of which positive is better: new / old - 1, or 1 - new / old where lower is better."""
    lower = _lower(rows)
    mean, low, high = (
        np.where(lower, -np.expm1(values.ravel()), np.expm1(values.ravel()))
        for values in (found.mean, found.low, found.high)
    )
    low, high = np.where(lower, high, low), np.where(lower, low, high)
    verdict = verdicts(low, high)
    undecided = verdict == OPEN
    enough = np.full(len(rows), np.nan)
    enough[undecided] = _enough(rows["repeats"], found, undecided)
    return rows[[*SERIES, "concurrency", "repeats"]].assign(
        improvement=mean,
        low=low,
        high=high,
        noise=found.noise.ravel(),
        dof=found.dof.ravel(),
        p_value=found.p_value.ravel(),
        verdict=verdict,
        covers=np.where(np.isfinite(low), RUNS, NOTHING).astype(object),
        repeats_enough=enough,
    )


def _enough(repeats: pd.Series, found: Interval, of: NDArray[np.bool_]) -> Floats:
    done = repeats.to_numpy(dtype=np.float64)[of]
    mean, noise, dof = (values.ravel()[of] for values in (found.mean, found.noise, found.dof))
    # One repeat adds at least its own degree of freedom, several levels together add more.
    added = np.nan_to_num(dof / np.maximum(done - 1, 1), nan=1.0)
    needed = repeats_enough(mean, noise, np.maximum(added, 1.0))
    return np.where(needed > done, needed, np.where(np.isnan(needed), np.nan, done + 1))
