"""Doubts about the numbers of one cell: beyond what is usual, or at odds with one another.

What cannot be at all is rejected at ingest (``ingest/reading.py``). All limits stand in the catalogue.
"""

import math
from collections.abc import Iterator
from math import nan

import numpy as np

from analysis.evidence.drift import Drift, drift
from warehouse.catalogue import METRICS, QUANTILES, percentile_label
from warehouse.loads import load_of
from warehouse.rows import COMPLETED, ERRORED, INCOMPLETE, Cell, Flag, Origin, Severity

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
    for measured in cell.measurements:
        metric = METRICS[measured.metric]
        if measured.value > metric.doubtful and metric.key not in seen:
            seen.add(metric.key)
            yield Flag(
                "beyond_usual",
                "warning",
                f"{metric.label} of {measured.value:,.10g} {metric.unit} ({measured.origin} "
                f"{measured.statistic}) is beyond what has been seen anywhere "
                f"({metric.doubtful:,.10g}); look at its clock and its units.",
            )


def contradictory_counts(cell: Cell) -> Flags:
    """Yield a flag where the report holds other numbers of requests than it states."""
    ended = (cell.completed, cell.errored, cell.incomplete)
    made = cell.requests_made
    if made is not None and sum(ended) != made and (sum(ended) > made or cell.requests_complete):
        yield ended_otherwise(sum(ended), made)
    if cell.requests is None:
        return
    counted = cell.requests["status"].value_counts().to_pylist()
    status = {row["values"]: row["counts"] for row in counted}
    for word, count in zip((COMPLETED, ERRORED, INCOMPLETE), ended, strict=True):
        rows = status.get(word, 0)
        # Fewer rows than requests are a part of them, which is said otherwise.
        if rows > count:
            yield _counts(f"it holds {rows} {word} requests and counts {count}")
    rows = cell.requests.num_rows
    if cell.requests_complete and rows < sum(ended):
        yield _counts(f"it holds {rows} requests, all there were, and counts {sum(ended)}")


def ended_otherwise(ended: int, made: int) -> Flag:
    """Return the flag of a report in which other numbers of requests ended than were made."""
    return _counts(f"{ended} requests ended in one way or another, but {made} were made")


def _counts(what: str) -> Flag:
    return Flag("counts_differ", "warning", f"The report contradicts itself: {what}.")


def more_than_requests_hold(cell: Cell) -> Flags:
    """Yield a flag where more requests or tokens passed in the measured window than all requests of
    the run can hold."""
    reported = means(cell, "reported")
    # Some releases count the tokens of requests that were cut off too.
    requests = cell.completed + cell.errored + cell.incomplete
    if not requests:
        return  # a report that does not count them
    prompt, output = (reported.get(name, nan) for name in ("prompt_tokens", "output_tokens"))
    for key, what, each in (
        ("request_throughput", "requests", 1.0),
        ("output_throughput", "output tokens", output),
        ("total_throughput", "tokens", prompt + output),
    ):
        rate = reported.get(key, nan)
        passed, held = rate * (cell.duration or nan), each * requests
        if passed > _MORE * held + max(each, 1):
            yield Flag(
                "more_than_requests_hold",
                "error",
                f"{rate:,.1f} {METRICS[key].unit} over {cell.duration:.1f} s are {passed:,.0f} "
                f"{what}, but the {requests} requests hold {held:,.0f}.",
            )


def recomputed(cell: Cell) -> Flags:
    """Yield a flag where the report's own means are not those of its requests."""
    reported, canonical = means(cell, "reported"), means(cell, "canonical")
    cut = any(flag.name == _CUT for flag in cell.flags)
    for key, most in _APART.items():
        theirs, ours = reported.get(key, nan), canonical.get(key, nan)
        if apart(theirs, ours, most) and not (cut and key.endswith("throughput")):
            metric = METRICS[key]
            yield Flag(
                "reported_differs",
                "warning",
                f"{metric.label}: the report says {shown(key, theirs)}, its requests give "
                f"{shown(key, ours)} {metric.unit}; what is recomputed is used.",
            )


def rates(cell: Cell) -> Flags:
    """Yield a flag where rates of which nothing can be recomputed are not those of the report's own
    counts."""
    if "request_throughput" in means(cell, "canonical"):
        return
    reported = means(cell, "reported")
    prompt, output = (reported.get(name, nan) for name in ("prompt_tokens", "output_tokens"))
    requests = reported.get("request_throughput", nan)
    for key, counted in (
        ("request_throughput", (cell.completed or nan) / (cell.duration or nan)),
        ("output_throughput", requests * output),
        ("total_throughput", requests * (prompt + output)),
    ):
        rate, metric = reported.get(key, nan), METRICS[key]
        if apart(rate, counted, _APART[key]):
            yield Flag(
                "rates_disagree",
                "warning",
                f"{metric.label}: the report says {shown(key, rate)}, its own counts give "
                f"{shown(key, counted)} {metric.unit}.",
            )


