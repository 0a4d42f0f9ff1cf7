"""Doubts about the numbers of one cell: beyond what is usual, or at odds with one another.

What cannot be at all is rejected at ingest (``ingest/reading.py``). All limits stand in the catalogue.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analysis.evidence.drift import Drift, drift
from warehouse.catalogue import METRICS, QUANTILES, percentile_label
from warehouse.rows import COMPLETED, ERRORED, INCOMPLETE, Acceptance, Cell, Flag, Origin

Flags = Iterator[Flag]
Values = dict[str, float]

#: Reports round, and weigh means a little differently from one another.
ROUNDED = 0.02
#: How far a report's own mean may be from the one that its requests give. Releases of GuideLLM count
#: tokens per second in ways that differ by up to 19 %.
_APART: dict[str, float] = {
    "ttft": 1.2, "itl": 1.2, "request_latency": 1.2, "prompt_tokens": 1.2, "output_tokens": 1.2,
    "output_throughput": 1.35, "total_throughput": 1.35, "request_throughput": 1.35,
}  # fmt: skip
#: Says of a cell that its window was cut to the activity, so that its rates are others.
_CUT = "window_outlives_activity"
#: So many times what the requests hold may be counted: prompts count at once.
_MORE = 1.25


def unusual(cell: Cell) -> Flags:
    """Yield a flag for each metric whose value may be true and is beyond what anybody has seen."""
    seen: set[str] = set()
    for one in cell.measurements:
        metric = METRICS[one.metric]
        if one.value > metric.doubtful and one.metric not in seen:
            seen.add(one.metric)
            yield Flag(
                "beyond_usual",
                "warning",
                f"{metric.label} of {one.value:,.10g} {metric.unit} ({one.origin} "
                f"{one.statistic}) is beyond what has been seen anywhere "
                f"({metric.doubtful:,.10g}); look at its clock and its units.",
            )


def counts(cell: Cell) -> Flags:
    """Yield a flag where the report holds other numbers of requests than it states."""
    told = (cell.completed, cell.errored, cell.incomplete)
    made = cell.requests_made
    if made is not None and sum(told) != made and (sum(told) > made or cell.requests_complete):
        yield ended_otherwise(sum(told), made)
    if cell.requests is None:
        return
    counted = cell.requests["status"].value_counts().to_pylist()
    status = {row["values"]: row["counts"] for row in counted}
    words = (COMPLETED, ERRORED, INCOMPLETE)
    for word, count in zip(words, told, strict=True):
        rows = status.get(word, 0)
        # Fewer rows than requests are a part of them, which is said otherwise.
        if rows > count:
            yield _counts(f"it holds {rows} {word} requests and counts {count}")
    rows = cell.requests.num_rows
    if cell.requests_complete and rows < sum(told):
        yield _counts(f"it holds {rows} requests, all there were, and counts {sum(told)}")


def ended_otherwise(ended: int, made: int) -> Flag:
    """Return the flag of a report in which other numbers of requests ended than were made."""
    return _counts(f"{ended} requests ended in one way or another, but {made} were made")


def _counts(what: str) -> Flag:
    return Flag("counts_differ", "warning", f"The report contradicts itself: {what}.")


def tokens(cell: Cell) -> Flags:
    """Yield a flag where more requests or tokens passed in the measured window than all requests of
    the run can hold."""
    said = means(cell, "reported")
    # Some releases count the tokens of requests that were cut off too.
    everyone = cell.completed + cell.errored + cell.incomplete
    if not everyone:
        return  # a report that does not count them
    for key, what, each in (
        ("request_throughput", "requests", 1.0),
        ("output_throughput", "output tokens", said.get("output_tokens")),
        ("total_throughput", "tokens", _sum(said.get("prompt_tokens"), said.get("output_tokens"))),
    ):
        rate = said.get(key)
        if not cell.duration or each is None or rate is None:
            continue
        passed, held = rate * cell.duration, each * everyone
        if passed > _MORE * held + max(each, 1):
            yield Flag(
                "more_than_requests_hold",
                "error",
                f"{rate:,.1f} {METRICS[key].unit} over {cell.duration:.1f} s are {passed:,.0f} "
                f"{what}, but the {everyone} requests hold {held:,.0f}.",
            )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def recomputed(cell: Cell) -> Flags:
    """Yield a flag where the report's own means are not those of its requests."""
    said, found = means(cell, "reported"), means(cell, "canonical")
    cut = any(flag.name == _CUT for flag in cell.flags)
    for key, most in _APART.items():
        if cut and key.endswith("throughput"):
            continue
        one, other = said.get(key), found.get(key)
        if one is None or other is None or not apart(one, other, most):
            continue
        metric = METRICS[key]
        yield Flag(
            "reported_differs",
            "warning",
            f"{metric.label}: the report says {shown(key, one)}, its requests give "
            f"{shown(key, other)} {metric.unit}; what is recomputed is used.",
        )


