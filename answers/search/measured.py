"""What a search knows of launches that were measured: those of the study under way, or recorded ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.acceptance_tables import believed
from analysis.evidence import repeats
from analysis.frames import records
from analysis.matching.arms import SYSTEM, choosers, families
from analysis.search.belief import Mix, acceptance_lengths, mixed
from analysis.search.space import (
    Floats,
    MeasuredLaunch,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
)
from analysis.service.slo import Slo, parse
from answers.decide.answer import mix_weights
from answers.decide.overview import configurations, subject_of
from answers.decide.values import DecisionSubject
from answers.ground import Ground, excluded_cells
from answers.search.values import SearchPlan, SearchTerms
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

#: Whether latency decides -> the metric and statistic that judge.
LINE = {False: ("output_throughput", "mean"), True: ("request_latency", "p50")}
#: Flags of a machine on which nothing is to be measured until it is itself again.
_TROUBLES = ("throttled", "gpu_neighbour")
#: Minutes of a server start where the records do not tell.
START_MIN = 3.0
#: A gap between launches that is longer was a pause, no server start.
_PAUSE_MIN = 60.0


# --- Where decisions are due.


def bare(planned: SearchPlan) -> Space:
    """Return what may be measured, with the minutes that are expected."""
    start = min(START_MIN, planned.launch_min / 2)
    each = (planned.launch_min - start) / len(planned.places)
    return Space(planned.arms, planned.places, start, np.full(len(planned.places), each))


def mix_of(terms: SearchTerms, space: Space) -> Mix | None:
    """Return the mix, None where each dataset is decided on its own. Raises InvalidInput for one that
    does not fit the datasets."""
    if not terms.mix:
        return None
    datasets = list(dict.fromkeys(place.traffic for place in space.places))
    mix = Mix(mix_weights(datasets, terms.mix), terms.latency)
    loads = {name: {one.load for one in space.places if one.traffic == name} for name in mix.share}
    if not set.intersection(*loads.values()):
        by_dataset = "; ".join(
            f"{name} at {', '.join(f'{load:g}' for load in sorted(own))}"
            for name, own in loads.items()
        )
        raise InvalidInput(
            f"--mix: its datasets share no load ({by_dataset}); measure them at the same loads, or leave --mix "
            "out and search each on its own."
        )
    return mix


def of_traffic(space: Space, seen: SeenLaunches, terms: SearchTerms) -> tuple[Space, SeenLaunches]:
    """Return the places at which decisions are due, and what is known there."""
    mix = mix_of(terms, space)
    return (space, seen) if mix is None else mixed(space, seen, mix)


# --- What cells say, by arm and place. A frame of cells has cell_id, number of the arm and place.


def _means(
    rows: pd.DataFrame, column: str, cells: pd.DataFrame, shape: Sequence[int], *also: str
) -> Floats:
    """Return the means of a column over the cells of each arm and place (and what ``also`` numbers),
    NaN where no cell has a value."""
    by = ["number", "place", *also]
    placed = cells.astype({"cell_id": object}).merge(rows.astype({"cell_id": object}), on="cell_id")
    means = placed.groupby(by)[column].mean().reset_index()
    means_of = np.full(shape, np.nan)
    means_of[tuple(means[name] for name in by)] = means[column]
    return means_of


def broken(values: pd.DataFrame, slo: Slo, cells: pd.DataFrame, space: Space) -> NDArray[np.bool_]:
    """Return (arms, places): whether the cells there break a bound, or lack its value. False where
    there is no cell. ``values``: cell_id, metric, statistic, value."""
    shape = (len(space.arms), len(space.places))
    there, held = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    there[cells["number"], cells["place"]] = True
    for bound in slo.bounds:
        mine = (values["metric"] == bound.metric) & (values["statistic"] == bound.statistic)
        held &= bound.holds_each(_means(values[mine], "value", cells, shape))
    return there & ~held


def _bounded_values(
    reader: Reader, filters: Filters, terms: SearchTerms
) -> tuple[pd.DataFrame, Slo] | None:
    if terms.slo is None:
        return None
    slo = parse(terms.slo)
    rows = queries.measurements(reader, filters, list(slo.metrics), list(slo.statistics))
    return rows.to_pandas(), slo


def _counted_lengths(acceptance: pd.DataFrame, cells: pd.DataFrame, space: Space) -> Floats:
    counted = believed(acceptance.dropna(subset=["mean_length"]))[["cell_id", "mean_length"]]
    return _means(counted, "mean_length", cells, (len(space.arms), len(space.places)))


def _rates_by_position(positions: pd.DataFrame, cells: pd.DataFrame, space: Space) -> Floats:
    most = max(arm.k for arm in space.arms)
    once = positions.drop_duplicates(["cell_id", "position"])
    shape = (len(space.arms), len(space.places), most)
    return _means(once[once["position"] < most], "rate", cells, shape, "position")


def _timed(space: Space, cells: pd.DataFrame) -> Space:
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
    spans = _spans(cells)
    # A start took the time since the last launch that was over when it began; one that runs beside it
    # tells nothing of it.
    ended = np.sort(spans["ended"].to_numpy(dtype=np.float64))
    over = np.searchsorted(ended, spans["started"].to_numpy(dtype=np.float64), side="right")
    before = np.where(over > 0, ended[np.maximum(over - 1, 0)], np.nan) if len(ended) else ended
    between = (spans["started"] - before) / 60
    between = between[(between > 0) & (between < _PAUSE_MIN)]
    start = space.start_min if between.empty else float(between.median())
    each = took.fillna(took.mean()).to_numpy() / 60 + (0.0 if np.isnan(within) else within)
    cell_min = np.where(np.isfinite(each), each, space.cell_min)
    return replace(space, start_min=start, cell_min=cell_min)


def _spans(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per launch, in the order of their starts: started and ended (s) of its cells."""
    launches = cells.assign(ended=cells["started"] + cells["duration"]).groupby("launch")
    return launches.agg(started=("started", "min"), ended=("ended", "max")).sort_values("started")


