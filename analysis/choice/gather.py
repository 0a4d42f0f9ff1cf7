"""From a comparison to settings judged by the metric that decides at each load."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.choice.expected import Candidate, Field, Floats, candidates, expected_gains
from analysis.choice.judged import Judged, Line
from analysis.drafts.acceptance_tables import believed
from analysis.evidence.effects import Effects
from analysis.evidence.launches import Tails
from analysis.frames import listed
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
class JudgingTerms:
    """What a decision is after: ``latency`` first or throughput first; ``slo``: what an arm must
    meet to be taken; ``arms``: labels that may be taken, empty: all."""

    latency: bool = False
    slo: Slo | None = None
    arms: frozenset[str] = frozenset()


def only(
    settings: Collection[int], comparison: Comparison, sure: Effects
) -> tuple[Comparison, Effects]:
    """Return the pairs and differences of these settings alone; their numbers stay as they are."""
    pairs, levels, means = (
        rows[rows["setting"].isin(settings)] for rows in (comparison.pairs, sure.levels, sure.means)
    )
    return replace(comparison, pairs=pairs), Effects(levels, means)


def judged_settings(
    comparison: Comparison,
    sure: Effects,
    cells: pd.DataFrame,
    acceptance: pd.DataFrame,
    terms: JudgingTerms,
) -> dict[int, Judged]:
    """Return setting -> its arms judged; settings without a deciding metric are left out.

    ``cells`` and ``acceptance`` as the queries of these names.
    """
    arms_of = candidates(comparison, cells, terms.arms)
    values: dict[tuple[int, int, int], _Values] = {}
    names = ("setting", "arm_id", "load", "metric", "statistic", "baseline", "speculative")
    for *place, metric, statistic, old, new in listed(comparison.levels, *names):
        values.setdefault((place[0], place[1], place[2]), {})[metric, statistic] = (old, new)
    lengths, open_loads = _lengths(comparison, acceptance), kept_up(comparison)
    means = {int(str(setting)): part for setting, part in sure.means.groupby("setting")}
    judged = {}
    for group, rows in sure.levels.groupby("setting", sort=True):
        setting = int(str(group))
        waits = frozenset(load for at, load in open_loads if at == setting)
        lines = _lines(rows, terms.latency, waits)
        places = sorted(lines, key=lambda place: comparison.loads[place].order)
        arms = arms_of.get(setting, [])
        if not arms or not places:
            continue
        grid = [[(setting, arm.arm_id, place) for place in places] for arm in arms]
        judged[setting] = _judged(
            arms, {place: lines[place] for place in places}, comparison.loads, rows,
            means.get(setting), [[values.get(key, {}) for key in row] for row in grid],
            np.array([[lengths.get(key, np.nan) for key in row] for row in grid]), terms.slo,
        )  # fmt: skip
    return judged


#: The values of both arms, by line.
_Values = dict[Line, tuple[float, float]]


def _lengths(comparison: Comparison, acceptance: pd.DataFrame) -> dict[tuple[int, int, int], float]:
    best = believed(acceptance.dropna(subset=["mean_length"]))
    names = ["setting", "arm_id", "load"]
    cells = comparison.pairs.drop_duplicates("speculative_id")[[*names, "speculative_id"]]
    joined = cells.astype({"speculative_id": object}).merge(
        best[["cell_id", "mean_length"]], left_on="speculative_id", right_on="cell_id"
    )
    table = joined.groupby(names)["mean_length"].mean().reset_index()
    return {
        (setting, arm, load): length
        for setting, arm, load, length in listed(table, *names, "mean_length")
    }


def _lines(rows: pd.DataFrame, latency: bool, waits: frozenset[int]) -> dict[int, Line]:
    """Return load -> the metric and statistic that decide there: throughput, or latency where it
    comes first and at ``waits``, the rates that are kept up with."""
    there: dict[int, set[Line]] = {}
    for load, metric, statistic in listed(rows, "load", "metric", "statistic"):
        if load >= 0:
            there.setdefault(int(load), set()).add((metric, statistic))
    deciding = {}
    for load, lines in there.items():
        order = (*_WAIT, *_SPEED) if latency or load in waits else DECIDING
        chosen = next((line for line in order if line in lines), None)
        if chosen is not None:
            deciding[load] = chosen
    return deciding


def _judged(
    arms: list[Candidate], lines: dict[int, Line], loads: tuple[Load, ...], rows: pd.DataFrame,
    means: pd.DataFrame | None, values: list[list[_Values]], lengths: Floats, slo: Slo | None,
) -> Judged:  # fmt: skip
    """Judge one setting. ``rows`` and ``means``: its differences at each load, and over the loads;
    ``values`` and ``lengths``: by arm and by load of ``lines``."""
    row = {one.arm_id: at for at, one in enumerate(arms)}
    column = {place: at for at, place in enumerate(lines)}
    names = ("log", "launches", "variance", "share", "dof", "rest_dof", "weight", "error")
    grids = {name: np.full((len(row), len(column)), np.nan) for name in names}
    for arm, load, metric, statistic, *each in listed(
        rows, "arm_id", "load", "metric", "statistic", *names
    ):
        if arm in row and lines.get(load) == (metric, statistic):
            for name, value in zip(names, each, strict=True):
                grids[name][row[arm], column[load]] = value
    decides = list(lines.values())
    # The variance of a launch's mean over the loads.
    shared = np.full(len(arms), np.nan)
    if means is not None:
        metric, statistic = decides[0]
        mine = means[(means["metric"] == metric) & (means["statistic"] == statistic)]
        by_arm = dict(zip(mine["arm_id"].tolist(), mine["variance"].tolist(), strict=True))
        shared = np.array([by_arm.get(one.arm_id, np.nan) for one in arms], dtype=np.float64)
    field = Field(
        tuple(arms), grids["log"], np.nan_to_num(grids["launches"]), grids["variance"],
        Tails(*(np.nan_to_num(grids[name]) for name in ("share", "dof", "rest_dof"))), shared, lengths,
    )  # fmt: skip
    prices = [
        next(_prices([by_arm[at] for by_arm in values], line), np.nan)
        for at, line in enumerate(decides)
    ]
    allowed = [[_meets(both, slo, 1) for both in by_load] for by_load in values]
    baseline = [[_meets(both, slo, 0) for both in by_load] for by_load in values]
    return Judged(
        tuple(loads[place] for place in lines), tuple(decides),
        np.array([METRICS[metric].better == "lower" for metric, _ in decides]), field,
        np.sqrt(grids["variance"] * grids["weight"]), np.nan_to_num(grids["error"], nan=0.05),
        bool(rows["independent"].all()), np.array(prices), np.array(allowed),
        np.asarray(np.any(baseline, axis=0)), expected_gains(field),
    )  # fmt: skip


def _prices(values: list[_Values], line: Line) -> Iterator[float]:
    """Yield the baseline's time for a token at a load (s), by each arm; 1 where latency decides."""
    for both in values:
        if line in both and line not in _SPEED:
            yield 1.0
        elif line in both and both[line][0] > 0:
            yield 1 / both[line][0]


def _meets(values: _Values, slo: Slo | None, side: int) -> bool:
    """Return whether the baseline (side 0) or an arm (1) meets every bound; a missing value meets
    none."""
    return slo is None or all(
        bound.holds(values.get((bound.metric, bound.statistic), (np.nan, np.nan))[side])
        for bound in slo.bounds
    )