def rates(cell: Cell) -> Flags:
    """Yield a flag where rates of which nothing can be recomputed are not those of the report's own
    counts."""
    said = means(cell, "reported")
    if "request_throughput" in means(cell, "canonical"):
        return
    ended = cell.completed / cell.duration if cell.completed and cell.duration else None
    requests, each = said.get("request_throughput"), said.get("output_tokens")
    for key, counted in (
        ("request_throughput", ended),
        ("output_throughput", _times(requests, each)),
        ("total_throughput", _times(requests, _sum(said.get("prompt_tokens"), each))),
    ):
        one, metric = said.get(key), METRICS[key]
        if one is None or counted is None or not apart(one, counted, _APART[key]):
            continue
        yield Flag(
            "rates_disagree",
            "warning",
            f"{metric.label}: the report says {shown(key, one)}, its own counts give "
            f"{shown(key, counted)} {metric.unit}.",
        )


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def means(cell: Cell, origin: Origin) -> Values:
    """Return the mean of each metric that is reported, or recomputed."""
    return {
        one.metric: one.value
        for one in cell.measurements
        if one.origin == origin and one.statistic == "mean"
    }


def littles_law(served: float, latency: float) -> float:
    """Return how many requests are in flight on average, where ``served`` in a second take
    ``latency`` seconds each."""
    return served * latency


def apart(one: float, other: float, most: float) -> bool:
    """Return whether one value is more than ``most`` times the other."""
    low, high = sorted((one, other))
    return high > most * low and high - low > 0.01


def shown(key: str, value: float) -> str:
    """Return a value of a metric with the metric's decimals."""
    return f"{value:,.{METRICS[key].decimals}f}"


def acceptance(cell: Cell) -> Flags:
    """Yield a flag where rate and length of an acceptance are not those of its own counts."""
    for one in cell.acceptance:
        for what, said, counted in _of_counts(one):
            if (
                said is not None
                and counted is not None
                and not np.isclose(said, counted, rtol=ROUNDED, atol=0.005)
            ):
                yield Flag(
                    "acceptance_disagrees",
                    "error",
                    f"The {what} by {one.source} is {said:.3f}, but its counts give {counted:.3f}.",
                )


def _of_counts(one: Acceptance) -> Iterator[tuple[str, float | None, float | None]]:
    accepted = one.accepted_tokens
    if accepted is None:
        return
    if one.draft_tokens:
        yield "acceptance rate", one.rate, accepted / one.draft_tokens
    if one.drafts:
        yield "mean acceptance length", one.mean_length, 1 + accepted / one.drafts


CHECKS = (unusual, counts, tokens, recomputed, rates, acceptance)


# --- Doubts about the statistics of one metric: those of one set of values have to fit one another.


#: Sample standard deviations reach 0.71 of the range, those of a population half of it.
_WIDEST_STD = 0.75


def spread(cell: Cell) -> Flags:
    """Yield a flag where mean, deviation, lowest and highest value cannot belong to one set of
    values."""
    for (origin, key), values in _distributions(cell).items():
        # Of what is recomputed some means weigh requests by their tokens, and medians do not.
        why = _at_odds(values) or (_off_centre(values) if origin == "reported" else "")
        if why:
            metric = METRICS[key]
            yield Flag(
                "statistics_disagree",
                "error",
                f"The {origin} {metric.label} cannot be of one set of values: {why} {metric.unit}.",
            )


def _distributions(cell: Cell) -> dict[tuple[Origin, str], Values]:
    found: dict[tuple[Origin, str], Values] = {}
    for one in cell.measurements:
        if METRICS[one.metric].distribution:
            found.setdefault((one.origin, one.metric), {})[one.statistic] = one.value
    return found


