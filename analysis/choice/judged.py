"""One kind of traffic judged: every arm at every load, what is expected, what to take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.choice.expected import Candidate, Field, Floats
from analysis.choice.pick import Grounds, Server
from analysis.evidence.effects import LEVEL, as_improvement
from analysis.evidence.launches import Tails
from analysis.evidence.words import GAIN, LIKELY, LIKELY_GAIN, OPEN, SETTLED, words
from warehouse.loads import Load

#: metric, statistic
Line = tuple[str, str]


#: A server as one row: what it is called, and which arm it is at each load.
Row = tuple[Candidate, Server]
#: Where an arm is better by more than this (ratio) at another load, it is named there.
WORTH_NAMING = 0.02


@dataclass(frozen=True)
class Judged:
    """What is known of every arm at every load of one kind of traffic. ``lines``: the metric and
    statistic that judge each load, ``lower`` whether lower is better in it. ``error`` (candidates,
    loads): standard error of ``field.log``; ``rate``: error rate of its study-adjusted interval.
    ``independent``: whether launches were stated. ``price``: what a token takes of the baseline's
    time at each load (s), NaN where that is unknown. ``allowed``: what meets the SLO, ``baseline``
    (loads,) whether the baseline does. ``gains``: expected log ratios. ``barred``: the places of arms
    that may not be taken, whatever their speed; ``off`` (candidates,): whether an arm's server with
    its drafts switched off is the baseline's; ``by_batch``: whether the engine takes a table of K."""

    loads: tuple[Load, ...]
    lines: tuple[Line, ...]
    lower: NDArray[np.bool_]
    field: Field
    error: Floats
    rate: Floats
    independent: bool
    price: Floats
    allowed: NDArray[np.bool_]
    baseline: NDArray[np.bool_]
    gains: Floats
    barred: frozenset[int] = frozenset()
    off: NDArray[np.bool_] | None = None
    by_batch: bool = True

    @cached_property
    def words(self) -> NDArray[np.object_]:
        """The word of certainty, one of five, for each candidate and load."""
        low, high = self.adjusted
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.asarray(self.field.log / self.error)
        probability = self.field.tails.above(-t)
        certain = words(low, high, probability, np.full(low.shape, self.independent))
        return np.where(np.isfinite(self.field.log), certain, OPEN)

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

    def _improved(self, log: Floats) -> Floats:
        return as_improvement(log, np.broadcast_to(self.lower, log.shape))

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Whether each arm was measured at each load."""
        return np.isfinite(self.gains)

    @cached_property
    def grounds(self) -> Grounds:
        """What a choice among the arms stands on."""
        may = np.array([at not in self.barred for at in range(len(self.gains))], dtype=np.bool_)
        batches = tuple(
            int(x.value) if self.by_batch and x.kind == "concurrency" and x.value else None
            for x in self.loads
        )
        settled = np.isin(self.words.astype(str), list(SETTLED))
        return Grounds(
            self.field,
            self.gains,
            self.allowed & may[:, None],
            self.baseline,
            settled,
            batches,
            np.ones(len(self.gains), dtype=np.bool_) if self.off is None else self.off,
        )

    def best_at(self, load: int) -> int:
        """Return the place of the arm with the highest expected value at a load, one that may be
        taken there first."""
        gains = np.where(self.there[:, load], self.gains[:, load], -np.inf)
        may = self.grounds.open_to[:, load] & self.there[:, load]
        return int(max(range(len(gains)), key=lambda place: (may[place], gains[place])))

    def better(self, server: Server, load: int) -> int | None:
        """Return the place of the arm that is better than what the server does at a load, by more
        than WORTH_NAMING expected and at least likely; the best of several, None without one."""
        mine = server.at[load]
        open_to = self.grounds.open_to[:, load] & self.there[:, load]
        for place in sorted(np.flatnonzero(open_to), key=lambda p: -self.gains[p, load]):
            ahead = self.gains[place, load]
            if mine is None or not self.there[mine, load]:
                likely = self.words[place, load] in (GAIN, LIKELY_GAIN)
            else:
                ahead = ahead - self.gains[mine, load]
                likely = place != mine and self.chance(int(place), mine, load) >= LIKELY
            if place != mine and likely and np.expm1(ahead) > WORTH_NAMING:
                return int(place)
        return None

    def chance(self, place: int, other: int, load: int) -> float:
        """Return the probability (0-1) that one arm is better than another at a load; NaN where
        nothing repeats."""
        error = np.sqrt(self.field.own_error[[place, other], load].sum())
        ahead = self.gains[place, load] - self.gains[other, load]
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.asarray([-ahead / error])
        return float(self.field.tails.at(([place], [load])).above(t)[0])

    def yielding(self, family: str, lengths: Sequence[float]) -> "Judged":
        """Return the judgement where a step of a family's arms yields ``lengths`` tokens with K = 1, 2, …
        and takes as long as it was measured to. Of all other arms nothing is known there, and none may be
        taken. First tokens stay as they are."""
        ks = [one.k or 0 if one.family == family else 0 for one in self.field.candidates]
        now = np.array([lengths[k - 1] if 0 < k <= len(lengths) else np.nan for k in ks])
        shift = np.log(now[:, None] / self.field.length)
        first = np.array([metric == "ttft" for metric, _ in self.lines], dtype=np.bool_)
        moved = np.where(first | ~np.isfinite(shift), 0.0, shift)
        return replace(
            self, field=replace(self.field, log=self.field.log + moved), gains=self.gains + moved,
            allowed=self.allowed & np.isfinite(shift),
        )  # fmt: skip

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
            price=self.price[columns], allowed=self.allowed[grid], baseline=self.baseline[columns],
            gains=self.gains[grid],
            barred=frozenset(at for at, place in enumerate(arms) if place in self.barred),
            off=None if self.off is None else self.off[list(arms)],
        )  # fmt: skip

    def over(self, load: Load, shares: dict[int, float], rows: Sequence[Row]) -> "Judged":
        """Return the judgement of traffic over several loads as one load.

        ``shares``: the place of each load -> its share of the output tokens (sum 1); ``rows``: the
        servers that were measured at each of them. The times of a token add up, as in ``mixed``.
        """
        columns = list(shares)
        price = np.where(np.isfinite(self.price[columns]).all(), self.price[columns], 1.0)
        share = np.array(list(shares.values())) * price
        share = share / share.sum()

        def each(values: Floats, off: float = 0.0) -> Floats:
            return np.array(
                [[off if row.at[x] is None else values[row.at[x], x] for x in columns] for _, row in rows]
            )  # fmt: skip

        log, gains = (
            -np.log((share * np.exp(-each(x))).sum(axis=1)) for x in (self.field.log, self.gains)
        )
        times = share * np.exp(-each(self.field.log))
        influence = times / times.sum(axis=1, keepdims=True)
        tails = self.field.tails
        column = Field(
            tuple(candidate for candidate, _ in rows), log[:, None],
            each(self.field.launches, np.inf).min(axis=1)[:, None],
            ((influence * np.sqrt(each(self.field.variance))).sum(axis=1) ** 2)[:, None],
            Tails(each(tails.share).max(axis=1)[:, None], each(tails.dof, np.inf).min(axis=1)[:, None],
                  each(tails.rest_dof, np.inf).min(axis=1)[:, None]),
            np.zeros(len(rows)), np.full((len(rows), 1), np.nan),
        )  # fmt: skip
        return replace(
            self, loads=(load,), lines=(self.lines[columns[0]],), lower=self.lower[columns[:1]],
            field=column, error=(influence * each(self.error)).sum(axis=1)[:, None],
            rate=each(self.rate, 1.0).min(axis=1)[:, None], price=np.ones(1),
            allowed=np.all(each(self.grounds.open_to.astype(float), 1.0) > 0, axis=1, keepdims=True),
            baseline=np.array([bool(self.baseline[columns].all())]), gains=gains[:, None], barred=frozenset(),
            off=None,
        )  # fmt: skip


def mixed(parts: Sequence[Judged], weights: Sequence[float]) -> Judged | None:
    """Judge the traffic that holds each part by its weight (shares of output tokens, sum 1).

    It has the loads and arms that all parts have, judged by the same metric. The time of a token in
    the mix is the mean of the parts' times, so each part counts by its weight and by the baseline's
    time; where that is unknown, by its weight. Errors of the parts are added as if they erred
    together, since they share launches, so an interval is never too narrow. None where nothing is
    common.
    """
    lines = [dict(zip(part.loads, part.lines, strict=True)) for part in parts]
    loads = [x for x in parts[0].loads if all(own.get(x) == lines[0][x] for own in lines)]
    names = [{(c.family, c.k): at for at, c in enumerate(p.field.candidates)} for p in parts]
    arms = [name for name in names[0] if all(name in own for own in names)]
    if not loads or not arms:
        return None
    shared = [
        part.narrowed(loads, [own[name] for name in arms])
        for part, own in zip(parts, names, strict=True)
    ]
    prices = np.stack([part.price for part in shared])
    # Where one part's price is unknown at a load, all parts count there by their weights alone.
    prices = np.where(np.isfinite(prices).all(axis=0), prices, 1.0)
    share = np.array(weights)[:, None] * prices
    share = (share / share.sum(axis=0))[:, None, :]
    # The parts' times add up, their speeds do not.
    log, gains = (
        np.asarray(-np.log((share * np.exp(-np.stack(logs))).sum(axis=0)))
        for logs in ([p.field.log for p in shared], [p.gains for p in shared])
    )
    times = share * np.exp(-np.stack([p.field.log for p in shared]))
    influence = times / times.sum(axis=0)
    fields = [part.field for part in shared]
    tails = [each.tails for each in fields]
    field = Field(
        fields[0].candidates, log,
        np.min([f.launches for f in fields], axis=0),
        ((influence * np.sqrt(np.stack([f.variance for f in fields]))).sum(axis=0)) ** 2,
        # At each place that of the part which is known with the fewest degrees of freedom.
        Tails(np.max([t.share for t in tails], axis=0), np.min([t.dof for t in tails], axis=0),
              np.min([t.rest_dof for t in tails], axis=0)),
        np.mean([f.shared for f in fields], axis=0),
        np.full(log.shape, np.nan),
    )  # fmt: skip
    offs = [part.off for part in shared if part.off is not None]
    return replace(
        shared[0], off=np.all(offs, axis=0) if offs else None,
        barred=frozenset().union(*(part.barred for part in shared)), field=field, error=(influence * np.stack([part.error for part in shared])).sum(axis=0),
        rate=np.min([part.rate for part in shared], axis=0), independent=all(part.independent for part in shared),
        price=prices.mean(axis=0), gains=gains,
        allowed=np.all([part.allowed for part in shared], axis=0),
        baseline=np.all([part.baseline for part in shared], axis=0),
    )  # fmt: skip
