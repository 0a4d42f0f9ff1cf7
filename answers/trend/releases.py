"""One release against another, in a sentence: what the newer one did to every series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.nightly import releases
from analysis.nightly.nights import Series
from analysis.nightly.releases import Released, against
from answers.trend import words
from answers.trend.read import Watched

Word = Literal["better", "worse", "no clear difference"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What the newer release did to one series: ratios, positive is better; None where nothing
    tells the noise."""

    series: Series
    word: Word
    improvement: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Release:
    """The series that know both releases, and what the newer did to them in a sentence."""

    effects: tuple[Effect, ...]
    headline: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The metric lines of which something is known."""
        known = (effect.series.line for effect in self.effects if effect.improvement is not None)
        return tuple(dict.fromkeys(known))

    def of(self, line: str) -> tuple[Effect, ...]:
        """Return what is known of one metric line, the worst first."""
        known = [
            (effect.improvement, effect)
            for effect in self.effects
            if effect.series.line == line and effect.improvement is not None
        ]
        return tuple(effect for _, effect in sorted(known, key=lambda one: one[0]))


def comparable(known: Watched) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each engine version, oldest first, with those that it can be held against."""
    return tuple(releases.comparable(known.series).items())


def release(series: Sequence[Series], before: str, after: str) -> Release:
    """Compare the release ``after`` with ``before``."""
    effects = tuple(
        Effect(one.series, _word(one), one.improvement, one.low, one.high)
        for one in against(series, before, after)
    )
    return Release(effects, _headline(effects, before, after))


def _word(one: Released) -> Word:
    if one.low is not None and one.low > 0:
        return "better"
    return "worse" if one.high is not None and one.high < 0 else "no clear difference"


def _headline(effects: Sequence[Effect], before: str, after: str) -> str:
    if not effects:
        return f"No series was measured with both {before} and {after}."
    said = [effect.word for effect in effects]
    return (
        f"{after} against {before}: {said.count('better')} better, {said.count('worse')} worse and "
        f"{said.count('no clear difference')} without a clear difference, of "
        f"{words.series(len(effects))}."
    )
