"""Service levels in one line, ``ttft:p95<200ms; itl:p99<10ms; latency:p50<2s``: which requests keep them,
up to which load an arm does, and what a GPU yields for what a user feels.

A bound is ``metric:statistic<value unit``; bounds are separated by ``;`` and all of them must hold.
Rates and ratios have no statistic: ``output_throughput>1000; error_rate<1%``.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import declared, numbered, objects
from analysis.matching.arms import ArmLevels, means
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS, STATISTICS, Metric
from warehouse.errors import InvalidInput
from warehouse.loads import Load
from warehouse.rows import COMPLETED, ERRORED

EXAMPLE = "ttft:p95<200ms; itl:p99<10ms; latency:p50<2s"

#: What people write for a metric of the catalogue.
ALIASES: dict[str, str] = {
    "latency": "request_latency", "e2e": "request_latency", "e2el": "request_latency",
    "throughput": "output_throughput", "tps": "output_throughput", "rps": "request_throughput",
    "errors": "error_rate", "acceptance": "acceptance_rate",
}  # fmt: skip
STATISTIC_ALIASES = {"median": "p50", "avg": "mean", "p99.9": "p999", "p0.1": "p001"}

#: unit of the catalogue -> what may be written, and how many of the catalogue's unit that is.
UNITS: dict[str, dict[str, float]] = {
    "ms": {"ms": 1, "s": 1000, "us": 0.001, "µs": 0.001},
    "s": {"s": 1, "ms": 0.001, "min": 60, "us": 1e-6, "µs": 1e-6},
    "ratio": {"%": 0.01, "": 1},
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_BOUND = re.compile(
    r"(?P<metric>[a-z][a-z0-9_ ]*?)\s*(?::\s*(?P<statistic>[\w.]+))?\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<value>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*(?P<unit>[^\d\s].*)?"
)


@dataclass(frozen=True)
class Bound:
    """One requirement, in the catalogue's words and unit (``limit`` is in ``METRICS[metric].unit``)."""

    metric: str
    statistic: str
    sign: str
    limit: float
    text: str

    def holds(self, value: float) -> bool:
        """Return whether a value of the metric, in the catalogue's unit, meets the requirement."""
        return COMPARE[self.sign](value, self.limit)

    def holds_each(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each value meets the requirement; False for NaN, which is unknown."""
        compare: Callable[[Any, float], Any] = COMPARE[self.sign]
        return np.asarray(compare(values, self.limit), dtype=bool)


@dataclass(frozen=True)
class Slo:
    """Bounds that must all hold; ``text`` is how they are written in full."""

    bounds: tuple[Bound, ...]

    @property
    def text(self) -> str:
        """The bounds in one normal form, which ``parse`` reads back."""
        return "; ".join(bound.text for bound in self.bounds)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the bounds name, each once."""
        return tuple(dict.fromkeys(bound.metric for bound in self.bounds))

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics that the bounds name, each once."""
        return tuple(dict.fromkeys(bound.statistic for bound in self.bounds))


def parse(text: str) -> Slo:
    """Read an SLO. Raises InvalidInput with one sentence that names the first mistake."""
    parts = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    if not parts:
        raise InvalidInput(f"An SLO needs at least one bound; write it like: {EXAMPLE}")
    bounds = tuple(_bound(part) for part in parts)
    seen: dict[tuple[str, str, str], Bound] = {}
    for bound in bounds:
        key = (bound.metric, bound.statistic, bound.sign[0])
        if key in seen:
            raise InvalidInput(
                f"{seen[key].text!r} and {bound.text!r} bound the same thing twice; keep one."
            )
        seen[key] = bound
    return Slo(bounds)


def _bound(part: str) -> Bound:
    match = _BOUND.fullmatch(part.lower())
    if match is None:
        raise InvalidInput(f"{part!r} is no bound; write one like {EXAMPLE.split(';')[0]}.")
    word = match["metric"].strip()
    key = word.replace(" ", "_")
    metric = METRICS.get(ALIASES.get(key, key))
    if metric is None:
        known = [key for key, metric in METRICS.items() if metric.better != "neither"]
        raise InvalidInput(f"{part!r}: there is no metric {word!r}; use one of {', '.join(known)}.")
    statistic = _statistic(metric, match["statistic"], part)
    if metric.better == "neither":
        raise InvalidInput(f"{part!r}: {metric.key} is neither better high nor low; no SLO on it.")
    wanted = "<" if metric.better == "lower" else ">"
    if match["sign"][0] != wanted:
        raise InvalidInput(
            f"{part!r}: {metric.key} is better when {metric.better}, so the bound is written "
            f"with {wanted}."
        )
    limit, unit = _limit(metric, match["value"], (match["unit"] or "").strip(), part)
    named = f"{metric.key}:{statistic}" if metric.distribution else metric.key
    return Bound(metric.key, statistic, match["sign"], limit, f"{named}{match['sign']}{unit}")


def _statistic(metric: Metric, word: str | None, part: str) -> str:
    if not metric.distribution:
        if word not in (None, "mean"):
            raise InvalidInput(f"{part!r}: {metric.key} has only one value; leave out :{word}.")
        return "mean"
    if word is None:
        raise InvalidInput(
            f"{part!r}: {metric.key} has many values; say which, e.g. {metric.key}:p95."
        )
    statistic = STATISTIC_ALIASES.get(word, word)
    if statistic not in STATISTICS or statistic == "std":
        known = ", ".join(name for name in STATISTICS if name != "std")
        raise InvalidInput(f"{part!r}: there is no statistic {word!r}; use one of {known}.")
    return statistic


def _limit(metric: Metric, number: str, unit: str, part: str) -> tuple[float, str]:
    try:
        value = float(number)
    except ValueError:
        raise InvalidInput(f"{part!r}: {number!r} is no number.") from None
    known = UNITS.get(metric.unit, {"": 1, metric.unit: 1})
    if unit not in known:
        told = f"{unit!r} is no unit of {metric.key}" if unit else f"{metric.key} needs a unit"
        shown = ", ".join(name or "none" for name in known)
        raise InvalidInput(f"{part!r}: {told}; use one of {shown}.")
    limit = value * known[unit]
    if not 0 <= limit < float("inf"):
        raise InvalidInput(f"{part!r}: {number}{unit} is no value that {metric.key} can have.")
    return limit, f"{value:.15g}{unit}"


# --- Goodput: what was served within the SLO, counted request by request.
#
# The requirement is on each request, so a bound's statistic plays no part here: ``ttft:p95<200ms``
# asks every good request to have its first token within 200 ms.


#: The columns that are read.
COLUMNS = ("status", "start", "end", "last_token", "output_tokens", *JUDGED_PER_REQUEST)
_CLOCK = 1e-6


@dataclass(frozen=True)
class Goodput:
    """Counts of the requests that ended in the window: ``ended`` (completed and errored) and
    ``good`` ones; good requests and their output tokens per second of the window."""

    ended: int
    good: int
    requests_per_second: float
    output_tokens_per_second: float


def goodput(
    requests: pd.DataFrame, slo: Slo, window: tuple[float, float] | None = None
) -> Goodput | None:
    """Judge the request rows of one cell (``COLUMNS`` of ``rows.REQUEST_SCHEMA``).

    ``window``: begin and end in the clock of the requests; None takes their extent. A request
    counts where it ended. An errored one is never good; one whose value is unknown is not good
    either, except ``itl`` of a single token, which has no gap to be late. None where no request
    is known. Raises InvalidInput where a bound is on something that one request does not have.
    """
    for bound in slo.bounds:
        if bound.metric not in JUDGED_PER_REQUEST:
            raise InvalidInput(
                f"{bound.text!r} is not a property of one request, so goodput cannot count it; "
                f"use bounds on {', '.join(JUDGED_PER_REQUEST)}."
            )
    ends = requests["end"].fillna(requests["last_token"]).astype("float64")
    begin, finish = window or (float(requests["start"].min()), float(ends.max()))
    if not finish > begin:
        return None
    inside = (ends >= begin - _CLOCK) & (ends <= finish + _CLOCK)
    ended = requests[inside & requests["status"].isin([COMPLETED, ERRORED])]
    done = (ended["status"] == COMPLETED).to_numpy(dtype=bool)
    good = np.logical_and.reduce([done, *(_within(ended, bound) for bound in slo.bounds)])
    tokens = float(ended["output_tokens"].fillna(0).to_numpy(dtype=np.float64)[good].sum())
    count, length = int(good.sum()), finish - begin
    return Goodput(len(ended), count, count / length, tokens / length)


def per_request(slo: Slo) -> Slo | None:
    """Return the bounds that a single request can meet or miss; None where there is none."""
    bounds = tuple(bound for bound in slo.bounds if bound.metric in JUDGED_PER_REQUEST)
    return Slo(bounds) if bounds else None


def _within(rows: pd.DataFrame, bound: Bound) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    values = rows[bound.metric].to_numpy(dtype=np.float64, na_value=np.nan)
    met = bound.holds_each(values)
    if bound.metric == "itl":
        met |= np.isnan(values) & (rows["output_tokens"] <= 1).fillna(False).to_numpy(dtype=bool)
    return met


@dataclass(frozen=True)
class Pooled:
    """Goodput over the repeats of a level: ``good_share`` of the requests that ended (0-1), good
    requests and their output tokens per second. Each None where no request is known."""

    good_share: float | None
    goodput: float | None
    good_output_throughput: float | None


def pooled(goodputs: Sequence[Goodput]) -> Pooled:
    """Average the rates over the repeats, and take the share over all their requests."""
    if not goodputs:
        return Pooled(None, None, None)
    ended = sum(found.ended for found in goodputs)
    return Pooled(
        sum(found.good for found in goodputs) / ended if ended else None,
        sum(found.requests_per_second for found in goodputs) / len(goodputs),
        sum(found.output_tokens_per_second for found in goodputs) / len(goodputs),
    )


def window(cell: Mapping[Any, Any]) -> tuple[float, float] | None:
    """Return begin and end of a cell's measured window, unix s.

    ``cell``: load_generator, started_at, duration (s). None where they are unknown, or for a
    generator whose requests are not in unix seconds.
    """
    start, length = cell["started_at"], cell["duration"]
    if cell["load_generator"] != "guidellm" or pd.isna(start) or pd.isna(length):
        return None
    return start.timestamp(), start.timestamp() + length


# --- The trade between what a GPU yields and what a user feels, and which points nobody should run.
#
# x: tokens per second that one user sees while text streams, 1000 / ITL (ms, mean over tokens).
# y: output tokens per second per GPU. More of both is better.


#: What is read of each cell.
METRICS_READ = ("output_throughput", "itl")
STATISTICS_READ = ("mean",)

#: Points of one group can be chosen between: the same work on the same kind of GPU.
GROUP = ("model", "precision", "dataset", "gpu", "evidence", "comparable_as")


def points(levels: ArmLevels) -> pd.DataFrame:
    """Return a row per setting, arm and load that has both rates and a number of GPUs.

    ``group`` numbers the points that compete; the fields of GROUP, arm_label, tensor_parallel_size,
    gpus, setting, arm_id, load (its place), load_short (its name), repeats,
    tokens_per_second_per_user, tokens_per_second_per_gpu, dominated, dominated_by (``arm at load``,
    or None).
    """
    table = _placed(levels)
    table["tokens_per_second_per_user"] = 1000 / table["itl"]
    table["tokens_per_second_per_gpu"] = table["output_throughput"] / table["gpus"]
    table["group"] = numbered(table, GROUP)
    names = [levels.loads[place].short for place in table["load"]]
    table["load_short"] = pd.Series(names, index=table.index, dtype="str")
    columns = [
        "group", *GROUP, "setting", "arm_id", "arm_label", "tensor_parallel_size", "gpus", "load",
        "load_short", "repeats",
        "tokens_per_second_per_user", "tokens_per_second_per_gpu",
    ]  # fmt: skip
    parts = []
    rates = ["tokens_per_second_per_user", "tokens_per_second_per_gpu"]
    for _, rows in table[columns].groupby("group", sort=True):
        by = dominators(*(rows[name].to_numpy(dtype=np.float64) for name in rates))
        names = []
        for row in rows.to_dict("records"):
            tp = row["tensor_parallel_size"]
            size = "" if pd.isna(tp) else f" TP {int(tp)}"
            names.append(f"{row['arm_label']}{size} at {row['load_short']}")
        dominating = objects([names[at] if at >= 0 else None for at in by.tolist()], rows.index)
        parts.append(rows.assign(dominated=by >= 0, dominated_by=dominating))
    empty = table[columns].assign(dominated=False, dominated_by=None)
    marked = pd.concat(parts, ignore_index=True) if parts else empty
    order = [True, False, False]
    return declared(
        "trade", marked.sort_values(["group", *rates], ascending=order, ignore_index=True)
    )


def unplaced(levels: ArmLevels) -> int:
    """Return how many levels of an arm cannot be a point: a rate or the number of GPUs is
    unknown."""
    cells = levels.values[["setting", "arm_id", "load"]].drop_duplicates()
    return len(cells) - len(_placed(levels))


def _placed(levels: ArmLevels) -> pd.DataFrame:
    by = ["setting", "arm_id", "load"]
    long = means(levels.values[levels.values["statistic"] == "mean"])
    wide = long.pivot_table(index=by, columns="metric", values="value", observed=True)
    wide = wide.reindex(columns=list(METRICS_READ)).join(long.groupby(by)["repeats"].max())
    table = wide.reset_index().merge(levels.keys.reset_index(), on=["setting", "arm_id"])
    table["gpus"] = table["gpu_count"].fillna(table["tensor_parallel_size"])
    table = table.dropna(subset=["gpus", "output_throughput", "itl"])
    known = (table["itl"] > 0) & (table["output_throughput"] > 0)
    return table[known].reset_index(drop=True)


def dominators(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each point one that is at least as good in both and better in one; -1 for none.

    The one named is on the front itself: of all that dominate, the one with the most ``y``.
    """
    better = (x[None, :] >= x[:, None]) & (y[None, :] >= y[:, None])
    better &= (x[None, :] > x[:, None]) | (y[None, :] > y[:, None])
    # Most y first, then most x: nothing dominates the maximum of that order.
    rank = np.lexsort((x, y)).argsort()
    best = np.where(better, rank[None, :], -1)
    return np.where(better.any(axis=1), best.argmax(axis=1), -1)


# --- The largest load that meets an SLO: every level up to it must meet it too.


Floats = NDArray[np.float64]
#: Setting and arm, as numbers.
Keys = tuple[int, int]
_LEVEL = ["setting", "arm_id", "load"]


@dataclass(frozen=True)
class Level:
    """One load: ``met`` is None where a value is missing. ``broken`` says which
    bounds do not hold and by which value; ``meeting`` of ``repeats`` meet all of them alone."""

    load: Load
    met: bool | None
    broken: tuple[str, ...]
    missing: tuple[str, ...]
    repeats: int
    meeting: int


@dataclass(frozen=True)
class ArmReach:
    """How far an arm meets an SLO. ``largest``: the largest measured load up to which all loads
    meet it; None where not even the lowest does. ``sentence`` says so, and why it ends there."""

    largest: Load | None
    levels: tuple[Level, ...]
    sentence: str


def largest_loads(levels: ArmLevels, slo: Slo) -> dict[Keys, ArmReach]:
    """Return the reach of each arm, by (setting, arm_id).

    A load is judged by its mean over the repeats. The answer ends below the first load that does
    not meet the SLO or lacks a value; a larger one that meets it again is mentioned.
    """
    values = levels.values
    cells = values[[*_LEVEL, "cell_id"]].drop_duplicates(ignore_index=True)
    holds = pd.Series(True, index=cells.index)
    there = cells.groupby(_LEVEL, sort=True).size().rename("repeats").reset_index()
    # By level: the bounds that do not hold, and those that are not measured.
    broken: list[list[str]] = [[] for _ in range(len(there))]
    missing: list[list[str]] = [[] for _ in range(len(there))]
    each = [*_LEVEL, "cell_id"]
    for bound in slo.bounds:
        rows = values[(values["metric"] == bound.metric) & (values["statistic"] == bound.statistic)]
        mean, known = _beside(there, means(rows), _LEVEL)
        for at, (value, measured) in enumerate(zip(mean, known, strict=True)):
            if not measured:
                missing[at].append(bound.text)
            elif not bound.holds(value):
                broken[at].append(f"{bound.text} ({_shown(bound, value)})")
        own, _ = _beside(cells, rows.drop_duplicates(each, keep="last"), each)
        holds &= bound.holds_each(own)
    meeting = cells.assign(holds=holds).groupby(_LEVEL, sort=True)["holds"].sum()
    found: dict[Keys, list[Level]] = {}
    rows_of = zip(there.itertuples(index=False), meeting.tolist(), broken, missing, strict=True)
    for (setting, arm_id, place, repeats), count, broke, lacks in rows_of:
        met = False if broke else None if lacks else True
        load = levels.loads[int(place)]
        level = Level(load, met, tuple(broke), tuple(lacks), int(repeats), count)
        found.setdefault((int(setting), int(arm_id)), []).append(level)
    reaches = {}
    for key, mine in found.items():
        up_to = list(takewhile(lambda level: level.met, mine))
        largest = up_to[-1].load if up_to else None
        reaches[key] = ArmReach(largest, tuple(mine), _sentence(largest, mine))
    return reaches


def _beside(
    rows: pd.DataFrame, known: pd.DataFrame, on: list[str]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the ``value`` of ``known`` for each of ``rows``, NaN without one, and which have
    one."""
    both = rows[on].merge(known[[*on, "value"]], on=on, how="left", indicator="which")
    return both["value"].to_numpy(dtype=np.float64), (both["which"] == "both").to_numpy()


def _shown(bound: Bound, value: Any) -> str:
    metric = METRICS[bound.metric]
    if metric.unit == "ratio":
        return f"{value:.1%}"
    return f"{value:,.{metric.decimals}f} {metric.unit}"


def _sentence(largest: Load | None, levels: Sequence[Level]) -> str:
    beyond = [one for one in levels if largest is None or one.load.order > largest.order]
    if largest is not None and not beyond:
        return f"Every measured load meets it, up to {largest.text}."
    stop = beyond[0]
    start = "No measured load meets it" if largest is None else f"Up to {largest.text}"
    if stop.met is None:
        why = f"at {stop.load.text} it is not measured: {', '.join(stop.missing)}"
    else:
        why = f"at {stop.load.text} it misses {', '.join(stop.broken)}"
    again = [one.load.text for one in beyond if one.met]
    tail = f" At {', '.join(again)} it is met again." if again else ""
    return f"{start}; {why}.{tail}"