# --- What the drops of one study tell a search that is under way.


@dataclass(frozen=True)
class MeasuredStudy:
    """``space`` with the minutes that were measured; ``seen``: the launches in the order in which they
    were measured. ``ids``: in the study's plan, of all launches with a good cell, also of those whose
    cells decide nothing; for a mix with all its datasets at a load. ``troubles``: what the machine did
    during the last launch and those beside it, in words. ``abreast``: share (0-1) of the launches'
    minutes that passed on the clock, 1 where none ran beside another."""

    space: Space
    seen: SeenLaunches
    ids: frozenset[str]
    troubles: tuple[str, ...] = ()
    abreast: float = 1.0


def measured(reader: Reader, study: str, space: Space, terms: SearchTerms) -> MeasuredStudy:
    """Return what the good cells of a study say. The arms of the space are labelled by the study's
    own names."""
    filters = Filters(study=(study,))
    metric, statistic = LINE[terms.latency]
    values = queries.measurements(reader, filters, [metric], [statistic]).to_pandas()
    values = values[["cell_id", "value"]].astype({"cell_id": object})
    every = queries.cells(reader, filters).to_pandas().astype({"cell_id": object})
    every = every[every["status"] == "good"]
    placed = _placed(reader, every, space)
    cells = placed.merge(values[values["value"] > 0], on="cell_id")
    launches = []
    for name in cells.groupby("launch")["started"].min().sort_values().index:
        rows, speed = cells[cells["launch"] == name], np.full(len(space.places), np.nan)
        value = np.log(rows["value"].to_numpy(dtype=np.float64))
        speed[rows["place"].to_numpy()] = -value if terms.latency else value
        launches.append(MeasuredLaunch(int(rows["number"].iloc[0]), speed))
    lengths = acceptance_lengths(
        space, _counted_lengths(queries.acceptance(reader, filters).to_pandas(), cells, space),
        _rates_by_position(queries.acceptance_by_position(reader, filters).to_pandas(), cells, space),
        {launch.arm for launch in launches},
    )  # fmt: skip
    bounds = _bounded_values(reader, filters, terms)
    barred = None if bounds is None else broken(*bounds, placed, space)
    seen = SeenLaunches(tuple(launches), lengths, barred=barred)
    spans = _spans(cells)
    last = spans.index[spans["ended"] >= spans["started"].max()]
    flags = queries.flags(
        reader, list(cells.loc[cells["launch"].isin(last), "cell_id"])
    ).to_pandas()
    troubles = tuple(dict.fromkeys(flags.loc[flags["name"].isin(_TROUBLES), "sentence"]))
    until = spans["ended"].cummax().shift(fill_value=-np.inf)
    alone = (spans["ended"] - np.maximum(spans["started"], until)).clip(lower=0)
    whole = float((spans["ended"] - spans["started"]).sum())
    abreast = float(alone.sum()) / whole if whole else 1.0
    ids = frozenset(map(str, every["launch"]))
    if terms.mix:
        # A launch that was cut short before it had all datasets at a load says nothing of the mix.
        names = {name for name, _ in terms.mix}
        mine = every[every["dataset"].isin(names)].groupby(["launch", "concurrency"])
        many = mine["dataset"].nunique()
        ids = frozenset(str(launch) for launch, _ in many.index[many == len(names)])
    return MeasuredStudy(_timed(space, cells), seen, ids, troubles, abreast)


