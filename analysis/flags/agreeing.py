"""Doubts about what a report states of different things: they have to fit one another.

A report without request records can only be held against itself. Of what is recomputed nothing is
asked here, because it agrees by the way it is computed.
"""

from collections.abc import Iterator

from analysis.flags.numbers import apart, littles_law, means, shown
from warehouse.catalogue import METRICS
from warehouse.loads import load_of
from warehouse.rows import Cell, Flag, Severity

Flags = Iterator[Flag]

#: TTFT + ITL x (output tokens - 1) is the latency within 7 % in every real result that was looked
#: at; where lengths and speeds of requests go together, their means differ by more.
_ADDED_UP = 1.25
#: Reports round, and add up over a window that is a little longer or shorter.
_ROUNDED = 1.05
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
    said = _stated(cell)
    whole = said.get("request_latency")
    if whole is None:
        return
    for key in _PARTS:
        if said.get(key, 0.0) > 1000 * whole * _ROUNDED:
            yield _latencies(
                "error", f"a {METRICS[key].label} of {shown(key, said[key])} ms", 1000 * whole
            )
            return
    first, gap, tokens = (said.get(name) for name in ("ttft", "itl", "output_tokens"))
    if first is None or gap is None or tokens is None or tokens < 1:
        return
    added = first + gap * (tokens - 1)
    if apart(1000 * whole, added, _ADDED_UP):
        yield _latencies(
            "warning",
            f"{shown('ttft', first)} ms to the first of {tokens:,.1f} tokens and "
            f"{shown('itl', gap)} ms for each other, {added:,.1f} ms together",
            1000 * whole,
        )


def _latencies(severity: Severity, what: str, whole: float) -> Flag:
    sentence = f"The report says {what}, but a request latency of {whole:,.1f} ms."
    return Flag("latencies_disagree", severity, sentence)


def gaps(cell: Cell) -> Flags:
    """Yield a flag where chunks come faster than tokens: a chunk holds one token at least."""
    said = _stated(cell)
    gap, token = said.get("chunk_gap"), said.get("itl")
    if gap is None or token is None or said.get("output_tokens", 0.0) < _LONG:
        return
    if gap * _ADDED_UP < token and token - gap > 0.01:
        yield Flag(
            "latencies_disagree",
            "warning",
            f"The report says a chunk every {shown('chunk_gap', gap)} ms, but a token every "
            f"{shown('itl', token)} ms.",
        )


def in_flight(cell: Cell) -> Flags:
    """Yield a flag where more requests were in flight than the load allows, or more were served than
    were offered."""
    facts, said = cell.facts, _stated(cell)
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    served, whole = said.get("request_throughput"), said.get("request_latency")
    if load is None or not load.value or served is None:
        return
    flying = 0.0 if whole is None else littles_law(served, whole)
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


def share(cell: Cell) -> Flags:
    """Yield a flag where output tokens are more than all tokens."""
    said = _stated(cell)
    output, every = said.get("output_throughput"), said.get("total_throughput")
    if output is not None and every is not None and output > every * _ROUNDED:
        yield Flag(
            "rates_disagree",
            "warning",
            f"The report says {output:,.1f} output tokens/s, but {every:,.1f} tokens/s in all.",
        )


def _stated(cell: Cell) -> dict[str, float]:
    """The means that a report states; none where its requests say all of it."""
    return {} if "ttft" in means(cell, "canonical") else means(cell, "reported")


CHECKS = (latencies, gaps, in_flight, share)