def means(cell: Cell, origin: Origin) -> Values:
    """Return the mean of each metric that is reported, or recomputed."""
    return {
        measured.metric: measured.value
        for measured in cell.measurements
        if measured.origin == origin and measured.statistic == "mean"
    }


def apart(value: float, other: float, most: float) -> bool:
    """Return whether one value is more than ``most`` times the other; False where one is NaN."""
    low, high = sorted((value, other))
    return high > most * low and high - low > 0.01


def shown(key: str, value: float) -> str:
    """Return a value of a metric with the metric's decimals."""
    return f"{value:,.{METRICS[key].decimals}f}"


def acceptance(cell: Cell) -> Flags:
    """Yield a flag where rate and length of an acceptance are not those of its own counts."""
    for counts in cell.acceptance:
        accepted, drafted, drafts = (
            nan if count is None else count
            for count in (counts.accepted_tokens, counts.draft_tokens, counts.drafts)
        )
        for what, stated, counted in (
            ("acceptance rate", counts.rate, accepted / (drafted or nan)),
            ("mean acceptance length", counts.mean_length, 1 + accepted / (drafts or nan)),
        ):
            if stated is None or math.isnan(counted):
                continue
            if not np.isclose(stated, counted, rtol=ROUNDED, atol=0.005):
                yield Flag(
                    "acceptance_disagrees",
                    "error",
                    f"The {what} by {counts.source} is {stated:.3f}, but its counts give {counted:.3f}.",
                )


VALUES = (
    unusual, contradictory_counts, more_than_requests_hold, recomputed, rates, acceptance,
)  # fmt: skip


# --- Doubts about the statistics of one metric: those of one set of values have to fit one another.


#: Sample standard deviations reach 0.71 of the range, those of a population half of it.
_WIDEST_STD = 0.75


def spread(cell: Cell) -> Flags:
    """Yield a flag where mean, deviation, lowest and highest value cannot belong to one set of
    values."""
    distributions: dict[tuple[Origin, str], Values] = {}
    for measured in cell.measurements:
        if METRICS[measured.metric].distribution:
            of = distributions.setdefault((measured.origin, measured.metric), {})
            of[measured.statistic] = measured.value
    for (origin, key), values in distributions.items():
        # Of what is recomputed some means weigh requests by their tokens, and medians do not.
        why = _at_odds(values) or (_off_centre(values) if origin == "reported" else "")
        if why:
            metric = METRICS[key]
            yield Flag(
                "statistics_disagree",
                "error",
                f"The {origin} {metric.label} cannot be of one set of values: {why} {metric.unit}.",
            )


def _at_odds(values: Values) -> str:
    low, high, mean, std = (values.get(name, nan) for name in ("min", "max", "mean", "std"))
    if mean < low - _slack(low):
        return f"a mean of {mean:g} is below the lowest, {low:g}"
    if mean > high + _slack(high):
        return f"a mean of {mean:g} is above the highest, {high:g}"
    wide = std > _WIDEST_STD * (high - low) + _slack(high)
    return f"a deviation of {std:g} does not fit into {low:g} to {high:g}" if wide else ""


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


_ACCEPTED, _DRAFTED = (
    "spec_decode_num_accepted_tokens",
    "spec_decode_num_draft_tokens",
)


def drifting(cell: Cell) -> Flags:
    """Yield a flag for acceptance and one for the time per token, where they drift."""
    for name, what, measured in (
        ("acceptance_drifts", "Acceptance", _of_acceptance(cell)),
        ("speed_drifts", "The time per output token (ITL)", _of_time_per_token(cell)),
    ):
        if measured is None or not measured.named:
            continue
        does, size = "falls" if measured.per_hour < 0 else "rises", abs(measured.per_hour) * 100
        low, high = sorted(abs(end) * 100 for end in (measured.low, measured.high))
        yield Flag(
            name,
            "warning",
            f"{what} {does} by {size:.1f} % an hour (95 %: {low:.1f} to {high:.1f} %) over "
            f"{measured.hours:.1f} h, so its mean says little of the hours that follow; see whether a "
            "restart brings it back.",
        )