def _at_odds(values: Values) -> str:
    low, high, mean, std = (values.get(name) for name in ("min", "max", "mean", "std"))
    if mean is not None and low is not None and mean < low - _slack(low):
        return f"a mean of {mean:g} is below the lowest, {low:g}"
    if mean is not None and high is not None and mean > high + _slack(high):
        return f"a mean of {mean:g} is above the highest, {high:g}"
    if std is not None and low is not None and high is not None:
        widest = _WIDEST_STD * (high - low)
        if std > widest + _slack(high):
            return f"a deviation of {std:g} does not fit into {low:g} to {high:g}"
    return ""


def _off_centre(values: Values) -> str:
    """Say which percentile the mean cannot have: of values from ``low`` to ``high`` the part 1 - q
    is not below the percentile q (Markov), which is at most so many deviations away (Cantelli)."""
    mean, std, high = (values.get(name) for name in ("mean", "std", "max"))
    low = values.get("min", 0.0)
    if mean is None:
        return ""
    for name, q in QUANTILES.items():
        value = values.get(name)
        if value is None:
            continue
        least, most = q * low + (1 - q) * value, math.inf
        if high is not None:
            most = q * value + (1 - q) * high
        if std is not None:
            wide = std * (1 + ROUNDED)
            least = max(least, value - wide * math.sqrt(q / (1 - q)))
            most = min(most, value + wide * math.sqrt((1 - q) / q))
        slack = _slack(max(mean, value))
        if not least - slack <= mean <= most + slack:
            deviation = "" if std is None else f" with a deviation of {std:g}"
            return f"a mean of {mean:g} and a {percentile_label(name)} of {value:g}{deviation}"
    return ""


def _slack(value: float) -> float:
    return max(ROUNDED * abs(value), 0.01)


# --- Whether acceptance or speed changes while a cell lasts: a doubt about long ones.


Floats = NDArray[np.float64]
_ACCEPTED, _DRAFTED = (
    "spec_decode_num_accepted_tokens",
    "spec_decode_num_draft_tokens",
)


def drifting(cell: Cell) -> Iterator[Flag]:
    """Yield a flag for acceptance and one for the time per token, where they drift."""
    acceptance = _of_acceptance(cell)
    if acceptance is not None and acceptance.named:
        yield _flag("acceptance_drifts", "Acceptance", acceptance)
    speed = _of_time_per_token(cell)
    if speed is not None and speed.named:
        yield _flag("speed_drifts", "The time per output token (ITL)", speed)


def _flag(name: str, what: str, found: Drift) -> Flag:
    does = "falls" if found.per_hour < 0 else "rises"
    size = f"{abs(found.per_hour) * 100:.1f} %"
    low, high = sorted(abs(end) * 100 for end in (found.low, found.high))
    return Flag(
        name,
        "warning",
        f"{what} {does} by {size} an hour (95 %: {low:.1f} to {high:.1f} %) over {found.hours:.1f} h, "
        "so its mean says little of the hours that follow; see whether a restart brings it back.",
    )


def _of_acceptance(cell: Cell) -> Drift | None:
    """Return the drift of accepted over drafted tokens, between samples of the server's counters;
    where the server restarted, the counters start from there."""
    counters = [_counter(cell, name) for name in (_ACCEPTED, _DRAFTED)]
    if counters[0].shape != counters[1].shape or len(counters[0]) < 2:
        return None
    grown = [np.diff(values[:, 1]) for values in counters]
    kept = (grown[0] >= 0) & (grown[1] >= 0)
    at = counters[0][1:, 0]
    return drift(at[kept], grown[0][kept], grown[1][kept])


def _counter(cell: Cell, name: str) -> Floats:
    """Return the moments (unix s) and values of a counter, in order of time."""
    found = [(one.at, one.value) for one in cell.samples if one.name.removeprefix("vllm:") == name]
    return np.array(sorted(found), dtype=np.float64).reshape(-1, 2)


def _of_time_per_token(cell: Cell) -> Drift | None:
    """Return the drift of the milliseconds between a request's tokens, by when it began; each
    request weighs by its tokens."""
    if cell.requests is None or not cell.requests_complete:
        return None
    rows = cell.requests
    start, gap, tokens = (
        rows[name].to_numpy().astype(np.float64) for name in ("start", "itl", "output_tokens")
    )
    kept = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    kept &= np.isfinite(start) & np.isfinite(gap) & (tokens > 1)
    gaps = tokens[kept] - 1
    return drift(start[kept], gap[kept] * gaps, gaps)
