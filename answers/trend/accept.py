"""Accepting a night as the reference of some series, as an event that everybody sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from analysis.nightly.acceptance import Acceptance
from analysis.nightly.nights import Series
from answers.trend import read
from warehouse import annotations
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.store import Reader


@dataclass(frozen=True, slots=True)
class Meant:
    """A night (``2026-11-21``; None: the last) of a study, of series with some parts in their name;
    None: of all."""

    night: str | None = None
    study: str | None = None
    series: str | None = None


def accept(reader: Reader, what: Meant, why: str, author: str) -> str:
    """Write down that a night is accepted, and say for how many series it is.

    Raises UnknownKey where no series is meant or none has that night, InvalidInput for a reason
    that may not be.
    """
    every = read.series(reader, Filters())
    meant = _meant(every, what)
    target = annotations.night(_night(meant, what.night), what.study, what.series)
    annotations.add(reader.root, annotations.annotation("accept", target, why, author))
    return f"Accepted: {target.name}, for {len(meant):,} of {len(every):,} series."


def _meant(every: Sequence[Series], what: Meant) -> list[Series]:
    asked = Acceptance("", "", "", datetime.now(UTC), what.study, what.series)
    meant = [one for one in every if asked.holds(one)]
    if not meant:
        example = f'; a series has these parts: "{", ".join(every[0].words)}"' if every else ""
        raise UnknownKey(
            f"No series of {what.study or 'any study'} has the parts {what.series!r}{example}."
        )
    return meant


def _night(meant: Sequence[Series], asked: str | None) -> str:
    days = sorted({night.day for one in meant for night in one.nights})
    if asked is not None and asked not in days:
        raise UnknownKey(
            f"None of these {len(meant):,} series has the night {asked}; the last is {days[-1]}."
        )
    return asked or days[-1]