def _of_acceptance(cell: Cell) -> Drift | None:
    """Return the drift of accepted over drafted tokens, between samples of the server's counters;
    where the server restarted, the counters start from there."""
    counters = []
    for name in (_ACCEPTED, _DRAFTED):
        moments = [(x.at, x.value) for x in cell.samples if x.name == name]
        counters.append(np.array(sorted(moments), dtype=np.float64).reshape(-1, 2))
    if counters[0].shape != counters[1].shape or len(counters[0]) < 2:
        return None
    grown = [np.diff(values[:, 1]) for values in counters]
    kept = (grown[0] >= 0) & (grown[1] >= 0)
    at = counters[0][1:, 0]
    return drift(at[kept], grown[0][kept], grown[1][kept])


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


# --- Doubts about what a report states of different things: they have to fit one another.
#
# A report without request records can only be held against itself. Of what is recomputed nothing is
# asked here, because it agrees by the way it is computed.


#: TTFT + ITL x (output tokens - 1) is the latency within 7 % in every real result that was looked
#: at; where lengths and speeds of requests go together, their means differ by more.
_ADDED_UP = 1.25
#: Reports round, and add up over a window that is a little longer or shorter.
_BY_WINDOW = 1.05
#: Results of few requests came to 1.07 of the streams that were asked for.
_IN_FLIGHT = 1.2
#: Arrivals at random are more in a short run than were offered on average.
_OFFERED = 1.25
#: Of shorter outputs the last chunk, which may be empty, is a large part.
_LONG = 10
_PARTS = ("ttft", "itl", "tpot", "chunk_gap")


def latencies(cell: Cell) -> Flags:
    """Yield a flag where a part of a request takes longer than all of it, or all of its parts
    together take another time."""
    reported = _only_reported(cell)
    whole = 1000 * reported.get("request_latency", nan)
    for key in _PARTS:
        if reported.get(key, 0.0) > whole * _BY_WINDOW:
            yield _latencies(
                "error", f"a {METRICS[key].label} of {shown(key, reported[key])} ms", whole
            )
            return
    first, gap, tokens = (reported.get(name, nan) for name in ("ttft", "itl", "output_tokens"))
    added = first + gap * (tokens - 1)
    if tokens >= 1 and apart(whole, added, _ADDED_UP):
        yield _latencies(
            "warning",
            f"{shown('ttft', first)} ms to the first of {tokens:,.1f} tokens and "
            f"{shown('itl', gap)} ms for each other, {added:,.1f} ms together",
            whole,
        )


def _latencies(severity: Severity, what: str, whole: float) -> Flag:
    sentence = f"The report says {what}, but a request latency of {whole:,.1f} ms."
    return Flag("latencies_disagree", severity, sentence)


def gaps(cell: Cell) -> Flags:
    """Yield a flag where chunks come faster than tokens: a chunk holds one token at least."""
    reported = _only_reported(cell)
    gap, token = reported.get("chunk_gap", nan), reported.get("itl", nan)
    is_long = reported.get("output_tokens", 0.0) >= _LONG
    if is_long and gap * _ADDED_UP < token and token - gap > 0.01:
        yield Flag(
            "latencies_disagree",
            "warning",
            f"The report says a chunk every {shown('chunk_gap', gap)} ms, but a token every "
            f"{shown('itl', token)} ms.",
        )


def in_flight(cell: Cell) -> Flags:
    """Yield a flag where more requests were in flight than the load allows, or more were served than
    were offered."""
    facts, reported = cell.facts, _only_reported(cell)
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    if load is None or not load.value:
        return
    served, whole = (reported.get(name, nan) for name in ("request_throughput", "request_latency"))
    flying = served * whole  # Little's law
    if load.kind == "concurrency" and flying > _IN_FLIGHT * load.value:
        yield Flag(
            "impossible_throughput",
            "error",
            f"{served:,.2f} requests/s of {whole:,.2f} s each are {flying:,.1f} in flight, of "
            f"{load.value:g} at once.",
        )
    if load.is_rate and served > _OFFERED * load.value:
        yield Flag(
            "more_than_offered",
            "warning",
            f"{served:,.2f} requests/s were served, but {load.value:g} requests/s were offered.",
        )


def all_tokens(cell: Cell) -> Flags:
    reported = _only_reported(cell)
    output, every = (reported.get(f"{of}_throughput", nan) for of in ("output", "total"))
    if output > every * _BY_WINDOW:
        yield Flag(
            "rates_disagree",
            "warning",
            f"The report says {output:,.1f} output tokens/s, but {every:,.1f} tokens/s in all.",
        )


def _only_reported(cell: Cell) -> Values:
    """Return the reported means of a cell of which nothing is recomputed."""
    return {} if "ttft" in means(cell, "canonical") else means(cell, "reported")


AGREEING = (latencies, gaps, in_flight, all_tokens)
