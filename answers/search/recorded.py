"""Recorded launches as a search takes them: every arm's server starts over the datasets and loads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.repeats import BASELINE as OF_BASELINE
from analysis.evidence.repeats import launches_of
from analysis.frames import plain
from analysis.matching.arms import choosers, families
from analysis.matching.fields import ARM
from analysis.search.space import Arm, Floats, Launch, Place, Space
from analysis.service.slo import Slo
from answers.decide.overview import configurations, subject_of
from answers.decide.values import DecisionSubject
from answers.ground import Ground
from answers.search.counted import broken, own_lengths, rates_by_position

#: Whether latency decides -> the metric and statistic that judge.
LINE = {False: ("output_throughput", "mean"), True: ("request_latency", "p50")}
#: What may differ between the datasets of one search.
_OF_DATASET = {"dataset", "max_tokens", "ignore_eos"}
#: Minutes of a server start where the records do not tell.
START_MIN = 3.0
#: A gap between launches that is longer was a pause, no server start.
_PAUSE_MIN = 60.0

ByArm = dict[int, tuple[Launch, ...]]


@dataclass(frozen=True)
class Recorded:
    """The recorded launches of one study and system. ``launches``: by arm, in the order in which
    they were recorded; ``own`` and ``by_position`` as ``lengths`` takes them. ``left_out``: arms
    whose K is not known or not fixed. ``broken`` (arms, places): where all that was recorded breaks
    the SLO, None without one."""

    system: DecisionSubject
    space: Space
    launches: ByArm
    own: Floats
    by_position: Floats
    left_out: tuple[str, ...]
    broken: NDArray[np.bool_] | None = None

    @property
    def repeats(self) -> int:
        """The most launches that any arm has."""
        return max(map(len, self.launches.values()), default=0)


@dataclass(frozen=True)
class Read:
    """What is read beside the pairs. ``positions``: as the query ``acceptance_by_position``; ``line``:
    metric and statistic of the objective; ``slo`` with the values of its ``bounds`` (``bounded``)."""

    positions: pd.DataFrame
    line: tuple[str, str]
    slo: Slo | None = None
    bounds: pd.DataFrame | None = None


def recorded(known: Ground, read: Read) -> tuple[Recorded, ...]:
    """Return the recorded launches of each study and system that has a baseline and closed loads.

    A load that is a rate is left out: two arms that keep up with it are equally fast.
    """
    pairs = known.found.pairs
    mine = pairs[(pairs["metric"] == read.line[0]) & (pairs["statistic"] == read.line[1])]
    mine = mine[mine["speculative_id"].isin(known.shown)]
    keys = known.found.keys
    words = configurations(keys)
    made = [_recorded(known, read, mine[mine["setting"].isin(group)], words)
            for group in _groups(keys)]  # fmt: skip
    return tuple(one for one in made if one is not None)


def _groups(keys: pd.DataFrame) -> Iterator[list[int]]:
    """Yield groups of settings that differ in the dataset alone."""
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    alike = [name for name in first if name not in _OF_DATASET | set(ARM)]
    for _, group in first.groupby(alike, dropna=False):
        yield [int(setting) for setting in group.index]


def _recorded(
    known: Ground, read: Read, pairs: pd.DataFrame, words: Mapping[int, str]
) -> Recorded | None:
    """``words``: setting -> what tells it apart from another of the same name."""
    loads = known.found.loads
    closed = [at for at, load in enumerate(loads) if load.kind == "concurrency" and load.value]
    pairs = pairs[pairs["load"].isin(closed)]
    if pairs.empty:
        return None
    arms, left_out = _arms(known, pairs)
    found = launches_of(pairs, known.cells)
    units = found.units.assign(value=found.values[:, 0])
    datasets = _datasets(known)
    units = units.assign(
        traffic=units["setting"].map(datasets),
        at=[float(loads[x].value or 0) for x in units["load"]],
    )
    units["number"] = [
        0 if arm == OF_BASELINE else arms.of.get((setting, arm), -1)
        for setting, arm in zip(units["setting"], units["arm"], strict=True)
    ]
    units = units[(units["number"] >= 0) & np.isfinite(units["value"])]
    places = _places(units)
    if not places:
        return None
    space = Space(arms.arms, places, START_MIN, np.zeros(len(places)))
    cells = _cells(known, pairs, arms, space)
    return Recorded(
        _system(known, int(pairs["setting"].iloc[0]), words), timed(space, cells), _by_arm(units, space),
        own_lengths(known.acceptance, cells, space),
        rates_by_position(read.positions, cells, space), left_out,
        None if read.slo is None or read.bounds is None
        else broken(read.bounds, read.slo, cells, space),
    )  # fmt: skip


def _system(known: Ground, setting: int, words: Mapping[int, str]) -> DecisionSubject:
    """Return what a decision on the same launches is about."""
    row = known.found.keys.xs(setting, level=0).iloc[0]
    facts = {str(name): plain(value) for name, value in row.items()}
    return subject_of(facts, words.get(setting))


@dataclass(frozen=True)
class _Arms:
    """The arms of a search. ``of``: (setting, arm_id) -> the arm's number."""

    arms: tuple[Arm, ...]
    of: dict[tuple[int, int], int]


