"""Every difference between an arm and its baseline, with interval, word and what they stand on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.launches import (
    Floats,
    Residuals,
    Spread,
    Tails,
    balanced_residuals,
    error_rates,
    loose_residuals,
    spread,
)
from analysis.evidence.repeats import BASELINE, Launches, Places, launches_of
from analysis.evidence.words import words
from analysis.frames import declared
from analysis.matching.comparison import Comparison

#: Level of the plain intervals.
LEVEL = 0.95
#: The ends of a difference's intervals, the plain one and the one adjusted for all that the study compares.
ENDS = ("low", "high", "adjusted_low", "adjusted_high")
#: What tells one study from another where none was stated.
_WITHOUT_STUDY = ("model", "gpu", "dataset")


@dataclass(frozen=True)
class Effects:
    """Every difference of a comparison, load by load and over the loads. ``levels``: a row per
    setting, arm_id, load, metric and statistic: ``launches`` (of the arm with fewer),
    ``independent`` (whether all launches were stated), ``log`` (log ratio of the launches' means,
    positive is better), ``variance`` (of one launch's value), ``weight`` (the variance of ``log``
    is variance x weight), ``share``, ``dof`` and ``rest_dof`` (as in ``Tails``), ``p_value``
    (two-sided), ``probability`` (of a gain, 0-1), ``error`` (of the adjusted interval),
    ``improvement``, ``low``, ``high``, ``adjusted_low``, ``adjusted_high`` (ratios) and ``word``.
    ``means``: the same over the loads of a series, without ``load``. NaN where nothing repeats."""

    levels: pd.DataFrame
    means: pd.DataFrame


def effects(found: Comparison, cells: pd.DataFrame) -> Effects:
    """Return all differences of a comparison; ``cells`` as the query of that name returns them.

    Multiplicity is that of the study, so give all cells of a study, whatever is shown.
    """
    launches = launches_of(found.pairs, cells)
    study = study_numbers(found.keys)
    tables = list(_settings(launches))
    spreads = list(_spreads(launches, tables, study))
    measured = [(table, found, _differences(launches, table)) for table, found in spreads]
    levels = [_levels(launches, *one) for one in measured]
    means = [_means(launches, *one) for one in measured]
    # Levels and means are one family: what the study settles, it settles among all of them.
    rows = pd.concat([_empty(), *levels, *means], ignore_index=True)
    of_level = np.arange(len(rows)) < sum(map(len, levels))
    told = judged(rows, study)
    by = ["setting", "arm_id", "metric", "statistic"]
    over_loads = told[~of_level].drop(columns="load").sort_values(by, ignore_index=True)
    return Effects(
        declared("effects by load", told[of_level].sort_values([*by, "load"], ignore_index=True)),
        declared("effects", over_loads),
    )


def study_numbers(keys: pd.DataFrame) -> dict[int, int]:
    """Return setting -> the number of its study. ``keys`` as ``Comparison.keys``."""
    first = keys[~keys.index.get_level_values(0).duplicated()]
    codes = pd.factorize(pd.Series(studies_of(first), dtype=object))[0]
    return dict(zip(first.index.get_level_values(0).tolist(), codes.tolist(), strict=True))


def studies_of(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return what tells the study of each row: the stated one, else model, hardware and dataset.

    ``rows``: study, model, gpu, dataset; a missing column is unknown.
    """
    told = rows.reindex(columns=["study", *_WITHOUT_STUDY]).astype(object)
    told = told.where(told.notna(), None)
    return [
        (row[0],) if row[0] is not None else (None, *row[1:])
        for row in told.itertuples(index=False, name=None)
    ]


@dataclass(frozen=True)
class _Setting:
    """Where one setting's launches stand: ``rows`` (arms, loads, rounds), row numbers of the units,
    -1 where there is none; ``arms`` (the baseline first), ``loads``, ``launch_arm`` and ``launches``
    (launches, loads) the same without rounds, ``launch_round`` the round of each."""

    setting: int
    arms: tuple[int, ...]
    loads: tuple[int, ...]
    rows: Places
    launches: Places
    launch_arm: Places
    launch_round: Places
    known: bool

    @property
    def whole(self) -> bool:
        """Whether every arm has every load in every round, once."""
        return bool((self.rows >= 0).all()) and self.rows.size == (self.launches >= 0).sum()


def _settings(launches: Launches) -> Iterator[_Setting]:
    units = launches.units
    places = np.arange(len(units))
    for setting, rows in units.assign(place=places).groupby("setting", sort=True):
        arm, arms = pd.factorize(rows["arm"], sort=True)
        load, loads = pd.factorize(rows["load"], sort=True)
        turn, rounds = pd.factorize(rows["round"], sort=True)
        start = rows.groupby(["arm", "launch"], sort=True).ngroup().to_numpy()
        table = np.full((len(arms), len(loads), len(rounds)), -1, dtype=np.int64)
        table[arm, load, turn] = rows["place"]
        flat = np.full((start.max() + 1, len(loads)), -1, dtype=np.int64)
        flat[start, load] = rows["place"]
        first = np.unique(start, return_index=True)[1]
        yield _Setting(
            int(str(setting)), tuple(int(a) for a in arms), tuple(int(x) for x in loads), table,
            flat, arm[first], turn[first], bool(rows["known"].all()),
        )  # fmt: skip


