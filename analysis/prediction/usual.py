"""What the server does besides computing: acceptance, sequences in flight, ramp and drain, lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import least_squares

from analysis.prediction.rows import Floats, Points, Positions, Rows
from analysis.prediction.step_time import EDGE, Bands
from warehouse.errors import InvalidInput

# --- Acceptance by draft position, carried on to positions that were not measured.
#
# With p_i the chance that a draft's i-th token is accepted given that those before it were,
# r_i = p_1 · … · p_i of the drafts have it accepted and a step yields L = 1 + Σ r_i tokens
# (Leviathan et al. 2023, with one p for all positions). Here p_i = p_(i-1) · g beyond the measured
# positions: g, the conditional decay, is fitted and never above 1, because a p that rises within a
# draft (easy texts survive longest) cannot be trusted to go on rising.


@dataclass(frozen=True)
class Decay:
    """How acceptance falls from one draft position to the next. ``conditional``: p_1 … p_n,
    measured or fitted. ``ratio``: g, in (0, 1]."""

    conditional: tuple[float, ...]
    ratio: float

    def by_position(self, k: int) -> tuple[float, ...]:
        """Return r_1 … r_k: the share of drafts whose token at each position is accepted (0-1)."""
        steps = max(k - len(self.conditional), 0)
        beyond = self.conditional[-1] * self.ratio ** np.arange(1, steps + 1)
        return tuple(np.cumprod([*self.conditional, *beyond])[:k].tolist())

    def mean_length(self, k: int) -> float:
        """Return L: the tokens of a verification step with k draft tokens, bonus token included."""
        return 1 + sum(self.by_position(k))


def conditional(by_position: Sequence[float]) -> tuple[float, ...]:
    """Return p_i = r_i / r_(i-1), with p_1 = r_1; the list ends where nothing was accepted any
    more."""
    rates = [1.0]
    for rate in by_position:
        if rates[-1] <= 0:
            break
        rates.append(rate)
    return tuple(b / a for a, b in zip(rates, rates[1:], strict=False))


def from_positions(by_position: Sequence[float]) -> Decay:
    """Fit a decay to measured r_1, r_2, …; raises InvalidInput for none.

    g is the slope of log p over the position, weighted by r_(i-1): only drafts that got so far say
    anything about position i.
    """
    p = [share for share in conditional(by_position) if share > 0]
    if not p:
        raise InvalidInput(
            "No draft token was accepted at any position, so there is no decay to fit; "
            "check the draft model."
        )
    if len(p) == 1:
        return Decay(tuple(p), 1.0)
    reached = np.cumprod([1.0, *p[:-1]])
    slope = np.polyfit(np.arange(len(p)), np.log(p), 1, w=np.sqrt(reached))[0]
    return Decay(tuple(p), float(min(np.exp(slope), 1.0)))


def from_lengths(lengths: Mapping[int, float]) -> Decay:
    """Fit a decay to mean acceptance lengths by K, where positions were not recorded.

    Least squares over (p_1, g), both in (0, 1]; two K are met exactly where any p_1 and g can, one
    K takes g = 1. Raises InvalidInput for no K, or for a length that K cannot have.
    """
    if not lengths:
        raise InvalidInput("No mean acceptance length is known, so there is no decay to fit.")
    for k, length in lengths.items():
        if not 1 < length <= k + 1:
            raise InvalidInput(
                f"A mean acceptance length of {length:g} is impossible with K = {k}: it lies above "
                f"1 and at most at {k + 1}."
            )
    ks, beyond_first = np.array(list(lengths)), np.array(list(lengths.values())) - 1
    steps = np.arange(ks.max())

    def misses(guess: np.ndarray) -> np.ndarray:
        ratio = guess[1] if len(guess) > 1 else 1.0
        by_position = np.cumprod(guess[0] * ratio**steps)
        return np.asarray(np.cumsum(by_position)[ks - 1] - beyond_first)

    start = [0.6, 0.9][: len(lengths)]
    # Far tighter than the default: with two K the answer is exact and tests say so.
    fit = least_squares(misses, start, bounds=(1e-6, 1.0), xtol=1e-12, ftol=1e-12, gtol=1e-12).x
    first, ratio = float(fit[0]), float(fit[1]) if len(fit) > 1 else 1.0
    return Decay(tuple(first * ratio**i for i in range(max(lengths))), ratio)


# --- What was measured of a dataset, carried on to loads and K that were not.


#: Relative doubt (standard deviation) about tokens accepted at positions that no arm drafted.
DOUBT = 0.2


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
        return loads * self._at(loads, self.points.batch / self.points.concurrency)

    def kept(self, loads: Floats) -> Floats:
        """Return the share of Little's law that ramp and drain leave: throughput / (c·O /
        latency)."""
        p = self.points
        ideal = p.concurrency * p.output_tokens / (p.latency / 1000)
        return self._at(loads, p.output_throughput / ideal)

    def _at(self, loads: Floats, values: Floats) -> Floats:
        """Return the geometric means of the points' values at ``loads``: in between on a logarithmic
        scale of the load, level outside."""
        measured, where = np.unique(self.points.concurrency, return_inverse=True)
        means = np.exp(np.bincount(where, np.log(values)) / np.bincount(where))
        return np.interp(np.log(loads), np.log(measured), means)


@dataclass(frozen=True, eq=False)
class Asked(Rows):
    """Questions as the fits and the formulas read them, one a row. ``doubt``: relative, about the
    tokens of a step."""

    concurrency: Floats
    kept: Floats
    doubt: Floats


def asked_of(usual: Usual, k: Floats, concurrency: Floats) -> Asked:
    """Ask for points (K and concurrency) with the lengths and the acceptance that were measured."""
    drafts = [int(each) for each in k]
    return Asked(
        usual.batch(concurrency), k, np.full(len(k), usual.prompt_tokens),
        np.full(len(k), usual.output_tokens), np.array([usual.length(each) for each in drafts]),
        concurrency, usual.kept(concurrency), np.array([usual.doubt(each) for each in drafts]),
    )  # fmt: skip


# --- From the time of a step and of a first token to what a user of the server sees, with bands.
#
#     ITL = T(B, K) / L          latency = TTFT + (O - 1)·ITL          throughput = e·c·O / latency
#
# A prompt is taken in before the first token or between those of others: where one takes longer, the
# other takes less. So TTFT + (O - 1)·ITL is fitted as a whole too (``Points.pace``), and both are
# multiplied by what makes them add up to that.
# The band of a product is that of its parts, taken as independent, on a logarithmic scale.


#: What is predicted, by the catalogue's names.
PREDICTED: tuple[str, ...] = ("output_throughput", "itl", "ttft", "request_latency")


@dataclass(frozen=True, eq=False)
class Timing:
    """Each metric with its band, one value a row: ms, s for the latency, tokens/s; ``mean_length``
    in tokens a step."""

    step: Bands
    mean_length: Bands
    itl: Bands
    ttft: Bands
    request_latency: Bands
    output_throughput: Bands


@dataclass(frozen=True, eq=False)
class Times:
    """The times (ms) of a step, of a first token and of ``Points.pace``, one value a row."""

    step: Bands
    first: Bands
    pace: Bands


def timing(times: Times, measured: Rows, asked: Asked) -> Timing:
    """Return what follows from the times at the ``measured`` acceptance and lengths for those that
    are asked for."""
    apart = times.first.middle + (measured.output_tokens - 1) * times.step.middle / measured.length
    both = times.pace.middle * measured.output_tokens / measured.length / apart
    step, first = times.step.times(both), times.first.times(both)
    length = around(asked.length, EDGE * asked.doubt, EDGE * asked.doubt)
    (down, up), (under, over) = widths_of(step), widths_of(length)
    itl = around(step.middle / length.middle, np.hypot(down, over), np.hypot(up, under))
    rest = itl.times(np.maximum(asked.output_tokens - 1, 0.0))
    down, up = widths_of(times.pace)
    total = (first.middle + rest.middle) / 1000
    latency = around(total, np.hypot(down, over), np.hypot(up, under))
    work = asked.kept * asked.concurrency * asked.output_tokens
    down, up = widths_of(latency)
    return Timing(step, length, itl, first, latency, around(work / latency.middle, up, down))


def around(middle: Floats, down: Floats, up: Floats) -> Bands:
    """Return the band whose ends lie so far from its middle, in logarithms."""
    return Bands(middle * np.exp(-down), middle, middle * np.exp(up))


def widths_of(band: Bands) -> tuple[Floats, Floats]:
    """Return how far a band reaches down and up, in logarithms."""
    return np.log(band.middle / band.low), np.log(band.high / band.middle)


def deviations(band: Bands, measured: Floats) -> Floats:
    """Return how far off ``measured`` lies, in deviations of the normal distribution with that
    band."""
    missed = np.log(measured / band.middle)
    down, up = widths_of(band)
    return np.asarray(EDGE * missed / np.maximum(np.where(missed > 0, up, down), 1e-9))


def doubted(band: Bands, more: Floats) -> Bands:
    """Return the band with another doubt (half the width of its band, logarithm)."""
    down, up = widths_of(band)
    return around(band.middle, np.hypot(down, more), np.hypot(up, more))


def widened(band: Bands, factor: float) -> Bands:
    """Return the band so many times as wide, on a logarithmic scale."""
    down, up = widths_of(band)
    return around(band.middle, down * factor, up * factor)
