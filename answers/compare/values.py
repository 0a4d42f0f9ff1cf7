"""How arms compare, as values and as JSON: the Compare page and the command render these."""

from dataclasses import asdict, dataclass
from typing import Any

from analysis.evidence.words import Word
from analysis.matching.reference import BASELINE
from answers.decide.values import DecisionSubject, ExcludedCell
from warehouse.filters import Filters
from warehouse.loads import Load

#: metric, statistic
MetricLine = tuple[str, str]


@dataclass(frozen=True)
class CompareQuestion:
    """What is asked of a comparison. ``filters`` choose what is shown, and never what it stands on.
    ``allow``: fields in which pairs may differ; ``reference``: the arm that the others are compared
    with; ``also``: lines shown beside those of the study's table."""

    filters: Filters = Filters()
    allow: tuple[str, ...] = ()
    reference: str = BASELINE
    also: tuple[MetricLine, ...] = ()


@dataclass(frozen=True)
class RepeatSpan:
    """A mean over repeats (geometric), and the lowest and highest repeat."""

    mean: float | None
    low: float
    high: float


@dataclass(frozen=True)
class ArmChange:
    """One line of an arm at one load, beside the reference: ratios, positive is better.

    ``load`` is None where it is not known. ``compared`` is False where the line only says what was
    offered (throughput at a fixed rate that every arm keeps up with); then, and where neither
    direction is better, there is no ``improvement``. ``low`` and ``high`` are the plain 95 %
    interval, ``adjusted_*`` the study-adjusted one, None for one launch; ``word`` is None where
    nothing is judged. ``launches``: of the arm with fewer, ``repeats``: pairs. ``cells``: one of
    the reference and one of the arm.
    """

    load: Load | None
    metric: str
    statistic: str
    compared: bool
    reference: RepeatSpan
    arm: RepeatSpan
    improvement: float | None
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word | None
    launches: int
    repeats: int
    cells: tuple[str, str]

    @property
    def line(self) -> MetricLine:
        """The metric and statistic of this line."""
        return self.metric, self.statistic


@dataclass(frozen=True)
class GeometricMean:
    """A line of the study's table: geometric means over the loads that both arms have. Nobody runs
    at such a mean, so it has no word of certainty and carries no money. ``loads``: their names;
    ``only_*``: of loads that one arm alone has."""

    metric: str
    statistic: str
    reference: float | None
    arm: float | None
    improvement: float | None
    loads: tuple[str, ...]
    only_reference: tuple[str, ...]
    only_arm: tuple[str, ...]


@dataclass(frozen=True)
class PairDoubt:
    """What a flag says of pairs; ``loads``: names of those at which it was raised."""

    severity: str
    name: str
    sentence: str
    loads: tuple[str, ...]


@dataclass(frozen=True)
class CellPair:
    """Two cells that were compared; ``flags``: names of the doubts about them."""

    load: Load | None
    repeat: int | None
    reference_cell: str
    arm_cell: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class PairLine:
    """One line of one pair, unrounded."""

    setting: str
    arm: str
    pair: CellPair
    metric: str
    statistic: str
    reference: float
    value: float
    improvement: float | None
    allowed: tuple[str, ...]


@dataclass(frozen=True)
class ComparedArm:
    """One arm beside the reference. ``changes``: by load, lines in their order; ``allowed``: fields
    in which its pairs differ by permission; ``badges``: what a reader must know of its origin;
    ``launches_stated``: whether the server start of every cell is known."""

    name: str
    label: str
    badges: tuple[str, ...]
    changes: tuple[ArmChange, ...]
    means: tuple[GeometricMean, ...]
    pairs: tuple[CellPair, ...]
    allowed: tuple[str, ...]
    doubts: tuple[PairDoubt, ...]
    launches_stated: bool

    def at(self, load: Load | None, metric: str, statistic: str) -> ArmChange | None:
        """Return the line at a load; None where there is none."""
        wanted = (load, metric, statistic)
        return next((c for c in self.changes if (c.load, c.metric, c.statistic) == wanted), None)


@dataclass(frozen=True)
class ComparedSetting:
    """What the arms share: a dataset on one hardware with one engine. ``name`` is short and no other
    setting's."""

    name: str
    subject: DecisionSubject
    dataset: str | None
    arms: tuple[ComparedArm, ...]


@dataclass(frozen=True)
class UnmatchedCell:
    """A cell without a partner, and why. ``load``: its name, None for unknown."""

    cell: str
    arm: str | None
    dataset: str | None
    load: str | None
    model: str | None
    gpu: str | None
    path: str | None
    reason: str


@dataclass(frozen=True)
class ArmComparison:
    """All that the filters show. ``excluded``: cells that decide nothing, and why; ``why_none``:
    where no arm is compared, why."""

    settings: tuple[ComparedSetting, ...]
    unmatched: tuple[UnmatchedCell, ...]
    excluded: tuple[ExcludedCell, ...]
    reference: str
    why_none: str | None = None


# --- A comparison as JSON. Unknown is null.


SCHEMA_VERSION = 1


def as_json(found: ArmComparison) -> dict[str, Any]:
    """Return ``schema_version``, ``settings`` with their arms, ``unmatched`` and ``excluded``
    cells, as a dict for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "reference": found.reference,
        "settings": [
            {
                "name": setting.name,
                **asdict(setting.subject),
                "dataset": setting.dataset,
                "arms": [_arm(arm) for arm in setting.arms],
            }
            for setting in found.settings
        ],
        "unmatched": [asdict(cell) for cell in found.unmatched],
        "excluded": [asdict(cell) for cell in found.excluded],
        "why_none": found.why_none,
    }


def _arm(arm: ComparedArm) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "badges": list(arm.badges),
        "levels": [_change(change) for change in arm.changes],
        "means": [asdict(mean) for mean in arm.means],
        "pairs": [asdict(pair) | {"load": _load(pair.load)} for pair in arm.pairs],
        "allowed": list(arm.allowed),
        "flags": [asdict(doubt) for doubt in arm.doubts],
    }


def _change(change: ArmChange) -> dict[str, Any]:
    told = asdict(change)
    baseline, arm = told.pop("reference"), told.pop("arm")
    cells = dict(zip(("reference", "arm"), told.pop("cells"), strict=True))
    return told | {
        "load": _load(change.load),
        "reference": baseline["mean"],
        "arm": arm["mean"],
        "cells": cells,
    }


def _load(load: Load | None) -> dict[str, Any] | None:
    return None if load is None else load.as_json()
