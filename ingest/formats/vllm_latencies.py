"""Latencies of ``vllm bench serve`` and of its descendants, some of which write seconds.

Its TPOT is our ITL, its ITL is the gap between chunks.
"""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ingest.stated import number
from warehouse.catalogue import QUANTILES

if TYPE_CHECKING:
    from ingest.formats.vllm_bench import Bench

#: Our metric, and how many of its units are a millisecond there.
_METRICS = {"ttft": ("ttft", 1.0), "tpot": ("itl", 1.0), "itl": ("chunk_gap", 1.0),
            "e2el": ("request_latency", 1e-3), "e2e_latency": ("request_latency", 1e-3)}  # fmt: skip
_NAME = re.compile(rf"(mean|median|std|p[\d.]+)_({'|'.join(_METRICS)})(?:_(ms|s))?")
_MS = {"ms": 1.0, "s": 1e3}
_PERCENTILES = {f"p{q * 100:g}": name for name, q in QUANTILES.items()} | {"median": "p50"}
#: Between a number in seconds and the same in milliseconds.
_MIDDLE = math.sqrt(1e3)


def latencies(members: Mapping[str, Any], bench: "Bench | None") -> dict[tuple[str, str], float]:
    """Return each latency once, by metric and statistic, in the catalogue's unit: with percentile 50
    asked for, ``median_*`` and ``p50_*`` are the same number. Raises InvalidInput for one that is none.

    A name without a unit, ``median_ttft``, is in seconds, unless no request can have taken so long.
    """
    found: dict[tuple[str, str], float] = {}
    bare = _bare(members, bench)
    for key, (stated, name, unit) in _named(members).items():
        metric, factor = _METRICS[name]
        value = number(members, key)
        statistic = _statistic(stated)
        if value is not None and statistic is not None:
            found.setdefault((metric, statistic), value * factor * _MS[unit or bare])
    return found


def is_read(key: str) -> bool:
    """Return whether a member is a latency that ``latencies`` returns."""
    match = _NAME.fullmatch(key)
    return match is not None and _statistic(match[1]) is not None


def _named(members: Mapping[str, Any]) -> dict[str, tuple[str, str, str | None]]:
    """Return the latencies' names in their parts, those that state their unit first."""
    found = {key: match for key in members if (match := _NAME.fullmatch(key))}
    ordered = sorted(found.items(), key=lambda one: one[1][3] is None)
    return {key: (match[1], match[2], match[3]) for key, match in ordered}


def _statistic(stated: str) -> str | None:
    statistic = _PERCENTILES.get(stated, stated)
    return statistic if statistic in {"mean", "std"} or statistic in QUANTILES else None


def _bare(members: Mapping[str, Any], bench: "Bench | None") -> str:
    """Return the unit of names that state none: that in which a request took about as long as so many
    at once and their rate say, or else at most as long as the run."""
    taken = _request(members, bench)
    if bench is None or taken is None:
        return "s"
    longest = bench.duration
    if bench.max_concurrency and bench.completed and bench.request_rate in ("inf", math.inf):
        at_once = min(bench.max_concurrency, bench.completed)
        longest = at_once * bench.duration / bench.completed * _MIDDLE
    return "s" if taken <= longest else "ms"


def _request(members: Mapping[str, Any], bench: "Bench | None") -> float | None:
    """Return how long a request took, by the names that state no unit; None where they do not say."""

    def said(name: str) -> float | None:
        found = (number(members, f"{one}_{name}") for one in ("mean", "median"))
        return next((value for value in found if value is not None), None)

    whole = said("e2el") or said("e2e_latency")
    if whole is not None or bench is None or not bench.completed:
        return whole
    step = said("tpot") or said("itl")
    return None if step is None else step * bench.total_output_tokens / bench.completed
