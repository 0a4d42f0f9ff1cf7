"""One release against another: all nights of each engine version held against each other."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.nightly.nights import Night, Series


def comparable(series: Iterable[Series]) -> dict[str, tuple[str, ...]]:
    """Engine version -> the versions that some series was measured with as well.

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


def against(series: Iterable[Series], before: str, after: str) -> list[Series]:
    """The series that know both versions, each with two points: all nights of either version.

    ``regressions.assess`` then judges them as it judges two nights. Several nights of a version
    count as its repeats, because nights scatter more than the repeats within one.
    """
    both = ((one, _pooled(one, before), _pooled(one, after)) for one in series)
    return [
        replace(one, nights=(old, new))
        for one, old, new in both
        if old is not None and new is not None
    ]


def _pooled(one: Series, version: str) -> Night | None:
    nights = [night for night in one.nights if _version(night) == version]
    if len(nights) < 2:
        return replace(nights[0], label=version) if nights else None
    means = np.array([night.mean for night in nights])
    return replace(
        nights[0], label=version, mean=float(means.mean()), variance=float(means.var(ddof=1)),
        repeats=len(nights),
    )  # fmt: skip


def _versions(one: Series) -> dict[str, Any]:
    """Version -> when it was first measured."""
    found: dict[str, Any] = {}
    for night in one.nights:
        version = _version(night)
        if version is not None:
            found.setdefault(version, night.at)
    return found


def _version(night: Night) -> str | None:
    known: Any = night.cell.get("engine_version")
    return str(known) if known else None
