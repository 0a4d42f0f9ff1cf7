"""What the server does besides computing: sequences in flight, ramp and drain, lengths, acceptance."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.prediction.decay import Decay, from_lengths, from_positions
from analysis.prediction.posterior import EDGE, Spread
from analysis.prediction.rows import Floats, Points, Positions, Rows

#: Relative doubt (standard deviation) about tokens accepted at positions that no arm drafted.
DOUBT = 0.2


@dataclass(frozen=True, eq=False)
class Curve:
    """Values at loads, in between on a logarithmic scale of the load, level outside."""

    loads: Floats
    values: Floats

    def at(self, loads: Floats) -> Floats:
        """Return the values at ``loads``."""
        return np.interp(np.log(loads), np.log(self.loads), self.values)


def curve(loads: Floats, values: Floats) -> Curve:
    """Return a curve through the geometric mean of the values at each load."""
    known, where = np.unique(loads, return_inverse=True)
    sums = np.bincount(where, np.log(values))
    return Curve(known, np.exp(sums / np.bincount(where)))


@dataclass(frozen=True, eq=False)
class Usual:
    """Measured points of one dataset, and what was counted of their drafts."""

    points: Points
    positions: Positions

    @cached_property
    def decay(self) -> Decay | None:
        """The decay of acceptance, from acceptance by position, pooled over arms and loads; without
        positions, from mean lengths by K; None where nothing was drafted."""
        counted = self.positions
        if counted.accepted.sum() > 0:
            accepted = np.bincount(counted.position, counted.accepted)[1:]
            reached = np.bincount(counted.position, counted.reached)[1:]
            kept = np.cumprod(accepted[reached > 0] / reached[reached > 0])
            return from_positions(kept.tolist())
        points = self.points
        drafted = (points.k > 0) & (points.length > 1)
        lengths = {
            int(k): float(points.length[drafted & (points.k == k)].mean())
            for k in np.unique(points.k[drafted])
        }
        return from_lengths(lengths) if lengths else None

    def length(self, k: int) -> float:
        """Return the tokens of a step with k draft tokens."""
        return self.decay.mean_length(k) if k and self.decay is not None else 1.0

    def doubt(self, k: int) -> float:
        """Return the relative doubt about ``length``: positions beyond those that were drafted are
        guessed."""
        longest = int(self.points.k.max())
        if k <= longest or self.decay is None:
            return 0.0
        by_position = self.decay.by_position(k)
        return DOUBT * sum(by_position[longest:]) / (1 + sum(by_position))

    @cached_property
    def prompt_tokens(self) -> float:
        """The mean prompt tokens of a request, as measured."""
        return float(self.points.prompt_tokens.mean())

    @cached_property
    def output_tokens(self) -> float:
        """The mean output tokens of a request, as measured."""
        return float(self.points.output_tokens.mean())

    def batch(self, loads: Floats) -> Floats:
        """Return the sequences in flight at each load (requests at once)."""
        return loads * self._share.at(loads)

    def kept(self, loads: Floats) -> Floats:
        """Return the share of Little's law that ramp and drain leave: throughput / (c·O /
        latency)."""
        return self._kept.at(loads)

    @cached_property
    def _share(self) -> Curve:
        return curve(self.points.concurrency, self.points.batch / self.points.concurrency)

    @cached_property
    def _kept(self) -> Curve:
        p = self.points
        latency = (p.ttft + (p.output_tokens - 1) * p.itl) / 1000
        ideal = p.concurrency * p.output_tokens / latency
        return curve(p.concurrency, p.output_throughput / ideal)


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions as the fits and the formulas read them, one a row. ``doubt``: relative, about the
    tokens of a step."""

    rows: Rows
    concurrency: Floats
    kept: Floats
    doubt: Floats


def asked_of(usual: Usual, k: Floats, concurrency: Floats) -> Asked:
    """Ask for points (K and concurrency) with the lengths and the acceptance that were measured."""
    known = [(usual.length(int(one)), usual.doubt(int(one))) for one in k]
    length, doubt = np.array(known, dtype=np.float64).reshape(-1, 2).T
    prompt = np.full(len(k), usual.prompt_tokens)
    output = np.full(len(k), usual.output_tokens)
    rows = Rows(usual.batch(concurrency), k, prompt, output, length)
    return Asked(rows, concurrency, usual.kept(concurrency), doubt)


# --- From the time of a step and of a first token to what a user of the server sees, with bands.
#
#     ITL = T(B, K) / L          latency = TTFT + (O - 1)·ITL          throughput = e·c·O / latency
#
# The band of a product or sum is that of its parts, taken as independent, on a logarithmic scale.


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