def _arms(known: Ground, pairs: pd.DataFrame) -> tuple[_Arms, tuple[str, ...]]:
    once = pairs.drop_duplicates(["setting", "arm_id"])
    rows = known.by_id.loc[once["speculative_id"].astype(object)]
    told = (families(rows), rows["num_speculative_tokens"], rows["arm_label"], choosers(rows))
    found: dict[Arm, list[tuple[int, int]]] = {}
    left_out = []
    for setting, arm, name, k, label, chosen in zip(
        once["setting"], once["arm_id"], *told, strict=True
    ):
        if pd.isna(k) or name is None or chosen is not None:
            left_out.append(str(label))
            continue
        found.setdefault(Arm(str(label), str(name), int(k)), []).append((int(setting), int(arm)))
    ordered = sorted(found, key=lambda arm: (arm.family, arm.k, arm.label))
    of = {pair: at + 1 for at, arm in enumerate(ordered) for pair in found[arm]}
    arms = (Arm("baseline", "", 0), *ordered)
    return _Arms(arms, of), tuple(dict.fromkeys(left_out))


def _datasets(known: Ground) -> dict[int, str]:
    keys = known.found.keys
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    return dict(zip(first.index.tolist(), map(str, first["dataset"]), strict=True))


def _places(units: pd.DataFrame) -> tuple[Place, ...]:
    """Return the datasets and loads of the baseline's first launch: all values are relative to
    these."""
    baseline = units[units["number"] == 0]
    if baseline.empty:
        return ()
    first = baseline[baseline["launch"] == baseline["launch"].min()]
    told = {(str(t), float(x)) for t, x in zip(first["traffic"], first["at"], strict=True)}
    return tuple(Place(traffic, load) for traffic, load in sorted(told))


def _by_arm(units: pd.DataFrame, space: Space) -> ByArm:
    at = {(place.traffic, place.load): number for number, place in enumerate(space.places)}
    found: ByArm = {}
    for (number, _), rows in units.groupby(["number", "launch"], sort=True):
        speed = np.full(len(space.places), np.nan)
        for traffic, load, value in zip(rows["traffic"], rows["at"], rows["value"], strict=True):
            if (traffic, load) in at:
                speed[at[traffic, load]] = value
        if np.isfinite(speed).any():
            arm = int(str(number))
            found[arm] = (*found.get(arm, ()), Launch(arm, speed))
    return found


def _cells(known: Ground, pairs: pd.DataFrame, arms: _Arms, space: Space) -> pd.DataFrame:
    """Return a row per cell: cell_id, number of the arm, place, launch, started (s), duration
    (s)."""
    own = pairs[["setting", "arm_id", "load", "speculative_id"]].drop_duplicates("speculative_id")
    own = own.rename(columns={"speculative_id": "cell_id"})
    base = pairs[["setting", "load", "baseline_id"]].drop_duplicates("baseline_id")
    base = base.rename(columns={"baseline_id": "cell_id"})
    rows = pd.concat([base.assign(arm_id=-1), own], ignore_index=True)
    at = {(place.traffic, place.load): number for number, place in enumerate(space.places)}
    datasets, loads = _datasets(known), known.found.loads
    rows["number"] = [0 if arm == -1 else arms.of.get((setting, arm), -1)
                      for setting, arm in zip(rows["setting"], rows["arm_id"], strict=True)]  # fmt: skip
    rows["place"] = [at.get((datasets[s], float(loads[x].value or 0)), -1)
                     for s, x in zip(rows["setting"], rows["load"], strict=True)]  # fmt: skip
    rows = rows[(rows["number"] >= 0) & (rows["place"] >= 0)]
    told = known.by_id.reindex(rows["cell_id"].astype(object))
    started = pd.to_datetime(told["started_at"], utc=True)
    return rows.assign(
        launch=told["launch"].astype(str).to_numpy(),
        started=(started - started.min()).dt.total_seconds().to_numpy(),
        duration=told["duration"].to_numpy(dtype=np.float64),
    )[["cell_id", "number", "place", "launch", "started", "duration"]]


def timed(space: Space, cells: pd.DataFrame) -> Space:
    """Return the space with the minutes that its cells and server starts took.

    ``cells``: place, launch, started (s), duration (s) of every cell; what they do not tell stays as
    it is.
    """
    took = cells.groupby("place")["duration"].mean().reindex(range(len(space.places)))
    ordered = cells.sort_values("started")
    following = ordered.groupby("launch")["started"].shift(-1)
    gap = (following - ordered["started"] - ordered["duration"]) / 60
    # What lies a night apart is no part of the time that a launch takes.
    within = float(gap[(gap > 0) & (gap < _PAUSE_MIN)].median())
    between = _starts(spans_of(cells)) / 60
    between = between[(between > 0) & (between < _PAUSE_MIN)]
    start = space.start_min if between.empty else float(between.median())
    each = took.fillna(took.mean()).to_numpy() / 60 + (0.0 if np.isnan(within) else within)
    known = np.isfinite(each)
    return Space(space.arms, space.places, start, np.where(known, each, space.cell_min))


def spans_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per launch, in the order of their starts: started and ended (s) of its cells."""
    told = cells.assign(ended=cells["started"] + cells["duration"]).groupby("launch")
    return told.agg(started=("started", "min"), ended=("ended", "max")).sort_values("started")


def _starts(spans: pd.DataFrame) -> pd.Series:
    """Return the seconds before each launch since the last one that was over when it began; one that
    runs beside it tells nothing of its start."""
    ended = np.sort(spans["ended"].to_numpy(dtype=np.float64))
    over = np.searchsorted(ended, spans["started"].to_numpy(dtype=np.float64), side="right")
    before = np.where(over > 0, ended[np.maximum(over - 1, 0)], np.nan) if len(ended) else ended
    return spans["started"] - before
