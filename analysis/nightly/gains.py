"""What speculation gains over the baseline, night by night: a release that makes only the baseline
faster takes the gain away without making anything slower."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from analysis.matching.reference import BASELINE
from analysis.nightly.nights import Night, Series

_OF_THE_ARM = ("arm_label", "draft_model")


def gains(series: Sequence[Series]) -> Iterator[Series]:
    """Yield each arm's gain over the baseline of the same cells, in the nights that have both:
    logs, more is better, with the baseline's nights in ``over``."""
    known = {_cells(one): one for one in series if one.about.get("arm_label") == BASELINE}
    for one in series:
        base = known.get(_cells(one))
        if base is not None and base is not one:
            there = {night.label: night for night in base.nights}
            nights = [night for night in one.nights if night.label in there]
            over = [there[night.label] for night in nights]
            told = tuple(map(_gain, nights, over))
            yield replace(one, nights=told, over=replace(base, nights=tuple(over)))


def _cells(one: Series) -> tuple[Any, ...]:
    about = [pair for pair in sorted(one.about.items()) if pair[0] not in _OF_THE_ARM]
    return (*about, one.metric, one.statistic)


def _gain(arm: Night, base: Night) -> Night:
    """Return the difference of two nights as a night; a repeat of it has the noise of both."""
    repeats = min(arm.repeats, base.repeats)
    variance = repeats * (arm.variance / arm.repeats + base.variance / base.repeats)
    return replace(arm, mean=arm.mean - base.mean, variance=variance, repeats=repeats)