def _placed(reader: Reader, cells: pd.DataFrame, space: Space) -> pd.DataFrame:
    """Those good cells that decide something: cell_id, number of the arm, place, launch, started (s),
    duration (s)."""
    flags = queries.flags(reader, list(cells.loc[cells["flags"] > 0, "cell_id"])).to_pandas()
    cells = cells[~cells["cell_id"].isin(excluded_cells(cells, flags))]
    arms = {arm.label: at for at, arm in enumerate(space.arms)}
    started = pd.to_datetime(cells["started_at"], utc=True)
    rows = cells[["cell_id", "launch", "duration"]].assign(
        number=[arms.get(str(name), -1) for name in cells["arm"]],
        place=[space.at.get((str(name), float(load)), -1)
               for name, load in zip(cells["dataset"], cells["concurrency"], strict=True)],
        started=(started - started.min()).dt.total_seconds(),
    )  # fmt: skip
    kept: pd.DataFrame = rows[(rows["number"] >= 0) & (rows["place"] >= 0)]
    return kept


# --- Recorded launches as a search takes them: every arm's server starts over the datasets and loads.


@dataclass(frozen=True)
class RecordedStudy:
    """The recorded launches of one study and system. ``launches``: by arm, in the order in which
    they were recorded; ``own`` and ``by_position`` as ``acceptance_lengths`` takes them. ``left_out``:
    arms whose K is not known or not fixed. ``broken`` (arms, places): where all that was recorded breaks
    the SLO, None without one."""

    system: DecisionSubject
    space: Space
    launches: Mapping[int, tuple[MeasuredLaunch, ...]]
    own: Floats
    by_position: Floats
    left_out: tuple[str, ...]
    broken: NDArray[np.bool_] | None = None

    @property
    def repeats(self) -> int:
        """The most launches that any arm has."""
        return max(map(len, self.launches.values()), default=0)


def recorded(
    reader: Reader, ground: Ground, filters: Filters, terms: SearchTerms
) -> Iterator[RecordedStudy]:
    """Yield the recorded launches of each study and system that has a baseline and closed loads.

    A load that is a rate is left out: two arms that keep up with it are equally fast.
    """
    metric, statistic = LINE[terms.latency]
    positions = queries.acceptance_by_position(reader, filters).to_pandas()
    bounds = _bounded_values(reader, filters, terms)
    pairs, keys = ground.found.pairs, ground.found.keys
    closed = [at for at, load in enumerate(ground.found.loads)
              if load.kind == "concurrency" and load.value]  # fmt: skip
    mine = pairs[(pairs["metric"] == metric) & (pairs["statistic"] == statistic)]
    mine = mine[mine["speculative_id"].isin(ground.shown) & mine["load"].isin(closed)]
    words = configurations(keys)
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    datasets = dict(zip(first.index.tolist(), map(str, first["dataset"]), strict=True))
    # Settings that differ in the dataset alone are one search.
    alike = [name for name in SYSTEM if name in first]
    for _, group in first.groupby(alike, dropna=False):
        own = mine[mine["setting"].isin(group.index)]
        if own.empty:
            continue
        arms, numbers, left_out = _arms(ground, own)
        units = _units(ground, own, datasets, numbers)
        # All values are relative to those of the baseline's first launch.
        of_baseline = units[units["number"] == 0]
        there = of_baseline[of_baseline["launch"] == of_baseline["launch"].min()]
        places = sorted({*zip(there["traffic"], there["at"], strict=True)})
        if not places:
            continue
        space = Space(
            arms, tuple(SearchPlace(*place) for place in places), START_MIN, np.zeros(len(places))
        )
        cells = _recorded_cells(ground, own, datasets, numbers, space)
        setting = int(own["setting"].iloc[0])
        yield RecordedStudy(
            subject_of(records(first.loc[[setting]])[0], words.get(setting)), _timed(space, cells), _by_arm(units, space),
            _counted_lengths(ground.acceptance, cells, space), _rates_by_position(positions, cells, space), left_out,
            None if bounds is None else broken(*bounds, cells, space),
        )  # fmt: skip