def _spreads(
    launches: Launches, tables: list[_Setting], study: dict[int, int]
) -> Iterator[tuple[_Setting, list[Spread]]]:
    """Yield each setting with the spread of each line; settings of one study and shape are spread
    together, since they lend each other what they know."""
    groups: dict[tuple[int, tuple[int, ...]], list[_Setting]] = {}
    for table in tables:
        shape = table.rows.shape if table.whole else (-1, table.setting)
        groups.setdefault((study[table.setting], shape), []).append(table)
    for alike in groups.values():
        by_line = [_of_line(launches, alike, line) for line in range(len(launches.lines.names))]
        for place, table in enumerate(alike):
            own = [Spread(*(each[place] for each in vars(found).values())) for found in by_line]
            yield table, own


def _of_line(launches: Launches, alike: list[_Setting], line: int) -> Spread:
    if not alike[0].whole:
        return spread(_loose(launches, alike[0], line))
    values = launches.values[np.stack([table.rows for table in alike]), line]
    found = balanced_residuals(values)
    gaps = np.flatnonzero(np.isnan(found.launch))
    for place in gaps:
        loose = _loose(launches, alike[place], line)
        found.total[place], found.within[place] = loose.total[0], loose.within[0]
        found.launch[place], found.dof[place] = loose.launch[0], loose.dof[0]
    return spread(found)


def _loose(launches: Launches, table: _Setting, line: int) -> Residuals:
    values = np.where(table.launches >= 0, launches.values[table.launches, line], np.nan)
    return loose_residuals(values, table.launch_arm, table.launch_round)


@dataclass(frozen=True)
class _Differences:
    """Arrays (arms without the baseline, loads, lines): ``log`` ratios and ``weight``; ``count``:
    launches of the arm with fewer."""

    log: Floats
    weight: Floats
    count: Places


