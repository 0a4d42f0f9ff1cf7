"""The largest load that meets an SLO: every level up to it must meet it too."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.arm_levels import means
from analysis.service.slo import Bound, Slo
from warehouse.catalogue import METRICS


@dataclass(frozen=True)
class Level:
    """One concurrency level: ``met`` is None where a value is missing. ``broken`` says which
    bounds do not hold and by which value; ``meeting`` of ``repeats`` meet all of them alone."""

    concurrency: int
    met: bool | None
    broken: tuple[str, ...]
    missing: tuple[str, ...]
    repeats: int
    meeting: int


@dataclass(frozen=True)
class Load:
    """``largest``: the highest measured level up to which all meet the SLO; None where not even
    the lowest does. ``sentence`` says so, and why no more."""

    largest: int | None
    levels: tuple[Level, ...]
    sentence: str


def largest_load(values: pd.DataFrame, slo: Slo) -> Load:
    """Judge one arm. ``values``: concurrency, cell_id, metric, statistic, value of its cells.

    A level is judged by its mean over the repeats. The answer ends below the first level that
    does not meet the SLO or lacks a value; a higher level that meets it again is mentioned.
    """
    mean: _Table = defaultdict(dict)
    for row in records(means(values.assign(setting=0, arm_id=0))):
        mean[row["concurrency"]][row["metric"], row["statistic"]] = row["value"]
    repeats: dict[int, _Table] = defaultdict(lambda: defaultdict(dict))
    for row in records(values):
        cells = repeats[row["concurrency"]]
        cells[row["cell_id"]][row["metric"], row["statistic"]] = row["value"]
    levels = tuple(
        _level(int(level), mean[level], list(repeats[level].values()), slo)
        for level in sorted(mean)
    )
    largest = None
    for found in levels:
        if not found.met:
            break
        largest = found.concurrency
    return Load(largest, levels, _sentence(largest, levels))


#: (metric, statistic) -> value.
_Values = dict[tuple[str, str], float]
_Table = dict[Any, _Values]


def _level(concurrency: int, mean: _Values, repeats: list[_Values], slo: Slo) -> Level:
    broken, missing = [], []
    for bound in slo.bounds:
        value = mean.get((bound.metric, bound.statistic))
        if value is None:
            missing.append(bound.text)
        elif not bound.holds(value):
            broken.append(f"{bound.text} ({_shown(bound, value)})")
    met = False if broken else None if missing else True
    meeting = sum(_meets(values, slo) for values in repeats)
    return Level(concurrency, met, tuple(broken), tuple(missing), len(repeats), meeting)


def _meets(values: _Values, slo: Slo) -> bool:
    return all(
        bound.holds(values.get((bound.metric, bound.statistic), float("nan")))
        for bound in slo.bounds
    )


def _shown(bound: Bound, value: Any) -> str:
    metric = METRICS[bound.metric]
    if metric.unit == "ratio":
        return f"{value:.1%}"
    return f"{value:,.{metric.decimals}f} {metric.unit}"


def _sentence(largest: int | None, levels: tuple[Level, ...]) -> str:
    beyond = [level for level in levels if largest is None or level.concurrency > largest]
    if largest is not None and not beyond:
        return f"Every measured load meets it, up to concurrency {largest}."
    stop = beyond[0]
    start = "No measured load meets it" if largest is None else f"Up to concurrency {largest}"
    if stop.met is None:
        why = f"at {stop.concurrency} it is not measured: {', '.join(stop.missing)}"
    else:
        why = f"at {stop.concurrency} it misses {', '.join(stop.broken)}"
    again = [str(level.concurrency) for level in beyond if level.met]
    tail = f" Concurrency {', '.join(again)} meets it again." if again else ""
    return f"{start}; {why}.{tail}"
