"""A cell measured again beside its original, as values: the command and its JSON render these."""

from dataclasses import dataclass
from typing import Literal

from analysis.evidence.words import SETTLED, Word
from answers.compare.pair import Differs

Status = Literal["differs", "likely differs", "open", "repeats"]


@dataclass(frozen=True)
class Line:
    """One figure then and now: ``again`` is the geometric mean of the launches, ``lowest`` and
    ``highest`` theirs. ``improvement`` and its intervals are ratios, positive is better than the
    original; None where nothing repeats."""

    metric: str
    statistic: str
    original: float
    again: float
    lowest: float
    highest: float
    improvement: float
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word

    @property
    def settled(self) -> bool:
        """Whether the figure differs beyond chance, all figures that were compared taken
        together."""
        return self.word in SETTLED


@dataclass(frozen=True)
class Again:
    """What measuring a cell again has shown. ``launches``: of the repetition; ``siblings``: other
    repeats of the original, which tell how much launches scatter, and nothing else. ``differs``:
    settings, those of the original as the reference. ``outputs``: whether they answer the same;
    ``doubts``: what speaks against a figure of either."""

    cell: str
    status: Status
    headline: str
    launches: int
    siblings: int
    lines: tuple[Line, ...]
    differs: tuple[Differs, ...]
    outputs: tuple[str, ...]
    doubts: tuple[str, ...]