def _differences(launches: Launches, table: _Setting) -> _Differences:
    """Return differences of means over the rounds that an arm and the baseline share at a load.
    Repeated launches of a round are averaged first and count by their number."""
    rows, known = table.launches, table.launches >= 0
    values = np.where(known[..., None], launches.values[rows], np.nan)
    baseline = table.arms.index(BASELINE)
    rounds = table.rows.shape[2]
    shape = (len(table.arms), rounds, *values.shape[1:])
    sums, counts = np.zeros(shape), np.zeros(shape)
    place = (table.launch_arm, table.launch_round)
    np.add.at(sums, place, np.nan_to_num(values))
    np.add.at(counts, place, np.isfinite(values))
    met = (counts > 0) & (counts[baseline] > 0)[None]
    own = np.where(met, counts, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        against = sums / counts - (sums / counts)[baseline][None]
        log = np.nansum(np.where(met, own * against, 0), axis=1) / own.sum(axis=1)
        # The baseline's launches count by how often they were met.
        shares = own / own.sum(axis=1, keepdims=True)
        met_once = np.where(met, shares**2 / np.maximum(counts[baseline][None], 1), 0)
        weight = 1 / own.sum(axis=1) + met_once.sum(axis=1)
    theirs = np.where(met, counts[baseline][None], 0).sum(axis=1)
    count = np.minimum(own.sum(axis=1), theirs).astype(np.int64)
    others = [at for at in range(len(table.arms)) if at != baseline]
    return _Differences(log[others], weight[others], count[others])


def _levels(
    launches: Launches, table: _Setting, spreads: list[Spread], found: _Differences
) -> pd.DataFrame:
    loads = len(table.loads)
    columns = {"variance": "level", "share": "share", "dof": "dof", "rest_dof": "rest_dof"}
    known = {
        column: np.stack([np.broadcast_to(getattr(s, name), loads) for s in spreads], axis=-1)
        for column, name in columns.items()
    }
    return _rows(launches, table, found, np.array(table.loads), known)


def _means(
    launches: Launches, table: _Setting, spreads: list[Spread], found: _Differences
) -> pd.DataFrame:
    """Return the rows of differences over the loads that an arm and the baseline share; the weight
    is that of the worst load."""
    there = np.isfinite(found.log)
    total = np.where(there, found.log, 0).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        log = total / there.sum(axis=1, keepdims=True)
    weight = np.where(there, found.weight, 0).max(axis=1, keepdims=True)
    count = np.where(there, found.count, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    variance, dof = (np.array([getattr(s, name) for s in spreads]) for name in ("mean", "dof"))
    known = {"variance": variance, "share": np.ones(1), "dof": dof, "rest_dof": dof}
    return _rows(launches, table, _Differences(log, weight, count), np.array([-1]), known)


def _rows(
    launches: Launches, table: _Setting, found: _Differences, loads: Places, known: dict[str, Floats]
) -> pd.DataFrame:  # fmt: skip
    """Return a row for each difference that there is, of lines of which one direction is better.
    ``known``: what the differences share, by column, in a shape that fits theirs."""
    metrics, statistics = (
        np.array(names, dtype=object) for names in zip(*launches.lines.names, strict=True)
    )
    signs, arms = launches.lines.signs, [arm for arm in table.arms if arm != BASELINE]
    arm, load, line = (x.ravel() for x in np.indices(found.log.shape))
    every = pd.DataFrame(
        {
            "setting": table.setting, "arm_id": np.array(arms)[arm], "load": loads[load], "line": line,
            "launches": found.count.ravel(), "independent": table.known, "log": found.log.ravel(),
            "weight": found.weight.ravel(),
            **{name: np.broadcast_to(x, found.log.shape).ravel() for name, x in known.items()},
            "metric": metrics[line], "statistic": statistics[line], "lower": signs[line] < 0,
        }
    )  # fmt: skip
    rows: pd.DataFrame = every[np.isfinite(every["log"]) & (signs[line] != 0)]
    return rows


def _empty() -> pd.DataFrame:
    numbers = ("setting", "arm_id", "load", "line", "launches")
    floats = ("log", "variance", "weight", "share", "dof", "rest_dof")
    flags = ("independent", "lower")
    columns = (
        dict.fromkeys(numbers, "int64")
        | dict.fromkeys(floats, "float64")
        | dict.fromkeys(flags, "bool")
    )
    return pd.DataFrame({n: pd.Series(dtype=t) for n, t in columns.items()}
                        | {n: pd.Series(dtype=object) for n in ("metric", "statistic")})  # fmt: skip


def judged(rows: pd.DataFrame, study: dict[int, int]) -> pd.DataFrame:
    """Return the rows with p-values, intervals and words."""
    log, lower = rows["log"].to_numpy(), rows["lower"].to_numpy()
    tails = Tails(*(rows[name].to_numpy(np.float64) for name in ("share", "dof", "rest_dof")))
    error = np.where(tails.known, np.sqrt(rows["variance"] * rows["weight"]), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = log / error
    probability, p_value = tails.above(-t), 2 * tails.above(np.abs(t))
    studies = np.asarray(rows["setting"].map(study), dtype=np.int64)
    wrong = error_rates(p_value, studies)
    half, adjusted = (tails.reach(rate) * error for rate in (1 - LEVEL, wrong))
    ends = {
        "improvement": log, "low": log - half, "high": log + half,
        "adjusted_low": log - adjusted, "adjusted_high": log + adjusted,
    }  # fmt: skip
    told = rows.drop(columns=["line", "lower"]).assign(
        p_value=p_value, probability=probability, error=wrong,
        **{name: as_improvement(value, lower) for name, value in ends.items()},
    )  # fmt: skip
    return told.assign(
        word=words(
            told["adjusted_low"].to_numpy(), told["adjusted_high"].to_numpy(), probability,
            rows["independent"].to_numpy(dtype=bool),
        )
    )  # fmt: skip


def as_improvement(log: Floats, lower: NDArray[np.bool_]) -> Floats:
    """Return a log ratio (positive is better) as an improvement: new / old - 1, or 1 - new / old
    where lower is better."""
    # One degree of freedom in a large study reaches beyond what a float holds: infinity says so.
    with np.errstate(over="ignore"):
        return np.where(lower, -np.expm1(-log), np.expm1(log))


# --- One launch of a cell against later launches of it: the same, or not?


def again(
    original: Floats, siblings: Floats, launches: Floats, lower: NDArray[np.bool_]
) -> pd.DataFrame:
    """Return a row per line: log, improvement, its intervals and word, as ``Effects.levels`` has
    them.

    ``original`` (lines,): the values of the launch that is repeated; ``siblings`` (any, lines):
    other launches of that time, which only tell the scatter; ``launches`` (one or more, lines): the
    later ones; ``lower`` (lines,): whether lower is better. All above zero.

    Both groups have one variance of logarithms, pooled (two-sample t-test): its degrees of freedom
    are siblings + launches - 1. The difference of one launch from the mean of n has 1 + 1 / n of
    it.
    """
    turned = np.where(lower, -1.0, 1.0)
    first = turned * np.log(np.vstack([original[None], siblings]))
    later = turned * np.log(launches)
    dof = len(first) + len(later) - 2
    squares = ((first - first.mean(axis=0)) ** 2).sum(axis=0)
    squares = squares + ((later - later.mean(axis=0)) ** 2).sum(axis=0)
    rows = pd.DataFrame(
        {
            "setting": 0, "line": np.arange(len(original)), "lower": lower, "independent": True,
            "log": later.mean(axis=0) - first[0], "variance": squares / dof if dof else np.nan,
            "weight": 1 + 1 / len(later), "share": 1.0, "dof": float(dof), "rest_dof": float(dof),
        }
    )  # fmt: skip
    return judged(rows, {0: 0})
