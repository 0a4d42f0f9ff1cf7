"""Doubts about the numbers of one cell: beyond what is usual, or at odds with one another.

What cannot be at all is rejected at ingest (``ingest/checks.py``). All limits stand in the catalogue.
"""

from collections.abc import Iterator

import numpy as np

from warehouse.catalogue import METRICS
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
