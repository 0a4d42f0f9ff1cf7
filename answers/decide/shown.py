"""A judged setting and its choice as the values that every face shows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.choice.field import Candidate
from analysis.choice.judged import Judged
from analysis.choice.operating import Choice
from analysis.choice.pick import OFF
from analysis.evidence.words import OPEN
from answers.decide.rates import Source, Speeds, together
from answers.decide.values import Cell, Difference, KKind, Level, Rates, Served
from warehouse.loads import Load

#: Setting, arm_id and load -> cell ids of the baseline and of the arm.
Pairs = dict[tuple[int, int, Load], list[tuple[str, str]]]


def k_kind(one: Candidate) -> KKind:
    """Return who says how many tokens an arm drafts."""
    if one.chooser is not None:
        return "engine"
    return "unknown" if one.k is None else "fixed"


@dataclass(frozen=True)
class Shown:
    """A judged setting with the choice made there, as values. ``settings``: those behind it;
    ``sources``: where each candidate's speeds are found."""

    choice: Choice
    settings: tuple[int, ...]
    pairs: Pairs
    speeds: Speeds
    sources: tuple[tuple[Source, ...], ...]

    @property
    def judged(self) -> Judged:
        """The arms at all loads of one kind."""
        return self.choice.judged

    def label(self, place: int) -> str:
        """Return the name of an arm."""
        return self.judged.field.candidates[place].label

    def difference(self, place: int, load: int) -> Difference:
        """Return the difference of one candidate at one load."""
        return difference(self.judged, place, load)

    def levels(self) -> tuple[Level, ...]:
        """Return the load map."""
        return tuple(self._level(at) for at in range(len(self.judged.loads))
                     if self.judged.there[:, at].any())  # fmt: skip

    def _level(self, at: int) -> Level:
        mine, other = self.choice.server.at[at], self.choice.other[at]
        own = self._of(mine if mine is not None else self.best_at(at), at)
        if mine is None:
            own = replace(own, num_speculative_tokens=OFF, k_kind="fixed")
        if other is None:
            return own
        named = self._of(other, at)
        told = None if mine is None else own.difference
        launches = 0 if mine is None else own.launches
        served = Served(own.num_speculative_tokens, self._name(mine), told, launches, own.k_kind)
        return replace(named, served=served)

    def _name(self, place: int | None) -> str | None:
        return None if place is None else self.label(place)

    def best_at(self, at: int) -> int:
        """Return the arm of the highest expected value at a load; at the load that is spoken about
        the one that is told of."""
        if at == self.choice.figures and not self.choice.spot.beside:
            return self.choice.best
        return self.judged.best_at(at)

    def _of(self, place: int, at: int) -> Level:
        one = self.judged.field.candidates[place]
        return Level(
            self.judged.loads[at], one.k, one.label, self.difference(place, at),
            int(self.judged.field.launches[place, at]) if self.judged.there[place, at] else 0,
            self.speeds.of(self.sources[place], self.judged.loads[at]), k_kind(one),
        )  # fmt: skip

    def operating(self) -> Level:
        """Return the level of the load that is spoken about; where it was not measured, with the
        figures of the worse of its neighbours."""
        choice = self.choice
        if choice.column is not None:
            return self._over()
        if not choice.spot.beside:
            return next(x for x in self.levels() if x.load == self.judged.loads[choice.figures])
        drafts = choice.server.arm is not None
        told = self._of(choice.best, choice.figures)
        return replace(
            told, load=choice.spot.load, stands_for=told.load,
            num_speculative_tokens=told.num_speculative_tokens if drafts else OFF,
            k_kind=told.k_kind if drafts else "fixed",
        )  # fmt: skip

    def _over(self) -> Level:
        """Return the level of traffic over several loads."""
        column, row = self.choice.column, self.choice.row
        assert column is not None
        one, drafts = column.field.candidates[row], self.choice.server.arm is not None
        return Level(
            self.choice.spot.load, one.k if drafts else OFF, one.label, difference(column, row, 0),
            int(column.field.launches[row, 0]), self._rates_over(), k_kind(one) if drafts else "fixed",
        )  # fmt: skip

    def _rates_over(self) -> Rates:
        parts = []
        for at, share in self.choice.spot.shares:
            place = self.choice.server.at[at]
            known = self.speeds.of(
                self.sources[self.choice.best if place is None else place], self.judged.loads[at]
            )
            if place is None:
                known = replace(known, output=known.baseline_output, total=known.baseline_total)
            parts.append((share, known))
        return together(parts)

    def cells(self) -> Iterator[Cell]:
        """Yield every arm at every load."""
        for place, one in enumerate(self.judged.field.candidates):
            for at, load in enumerate(self.judged.loads):
                if self.judged.there[place, at]:
                    yield Cell(
                        load, one.label, one.family, one.k, self.difference(place, at),
                        self.choice.server.at[at] == place,
                        int(self.judged.field.launches[place, at]),
                        tuple(self._met(one.arm_id, load)),
                        self.speeds.of(self.sources[place], load), place in self.judged.barred,
                    )  # fmt: skip

    def _met(self, arm_id: int, load: Load) -> Iterator[tuple[str, str]]:
        for setting in self.settings:
            yield from self.pairs.get((setting, arm_id, load), ())

    def drafts_at(self) -> Iterator[tuple[Load, int]]:
        """Yield each load at which the server drafts and was measured, with the arm_id that it is
        there."""
        for at, place in enumerate(self.choice.server.at):
            if place is not None and self.judged.there[place, at]:
                yield self.judged.loads[at], self.judged.field.candidates[place].arm_id


def difference(judged: Judged, place: int, load: int) -> Difference:
    """Return the difference of one candidate at one load; without figures where it was not
    measured."""
    metric, statistic = judged.lines[load]
    if not judged.there[place, load]:
        return Difference(metric, statistic, OPEN, None, None, None, None, None)
    return Difference(
        metric, statistic, judged.words[place, load],
        *(number(x[place, load]) for x in (judged.expected, *judged.plain, *judged.adjusted)),
    )  # fmt: skip


def number(value: float) -> float | None:
    """Return the value; None where it is not known."""
    return float(value) if np.isfinite(value) else None