def _arms(
    ground: Ground, pairs: pd.DataFrame
) -> tuple[tuple[SearchArm, ...], dict[tuple[int, int], int], tuple[str, ...]]:
    """Return the arms of a search, (setting, arm_id) -> an arm's number, and the arms that are left
    out."""
    once = pairs.drop_duplicates(["setting", "arm_id"])
    rows = ground.by_id.loc[once["speculative_id"].astype(object)]
    stated = (families(rows), rows["num_speculative_tokens"], rows["arm_label"], choosers(rows))
    pairs_of: dict[SearchArm, list[tuple[int, int]]] = {}
    left_out = []
    for setting, arm, name, k, label, chosen in zip(
        once["setting"], once["arm_id"], *stated, strict=True
    ):
        if pd.isna(k) or name is None or chosen is not None:
            left_out.append(str(label))
        else:
            own = SearchArm(str(label), str(name), int(k))
            pairs_of.setdefault(own, []).append((int(setting), int(arm)))
    ordered = sorted(pairs_of, key=lambda arm: (arm.family, arm.k, arm.label))
    numbers = {pair: at for at, arm in enumerate(ordered, 1) for pair in pairs_of[arm]}
    arms = (SearchArm("baseline", "", 0), *ordered)
    return arms, numbers, tuple(dict.fromkeys(left_out))


def _units(
    ground: Ground,
    pairs: pd.DataFrame,
    datasets: Mapping[int, str],
    numbers: Mapping[tuple[int, int], int],
) -> pd.DataFrame:
    """Return a row per launch and cell: number of the arm, launch, traffic, at (the load), value (log)."""
    launches = repeats.launches_of(pairs, ground.cells)
    units = launches.units.assign(
        value=launches.values[:, 0],
        traffic=launches.units["setting"].map(datasets),
        at=[float(ground.found.loads[x].value or 0) for x in launches.units["load"]],
        number=[
            0 if arm == repeats.BASELINE else numbers.get((setting, arm), -1)
            for setting, arm in zip(launches.units["setting"], launches.units["arm"], strict=True)
        ],
    )
    kept: pd.DataFrame = units[(units["number"] >= 0) & np.isfinite(units["value"])]
    return kept


def _by_arm(units: pd.DataFrame, space: Space) -> dict[int, tuple[MeasuredLaunch, ...]]:
    launches: dict[int, tuple[MeasuredLaunch, ...]] = {}
    for (number, _), rows in units.groupby(["number", "launch"], sort=True):
        speed = np.full(len(space.places), np.nan)
        for traffic, load, value in zip(rows["traffic"], rows["at"], rows["value"], strict=True):
            if (traffic, load) in space.at:
                speed[space.at[traffic, load]] = value
        if np.isfinite(speed).any():
            arm = int(str(number))
            launches[arm] = (*launches.get(arm, ()), MeasuredLaunch(arm, speed))
    return launches


def _recorded_cells(
    ground: Ground,
    pairs: pd.DataFrame,
    datasets: Mapping[int, str],
    numbers: Mapping[tuple[int, int], int],
    space: Space,
) -> pd.DataFrame:
    """Return a row per cell: cell_id, number of the arm, place, launch, started (s), duration
    (s)."""
    own = pairs[["setting", "arm_id", "load", "speculative_id"]].drop_duplicates("speculative_id")
    own = own.rename(columns={"speculative_id": "cell_id"})
    base = pairs[["setting", "load", "baseline_id"]].drop_duplicates("baseline_id")
    base = base.rename(columns={"baseline_id": "cell_id"})
    rows = pd.concat([base.assign(arm_id=-1), own], ignore_index=True)
    loads = ground.found.loads
    rows["number"] = [0 if arm == -1 else numbers.get((setting, arm), -1)
                      for setting, arm in zip(rows["setting"], rows["arm_id"], strict=True)]  # fmt: skip
    rows["place"] = [space.at.get((datasets[s], float(loads[x].value or 0)), -1)
                     for s, x in zip(rows["setting"], rows["load"], strict=True)]  # fmt: skip
    rows = rows[(rows["number"] >= 0) & (rows["place"] >= 0)]
    facts = ground.by_id.reindex(rows["cell_id"].astype(object))
    started = pd.to_datetime(facts["started_at"], utc=True)
    return rows.assign(
        launch=facts["launch"].astype(str).to_numpy(),
        started=(started - started.min()).dt.total_seconds().to_numpy(),
        duration=facts["duration"].to_numpy(dtype=np.float64),
    )[["cell_id", "number", "place", "launch", "started", "duration"]]
