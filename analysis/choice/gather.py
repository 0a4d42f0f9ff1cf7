"""From a comparison to settings judged by the metric that decides at each load."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.choice.expected import Candidate, Field, Floats, candidates
from analysis.choice.judged import Judged, Line, with_gains
from analysis.drafts.acceptance_tables import believed
from analysis.evidence.effects import Effects
from analysis.evidence.launches import Tails
from analysis.matching.arms import THROUGHPUTS, kept_up
from analysis.matching.comparison import Comparison
from analysis.service.slo import Slo
from warehouse.catalogue import METRICS
from warehouse.loads import Load

_SPEED: tuple[Line, ...] = tuple((name, "mean") for name in THROUGHPUTS)
_WAIT: tuple[Line, ...] = tuple(
    (metric, statistic)
    for metric in ("request_latency", "itl", "tpot", "ttft", "chunk_gap")
    for statistic in ("p50", "mean", "p95", "p99")
)
#: The lines that may decide, and what else is read for a decision.
DECIDING: tuple[Line, ...] = (*_SPEED, *_WAIT)


@dataclass(frozen=True)
class Terms:
    """What a decision is after: ``latency`` first or throughput first; ``slo``: what an arm must
    meet to be taken; ``arms``: labels that may be taken, empty: all."""

    latency: bool = False
    slo: Slo | None = None
    arms: frozenset[str] = frozenset()


def only(settings: Collection[int], found: Comparison, sure: Effects) -> tuple[Comparison, Effects]:
    """Return the pairs and differences of these settings alone; their numbers stay as they are."""
    pairs, levels, means = (
        rows[rows["setting"].isin(settings)] for rows in (found.pairs, sure.levels, sure.means)
    )
    return replace(found, pairs=pairs), Effects(levels, means)


def judged_settings(
    found: Comparison, sure: Effects, cells: pd.DataFrame, acceptance: pd.DataFrame, terms: Terms
) -> dict[int, Judged]:
    """Return setting -> its arms judged; settings without a deciding metric are left out.

    ``cells`` and ``acceptance`` as the queries of these names.
    """
    known = _Known(
        candidates(found, cells, terms.arms), _by_setting(sure.levels), _by_setting(sure.means),
        _values(found), _lengths(found, acceptance), found.loads, kept_up(found),
    )  # fmt: skip
    judged = {setting: _judged(setting, known, terms) for setting in known.levels}
    return {setting: with_gains(one) for setting, one in judged.items() if one is not None}


@dataclass(frozen=True)
class _Known:
    """What was read of all settings. By setting: candidates, rows of levels and of means; by
    (setting, arm, load): values of both arms by line, and mean acceptance lengths. ``kept_up``:
    (setting, load) of the rates that every arm keeps up with."""

    candidates: dict[int, list[Candidate]]
    levels: dict[int, pd.DataFrame]
    means: dict[int, pd.DataFrame]
    values: dict[tuple[int, int, int], dict[Line, tuple[float, float]]]
    lengths: dict[tuple[int, int, int], float]
    loads: tuple[Load, ...]
    kept_up: frozenset[tuple[int, int]]


def _by_setting(rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
    return {int(str(setting)): part for setting, part in rows.groupby("setting", sort=True)}


def _values(found: Comparison) -> dict[tuple[int, int, int], dict[Line, tuple[float, float]]]:
    names = ["setting", "arm_id", "load", "metric", "statistic", "baseline", "speculative"]
    told: dict[tuple[int, int, int], dict[Line, tuple[float, float]]] = {}
    for setting, arm, load, metric, statistic, old, new in zip(
        *(found.levels[name].tolist() for name in names), strict=True
    ):
        told.setdefault((setting, arm, load), {})[metric, statistic] = (old, new)
    return told


def _lengths(found: Comparison, acceptance: pd.DataFrame) -> dict[tuple[int, int, int], float]:
    """Return the mean acceptance length of each arm at each load, by the most trusted source of a
    cell."""
    best = believed(acceptance.dropna(subset=["mean_length"]))
    cells = found.pairs.drop_duplicates("speculative_id")[
        ["setting", "arm_id", "load", "speculative_id"]
    ]
    joined = cells.astype({"speculative_id": object}).merge(
        best[["cell_id", "mean_length"]], left_on="speculative_id", right_on="cell_id"
    )
    table = joined.groupby(["setting", "arm_id", "load"])["mean_length"].mean().reset_index()
    keys = zip(*(table[name].tolist() for name in ("setting", "arm_id", "load")), strict=True)
    return dict(zip(keys, table["mean_length"].tolist(), strict=True))


def _judged(setting: int, known: _Known, terms: Terms) -> Judged | None:
    rows = known.levels[setting]
    candidates = known.candidates.get(setting, [])
    lines = _lines(setting, rows, known, terms)
    places = sorted(lines, key=lambda place: known.loads[place].order)
    if not candidates or not places:
        return None
    grids = _Grids(setting, candidates, places, lines, known)
    columns = grids.of(
        rows, ("log", "launches", "variance", "share", "dof", "rest_dof", "weight", "error")
    )
    shared = _shared(known.means.get(setting), candidates, lines[places[0]])
    field = Field(
        tuple(candidates), columns["log"], columns["launches"], columns["variance"],
        Tails(*(np.nan_to_num(columns[name]) for name in ("share", "dof", "rest_dof"))), shared,
        grids.lengths(),
    )  # fmt: skip
    lower = [METRICS[lines[place][0]].better == "lower" for place in places]
    return Judged(
        tuple(known.loads[place] for place in places), tuple(lines[place] for place in places),
        np.array(lower), field, np.sqrt(columns["variance"] * columns["weight"]),
        np.nan_to_num(columns["error"], nan=0.05), bool(rows["independent"].all()), grids.prices(),
        grids.allowed(terms.slo), grids.baseline(terms.slo), columns["log"],
    )  # fmt: skip


def _lines(setting: int, rows: pd.DataFrame, known: _Known, terms: Terms) -> dict[int, Line]:
    """Return load -> the metric and statistic that decide there: throughput, or at a rate that is
    kept up with, latency."""
    there: dict[int, set[Line]] = {}
    for load, metric, statistic in zip(
        rows["load"], rows["metric"], rows["statistic"], strict=True
    ):
        if load >= 0:
            there.setdefault(int(load), set()).add((metric, statistic))
    found = {}
    for load, lines in there.items():
        waits = terms.latency or (setting, load) in known.kept_up
        order = (*_WAIT, *_SPEED) if waits else DECIDING
        chosen = next((line for line in order if line in lines), None)
        if chosen is not None:
            found[load] = chosen
    return found


def _shared(means: pd.DataFrame | None, candidates: list[Candidate], line: Line) -> Floats:
    """Return for each candidate the variance of a launch's mean over the loads."""
    if means is None:
        return np.full(len(candidates), np.nan)
    mine = means[(means["metric"] == line[0]) & (means["statistic"] == line[1])]
    by_arm = dict(zip(mine["arm_id"].tolist(), mine["variance"].tolist(), strict=True))
    return np.array([by_arm.get(one.arm_id, np.nan) for one in candidates], dtype=np.float64)


