"""A judged setting and its pick as the values that every face shows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.choice.field import Candidate
from analysis.choice.judged import Judged
from analysis.choice.pick import OFF, Pick
from answers.decide.rates import Source, Speeds
from answers.decide.values import Cell, Difference, KKind, Level
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
    """A judged setting with its pick, as values. ``settings``: those behind it; ``sources``: where
    each candidate's speeds are found."""

    judged: Judged
    picked: Pick
    settings: tuple[int, ...]
    pairs: Pairs
    speeds: Speeds
    sources: tuple[tuple[Source, ...], ...]

    def difference(self, place: int, load: int) -> Difference:
        """Return the difference of one candidate at one load."""
        judged = self.judged
        metric, statistic = judged.lines[load]
        return Difference(
            metric, statistic, judged.words[place, load],
            *(number(x[place, load]) for x in (
                judged.expected, *judged.plain, *judged.adjusted)),
        )  # fmt: skip

    def place_at(self, load: int) -> int:
        """Return the place of the candidate shown at a load: the one taken, or the best
        elsewhere."""
        place = self.picked.at[load]
        return self.picked.fixed if place is None else place

    def levels(self) -> tuple[Level, ...]:
        """Return the load map."""
        return tuple(
            Level(
                load, self._k(at), self.judged.field.candidates[self.place_at(at)].label,
                self.difference(self.place_at(at), at),
                int(self.judged.field.launches[self.place_at(at), at]),
                self.speeds.of(self.sources[self.place_at(at)], load), self._k_kind(at),
            )
            for at, load in enumerate(self.judged.loads)
            if np.isfinite(self.judged.field.log[self.place_at(at), at])
        )  # fmt: skip

    def _k(self, load: int) -> int | None:
        place = self.picked.at[load]
        return OFF if place is None else self.judged.field.candidates[place].k

    def _k_kind(self, load: int) -> KKind:
        place = self.picked.at[load]
        return "fixed" if place is None else k_kind(self.judged.field.candidates[place])

    def cells(self) -> Iterator[Cell]:
        """Yield every arm at every load."""
        for place, one in enumerate(self.judged.field.candidates):
            for at, load in enumerate(self.judged.loads):
                if np.isfinite(self.judged.field.log[place, at]):
                    yield Cell(
                        load, one.label, one.family, one.k, self.difference(place, at),
                        self.picked.at[at] == place, int(self.judged.field.launches[place, at]),
                        tuple(self._met(one.arm_id, load)),
                        self.speeds.of(self.sources[place], load),
                    )  # fmt: skip

    def _met(self, arm_id: int, load: Load) -> Iterator[tuple[str, str]]:
        for setting in self.settings:
            yield from self.pairs.get((setting, arm_id, load), ())

    def taken_at(self) -> Iterator[tuple[Load, int]]:
        """Yield each load with the arm_id that is shown there."""
        for at, load in enumerate(self.judged.loads):
            yield load, self.judged.field.candidates[self.place_at(at)].arm_id


def number(value: float) -> float | None:
    """Return the value; None where it is not known."""
    return float(value) if np.isfinite(value) else None
