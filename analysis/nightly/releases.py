"""One release against another: all nights of each engine version held against each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.nightly.levels import Levels, levels
from analysis.nightly.nights import Night, Series, as_improvement
from analysis.nightly.standing import compare


@dataclass(frozen=True, slots=True)
class Released:
    """What the newer release did to one series (ratios, positive is better), with its 95 % interval;
    None where both have one night each, which tells no noise."""

    series: Series
    improvement: float | None
    low: float | None
    high: float | None


def comparable(series: Iterable[Series]) -> dict[str, tuple[str, ...]]:
    """Return engine version -> the versions that some series was measured with as well.

    Both in the order in which they were first measured; versions without a partner are left out.
    """
    known = [_versions(one) for one in series]
    first: dict[str, Any] = {}
    for own in known:
        for version, at in own.items():
            first[version] = min(first.get(version, at), at)
    order = sorted(first, key=lambda version: first[version])
    partners = {
        version: tuple(
            other
            for other in order
            if other != version and any({version, other} <= own.keys() for own in known)
        )
        for version in order
    }
    return {version: others for version, others in partners.items() if others}


def against(series: Iterable[Series], before: str, after: str) -> list[Released]:
    """Compare the nights of two versions, for each series that knows both.

    The night is the unit of noise here as well.
    """
    both = ((one, _of(one, before), _of(one, after)) for one in series)
    return [_released(one, old, new) for one, old, new in both if old and new]


def _released(one: Series, old: tuple[Night, ...], new: tuple[Night, ...]) -> Released:
    every = levels((*old, *new))
    # Each version counts as one level, however the series moved within it.
    known = Levels(every.means, (0, len(old)), every.repeats)
    step = compare(known, (0, len(old)), (len(old), len(old) + len(new)))
    if step is None:
        return Released(one, None, None, None)
    middle, low, high = (as_improvement(x, one.metric) for x in (step.gain, step.low, step.high))
    return Released(one, middle, low, high)


def _of(one: Series, version: str) -> tuple[Night, ...]:
    return tuple(night for night in one.nights if _version(night) == version)


def _versions(one: Series) -> dict[str, Any]:
    """Return version -> when it was first measured."""
    found: dict[str, Any] = {}
    for night in one.nights:
        version = _version(night)
        if version is not None:
            found.setdefault(version, night.at)
    return found


def _version(night: Night) -> str | None:
    known: Any = night.cell.get("engine_version")
    return str(known) if known else None