@dataclass(frozen=True)
class _Grids:
    """The arms and loads of one setting, from which arrays (candidates, loads) are made."""

    setting: int
    candidates: list[Candidate]
    places: list[int]
    lines: dict[int, Line]
    known: _Known

    def of(self, rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Floats]:
        arm = {one.arm_id: at for at, one in enumerate(self.candidates)}
        column = {place: at for at, place in enumerate(self.places)}
        made = {name: np.full((len(arm), len(column)), np.nan) for name in names}
        keys = ("arm_id", "load", "metric", "statistic", *names)
        for a, x, metric, statistic, *values in zip(
            *(rows[name].tolist() for name in keys), strict=True
        ):
            if a in arm and self.lines.get(x) == (metric, statistic):
                for name, value in zip(names, values, strict=True):
                    made[name][arm[a], column[x]] = value
        made["launches"] = np.nan_to_num(made["launches"])
        return made

    def lengths(self) -> Floats:
        told = self.known.lengths
        return np.array(
            [[told.get((self.setting, one.arm_id, x), np.nan) for x in self.places]
             for one in self.candidates]
        )  # fmt: skip

    def prices(self) -> Floats:
        """Return the baseline's time for a token at each load, s; 1 where latency decides."""
        return np.array([next(self._prices(x), np.nan) for x in self.places])

    def _prices(self, load: int) -> Iterator[float]:
        for one in self.candidates:
            lines = self.known.values.get((self.setting, one.arm_id, load), {})
            line = self.lines[load]
            if line in lines and line not in _SPEED:
                yield 1.0
            elif line in lines and lines[line][0] > 0:
                yield 1 / lines[line][0]

    def allowed(self, slo: Slo | None) -> NDArray[np.bool_]:
        """Return whether each candidate meets every bound at each load; one with a missing value
        meets none."""
        shape = (len(self.candidates), len(self.places))
        if slo is None:
            return np.ones(shape, dtype=np.bool_)
        return np.array(
            [[self._meets(one, x, slo, 1) for x in self.places] for one in self.candidates]
        )

    def baseline(self, slo: Slo | None) -> NDArray[np.bool_]:
        """Return whether the baseline meets every bound at each load."""
        return np.array([
            slo is None or any(self._meets(one, x, slo, 0) for one in self.candidates)
            for x in self.places
        ])  # fmt: skip

    def _meets(self, one: Candidate, load: int, slo: Slo, side: int) -> bool:
        """Return whether the baseline (side 0) or an arm (1) meets every bound."""
        lines = self.known.values.get((self.setting, one.arm_id, load), {})
        return all(
            bound.holds(lines.get((bound.metric, bound.statistic), (np.nan, np.nan))[side])
            for bound in slo.bounds
        )
