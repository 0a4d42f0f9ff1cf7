"""What a search may measure, what a launch of it costs, and what was measured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

# --- The family of an arm that a search measures: what its launches share but K, as one text.
#
# It is the value of ``--speculative-config`` without K, as JSON. Where the server of an arm is started with
# other arguments than the baseline's, these stand there too, since such an arm is another one.


_SERVER = "server arguments"
#: What vLLM and others take a draft for whose method nobody names.
_USUAL = "draft_model"


def family_of(config: Mapping[str, Any], server: Sequence[str], usual: Sequence[str]) -> str:
    """Return the family of a config without K. ``server``: the command line without the config;
    ``usual``: the baseline's."""
    other = {} if list(server) == list(usual) else {_SERVER: list(server)}
    return json.dumps({**config, **other}, sort_keys=True)


def config_of(family: str) -> str:
    """Return the config without K of a family, as JSON."""
    return json.dumps({k: v for k, v in json.loads(family).items() if k != _SERVER}, sort_keys=True)


def method_of(family: str) -> str:
    return str(json.loads(family).get("method", _USUAL))


# --- What a search may measure, what a launch of it costs, and what was measured.


Floats = NDArray[np.float64]
#: The number of the baseline among the arms.
BASELINE = 0


@dataclass(frozen=True)
class SearchArm:
    """One candidate: ``family`` is its method and draft, ``k`` the tokens that it drafts. The
    baseline has no family and drafts 0."""

    label: str
    family: str
    k: int


@dataclass(frozen=True)
class SearchPlace:
    """Where a decision is due: one dataset at so many requests at once."""

    traffic: str
    load: float


@dataclass(frozen=True)
class Space:
    """What a search may measure. ``arms``: the baseline first; ``start_min``: minutes of a server
    start; ``cell_min`` (places,): minutes of a cell."""

    arms: tuple[SearchArm, ...]
    places: tuple[SearchPlace, ...]
    start_min: float
    cell_min: Floats

    @cached_property
    def at(self) -> dict[tuple[str, float], int]:
        """Dataset and load -> the number of the place."""
        return {(place.traffic, place.load): number for number, place in enumerate(self.places)}

    def minutes(self, places: NDArray[np.bool_]) -> float:
        """Return the minutes of one launch that measures these places."""
        return self.start_min + float(self.cell_min[places].sum())

    def grid_minutes(self, repeats: int) -> float:
        """Return the minutes of the full grid: every arm at every place, ``repeats`` times."""
        every = np.ones(len(self.places), dtype=np.bool_)
        return repeats * len(self.arms) * self.minutes(every)

    def families(self) -> dict[str, list[int]]:
        """Return family -> the numbers of its arms, by K; without the baseline."""
        found: dict[str, list[int]] = {}
        for number, arm in enumerate(self.arms):
            if number != BASELINE:
                found.setdefault(arm.family, []).append(number)
        return {name: sorted(at, key=lambda n: self.arms[n].k) for name, at in found.items()}


@dataclass(frozen=True)
class MeasuredLaunch:
    """One server start that was measured. ``speed`` (places,): logarithm of the objective, higher is
    better; NaN where this launch did not measure."""

    arm: int
    speed: Floats

    @property
    def measured(self) -> NDArray[np.bool_]:
        return np.isfinite(self.speed)


@dataclass(frozen=True)
class AcceptanceLengths:
    """The acceptance lengths of a search (arms, places): ``mean``, 1 for the baseline, and
    ``doubt``, the standard deviation by which the logarithm of each may be off."""

    mean: Floats
    doubt: Floats


@dataclass(frozen=True)
class SeenLaunches:
    """All that is known so far: ``launches`` in the order in which they were measured; ``out``:
    arms that may not be taken; ``closed``: arms that may be taken and cannot be measured again;
    ``barred`` (arms, places): what was measured and broke the SLO there, None without one; ``left``
    (arms,): how often each can still be measured, None for without end; ``lost_min``: minutes of what
    failed."""

    launches: tuple[MeasuredLaunch, ...]
    lengths: AcceptanceLengths
    out: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    barred: NDArray[np.bool_] | None = None
    left: tuple[int, ...] | None = None
    lost_min: float = 0.0

    @property
    def shut(self) -> NDArray[np.bool_]:
        """Whether an arm may not be taken at a place (arms, places)."""
        shape = self.lengths.mean.shape
        found = np.zeros(shape, dtype=np.bool_) if self.barred is None else self.barred.copy()
        found[sorted(self.out)] = True
        return found


@dataclass(frozen=True)
class Aim:
    """When a search is done: no other arm is better by more than ``stake`` (ratio) at any place, up to the
    chance ``error``, or ``budget_min`` minutes are spent."""

    stake: float
    error: float
    budget_min: float
