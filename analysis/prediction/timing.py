"""From the time of a step and of a first token to what a user of the server sees, with bands.

    ITL = T(B, K) / L          latency = TTFT + (O - 1)·ITL          throughput = e·c·O / latency

The band of a product or sum is that of its parts, taken as independent, on a logarithmic scale.
"""

from dataclasses import dataclass

import numpy as np

from analysis.prediction.posterior import EDGE, Spread
from analysis.prediction.rows import Floats
from analysis.prediction.usual import Asked

#: What is predicted, by the catalogue's names.
PREDICTED: tuple[str, ...] = ("output_throughput", "itl", "ttft", "request_latency")


@dataclass(frozen=True, eq=False)
class Timing:
    """Each metric with its band, one value a row: ms, s for the latency, tokens/s; ``mean_length``
    in tokens a step."""

    step: Spread
    mean_length: Spread
    itl: Spread
    ttft: Spread
    request_latency: Spread
    output_throughput: Spread


def timing(step: Spread, first: Spread, asked: Asked) -> Timing:
    """Return what follows from the times (ms) of a step and of a first token."""
    rows = asked.rows
    length = _around(rows.length, EDGE * asked.doubt, EDGE * asked.doubt)
    itl = _quotient(step, length)
    gaps = np.maximum(rows.output_tokens - 1, 0.0)
    latency = _sum(first, itl.times(gaps)).times(1 / 1000)
    work = asked.kept * asked.concurrency * rows.output_tokens
    down, up = _widths(latency)
    throughput = _around(work / latency.middle, up, down)
    return Timing(step, length, itl, first, latency, throughput)


def _around(middle: Floats, down: Floats, up: Floats) -> Spread:
    return Spread(middle * np.exp(-down), middle, middle * np.exp(up))


def _widths(known: Spread) -> tuple[Floats, Floats]:
    """Return how far a band reaches down and up, as logarithms."""
    return np.log(known.middle / known.low), np.log(known.high / known.middle)


def _quotient(one: Spread, other: Spread) -> Spread:
    (down, up), (under, over) = _widths(one), _widths(other)
    middle = one.middle / other.middle
    return _around(middle, np.hypot(down, over), np.hypot(up, under))


def _sum(one: Spread, other: Spread) -> Spread:
    middle = one.middle + other.middle
    low = np.hypot(one.middle - one.low, other.middle - other.low)
    high = np.hypot(one.high - one.middle, other.high - other.middle)
    return _around(middle, -np.log1p(-low / middle), np.log1p(high / middle))


def deviations(known: Spread, measured: Floats) -> Floats:
    """Return how far off ``measured`` lies, in deviations of the normal distribution with that
    band."""
    missed = np.log(measured / known.middle)
    down, up = _widths(known)
    return np.asarray(EDGE * missed / np.maximum(np.where(missed > 0, up, down), 1e-9))


def widened(known: Spread, factor: Floats) -> Spread:
    """Return the band so many times as wide, on a logarithmic scale."""
    down, up = _widths(known)
    return _around(known.middle, down * factor, up * factor)
