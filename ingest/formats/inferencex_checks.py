"""Doubts about an InferenceX row: what it states has to fit the lengths that were asked for.

It counts no tokens; its load generator draws each length between 80 and 100 % of ``isl`` and
``osl`` and ignores the end of a text, so that the mean length is known well enough.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ingest.stated import number, positive
from warehouse.rows import Flag

#: (e2el - ttft) / tpot was 0.89 to 0.91 of ``osl`` in the public rows that were looked at.
_LENGTH = (0.7, 1.2)
#: Output tokens/s x latency of a stream were 0.85 to 0.88 of ``osl``: streams also start and end.
_STREAM = (0.6, 1.15)
#: Their input and output were as ``isl`` to ``osl`` within 1 %.
_SHARE = (0.8, 1.25)


def doubts(
    row: Mapping[str, Any], means: Mapping[str, Any], output: float | None, total: float | None
) -> Iterator[Flag]:
    """Yield a flag for what does not fit. ``means``: ``mean_*`` of the latencies, s; ``output``,
    ``total``: tokens/s."""
    asked = positive(row, "osl")
    if asked is not None:
        yield from _latencies(means, asked)
        yield from _rates(row, asked, _seconds(means, "e2el"), output, total)


def _latencies(means: Mapping[str, Any], asked: int) -> Iterator[Flag]:
    first, gap, whole = (_seconds(means, name) for name in ("ttft", "tpot", "e2el"))
    if first is None or gap is None or whole is None:
        return
    if not _fits(whole - first, gap * asked, _LENGTH):
        yield Flag(
            "latencies_disagree",
            "warning",
            f"The row says a request latency of {whole:,.4g} s, but {first:,.4g} s to the first token "
            f"and {1000 * gap:,.4g} ms for each other of about {asked:,} tokens.",
        )


def _rates(
    row: Mapping[str, Any], asked: int, whole: float | None, output: float | None,
    total: float | None,
) -> Iterator[Flag]:  # fmt: skip
    if output is None or output <= 0:
        return
    streams, prompt = positive(row, "conc"), positive(row, "isl")
    if streams and whole is not None and not _fits(output * whole, streams * asked, _STREAM):
        yield _apart(
            f"{output:,.1f} output tokens/s, which makes {output * whole / streams:,.0f} tokens of a "
            f"request of {whole:,.4g} s at {streams} at once, but about {asked:,} were asked for"
        )
    if prompt and total is not None and not _fits(total / output, 1 + prompt / asked, _SHARE):
        yield _apart(
            f"{output:,.1f} of {total:,.1f} tokens/s are output, but {asked:,} of {prompt + asked:,} "
            "tokens were asked for as output"
        )


def _apart(what: str) -> Flag:
    return Flag("rates_disagree", "warning", f"The row contradicts itself: {what}.")


def _fits(value: float, of: float, bounds: tuple[float, float]) -> bool:
    low, high = bounds
    return low * of <= value <= high * of


def _seconds(means: Mapping[str, Any], name: str) -> float | None:
    return number(means, f"mean_{name}")
