"""One setting as numbers: every arm at every load against the baseline, in one objective."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.evidence.launches import Tails
from warehouse.arms import Chooser, Entry, steps_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One arm: ``arm_id`` as ``Comparison`` numbers it; ``family``: its method and draft without K;
    ``k``: draft tokens, None where unknown or where they are not fixed: then ``chooser`` says who
    sets them, and ``table`` is their table by batch size, where it is one."""

    arm_id: int
    label: str
    family: str
    k: int | None
    chooser: Chooser | None = None
    table: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Field:
    """The arms of one setting and what was measured of each at each load. ``log`` (candidates,
    loads): log ratio of launch means, positive is better, NaN where not compared; ``launches``
    alike. ``variance`` (candidates, loads): of one launch's value, ``tails``: how well it is known;
    ``shared`` (candidates,): variance of a launch's mean over the loads. ``length`` (candidates,
    loads): mean acceptance length, NaN where unknown. Variances are NaN where nothing repeats."""

    candidates: tuple[Candidate, ...]
    log: Floats
    launches: Floats
    variance: Floats
    tails: Tails
    shared: Floats
    length: Floats

    @property
    def own_error(self) -> Floats:
        """The variance of each arm's own mean at each load, without that of the baseline's mean."""
        return self.variance / np.maximum(self.launches, 1)

    def has_measured(self, table: tuple[Entry, ...]) -> bool:
        """Whether a candidate drafted by this table of K."""
        steps = steps_of(table)
        return len(steps) > 1 and any(steps_of(one.table) == steps for one in self.candidates)

    def families(self) -> dict[str, list[int]]:
        """Return family -> the places of its candidates, by K."""
        found: dict[str, list[int]] = {}
        for place, one in enumerate(self.candidates):
            found.setdefault(one.family, []).append(place)
        return {name: sorted(at, key=lambda p: self.candidates[p].k or 0)
                for name, at in found.items()}  # fmt: skip
