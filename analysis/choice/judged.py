"""One kind of traffic judged: every arm at every load, what is expected, what to take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.choice.expected import expected_gains
from analysis.choice.field import Field, Floats
from analysis.choice.pick import Pick, pick
from analysis.choice.stake import at_stake
from analysis.evidence.effects import LEVEL, as_improvement
from analysis.evidence.tails import Tails
from analysis.evidence.words import OPEN, words
from warehouse.loads import Load

#: metric, statistic
Line = tuple[str, str]


@dataclass(frozen=True)
class Rule:
    """How an arm is chosen. ``weigh``: the load that counts alone, None: all alike."""

    weigh: float | None = None


@dataclass(frozen=True)
class Judged:
    """What is known of every arm at every load of one kind of traffic. ``lines``: the metric and
    statistic that judge each load, ``lower`` whether lower is better in it. ``error`` (candidates,
    loads): standard error of ``field.log``; ``rate``: error rate of its study-adjusted interval.
    ``independent``: whether launches were stated. ``price``: what a token takes of the baseline's
    time at each load (s), NaN where that is unknown. ``allowed``: what meets the SLO. ``gains``:
    expected log ratios."""

    loads: tuple[Load, ...]
    lines: tuple[Line, ...]
    lower: NDArray[np.bool_]
    field: Field
    error: Floats
    rate: Floats
    independent: bool
    price: Floats
    allowed: NDArray[np.bool_]
    gains: Floats

    @cached_property
    def words(self) -> NDArray[np.object_]:
        """The word of certainty, one of five, for each candidate and load."""
        low, high = self.adjusted
        probability = self.field.tails.above(-self._t())
        told = words(low, high, probability, np.full(low.shape, self.independent))
        return np.where(np.isfinite(self.field.log), told, OPEN)

    def _t(self) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.field.log / self.error)

    @cached_property
    def plain(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the plain 95 % intervals, as improvements."""
        return self._ends(np.full(self.rate.shape, 1 - LEVEL))

    @cached_property
    def adjusted(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the study-adjusted intervals, as improvements."""
        return self._ends(self.rate)

    def _ends(self, rate: Floats) -> tuple[Floats, Floats]:
        half = self.field.tails.reach(rate) * self.error
        return self._improved(self.field.log - half), self._improved(self.field.log + half)

    @cached_property
    def measured(self) -> Floats:
        """What each arm's own launches say, as improvements."""
        return self._improved(self.field.log)

    @cached_property
    def expected(self) -> Floats:
        """Expected improvements, never outside the plain intervals."""
        low, high = self.plain
        return np.asarray(np.fmin(np.fmax(self._improved(self.gains), low), high))

    @cached_property
    def saving(self) -> tuple[Floats, Floats, Floats]:
        """The share of a token's cost that is saved, with its plain interval: 1 - old / new."""
        half = self.field.tails.reach(1 - LEVEL) * self.error
        size, low, high = np.log1p(self.expected), self.field.log - half, self.field.log + half
        return -np.expm1(-size), -np.expm1(-low), -np.expm1(-high)

    def _improved(self, log: Floats) -> Floats:
        return as_improvement(log, np.broadcast_to(self.lower, log.shape))

    def picked(self, rule: Rule) -> Pick | None:
        """Return the arm to take and its K at each load; None where nothing can be taken."""
        weights = np.ones(len(self.loads))
        if rule.weigh is not None:
            weights = np.array([1.0 if x.value == rule.weigh else 0.0 for x in self.loads])
        if not weights.any():
            weights = np.ones(len(self.loads))
        batches = tuple(
            int(x.value) if x.kind == "concurrency" and x.value else None for x in self.loads
        )
        return pick(self.field, self.gains, batches, self.allowed, weights)

    def stake(self, chosen: tuple[int | None, ...]) -> Floats:
        """Return by how much (ratio) each rival may still beat the choice at each load."""
        return np.asarray(np.expm1(at_stake(self.field, self.gains, chosen)))

    def narrowed(self, loads: Sequence[Load], arms: Sequence[int]) -> "Judged":
        """Return the judgement of some loads and some candidates only (``arms``: their places)."""
        columns = [self.loads.index(load) for load in loads]
        grid = np.ix_(list(arms), columns)
        field = Field(
            tuple(self.field.candidates[place] for place in arms), self.field.log[grid],
            self.field.launches[grid], self.field.variance[grid], self.field.tails.at(grid),
            self.field.shared[list(arms)], self.field.length[grid],
        )  # fmt: skip
        return replace(
            self, loads=tuple(loads), lines=tuple(self.lines[x] for x in columns),
            lower=self.lower[columns], field=field, error=self.error[grid], rate=self.rate[grid],
            price=self.price[columns], allowed=self.allowed[grid], gains=self.gains[grid],
        )  # fmt: skip


def with_gains(judged: Judged) -> Judged:
    """Return the judgement with its expected gains filled in."""
    return replace(judged, gains=expected_gains(judged.field))


def mixed(parts: Sequence[Judged], weights: Sequence[float]) -> Judged | None:
    """Judge the traffic that holds each part by its weight (shares of output tokens, sum 1).

    It has the loads and arms that all parts have, judged by the same metric. The time of a token in
    the mix is the mean of the parts' times, so each part counts by its weight and by the baseline's
    time; where that is unknown, by its weight. Errors of the parts are added as if they erred
    together, since they share launches, so an interval is never too narrow. None where nothing is
    common.
    """
    shared = _common(parts)
    if shared is None:
        return None
    stacked = [_stack(shared, name) for name in ("error", "rate")]
    prices = np.stack([part.price for part in shared])
    # Where one part's price is unknown at a load, all parts count there by their weights alone.
    prices = np.where(np.isfinite(prices).all(axis=0), prices, 1.0)
    share = np.array(weights)[:, None] * prices
    share = (share / share.sum(axis=0))[:, None, :]
    log, gains = (_together(share, np.stack(x)) for x in (
        [p.field.log for p in shared], [p.gains for p in shared]))  # fmt: skip
    times = share * np.exp(-np.stack([p.field.log for p in shared]))
    influence = times / times.sum(axis=0)
    fields = [part.field for part in shared]
    field = Field(
        fields[0].candidates, log,
        np.min([f.launches for f in fields], axis=0),
        ((influence * np.sqrt(np.stack([f.variance for f in fields]))).sum(axis=0)) ** 2,
        _worst_known([f.tails for f in fields]),
        np.mean([f.shared for f in fields], axis=0),
        np.full(log.shape, np.nan),
    )  # fmt: skip
    return replace(
        shared[0], field=field, error=(influence * stacked[0]).sum(axis=0),
        rate=stacked[1].min(axis=0), independent=all(part.independent for part in shared),
        price=prices.mean(axis=0), gains=gains,
        allowed=np.all([part.allowed for part in shared], axis=0),
    )  # fmt: skip


def _worst_known(tails: Sequence[Tails]) -> Tails:
    """Return, at each place, the tails of the part that is known with the fewest degrees of
    freedom."""
    return Tails(
        np.max([one.share for one in tails], axis=0),
        np.min([one.dof for one in tails], axis=0),
        np.min([one.rest_dof for one in tails], axis=0),
    )


def _stack(parts: Sequence[Judged], name: str) -> Floats:
    return np.stack([getattr(part, name) for part in parts])


def _together(share: Floats, logs: Floats) -> Floats:
    """Return the log ratio of the mix: the parts' times add up, their speeds do not."""
    return np.asarray(-np.log((share * np.exp(-logs)).sum(axis=0)))


def _common(parts: Sequence[Judged]) -> list[Judged] | None:
    """Cut the parts to the loads and arms that all of them have."""
    lines = [dict(zip(part.loads, part.lines, strict=True)) for part in parts]
    loads = [x for x in parts[0].loads if all(own.get(x) == lines[0][x] for own in lines)]
    names = [{(c.family, c.k): at for at, c in enumerate(p.field.candidates)} for p in parts]
    arms = [name for name in names[0] if all(name in own for own in names)]
    if not loads or not arms:
        return None
    return [
        part.narrowed(loads, [own[name] for name in arms])
        for part, own in zip(parts, names, strict=True)
    ]
