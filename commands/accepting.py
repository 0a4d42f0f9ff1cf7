"""Writing down that a night is accepted as the reference of some series."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from commands.annotating import author_or_unknown

if TYPE_CHECKING:
    from analysis.nightly.nights import Series


@dataclass(frozen=True)
class Meant:
    """A night (``2026-11-21``; None: the last) of a study, of series with some parts in their name;
    None: of all."""

    night: str | None = None
    study: str | None = None
    series: str | None = None


def accept_night(warehouse: Path | None, what: Meant, why: str, author: str | None = None) -> str:
    """Accept a night and say for how many series it is.

    Raises UnknownKey where no series is meant, or none has that night.
    """
    from answers.trend import read
    from warehouse import annotations
    from warehouse.filters import Filters
    from warehouse.store import Reader, warehouse_path

    root = warehouse_path(warehouse)
    with Reader(root) as reader:
        every = read.series(reader, Filters())
    meant = _meant(every, what)
    day = _night(meant, what.night)
    target = annotations.night(day, what.study, what.series)
    event = annotations.annotation("accept", target, why, author_or_unknown(author))
    annotations.add(root, event)
    return f"Accepted: {target.name}, for {len(meant):,} of {len(every):,} series."


def _meant(every: "Sequence[Series]", what: Meant) -> "list[Series]":
    from datetime import UTC, datetime

    from analysis.nightly.acceptance import Acceptance
    from warehouse.errors import UnknownKey

    asked = Acceptance("", "", "", datetime.now(UTC), what.study, what.series)
    meant = [one for one in every if asked.holds(one)]
    if not meant:
        example = f'; a series has these parts: "{", ".join(every[0].words)}"' if every else ""
        raise UnknownKey(
            f"No series of {what.study or 'any study'} has the parts {what.series!r}{example}."
        )
    return meant


def _night(meant: "Sequence[Series]", asked: str | None) -> str:
    from warehouse.errors import UnknownKey

    days = sorted({night.day for one in meant for night in one.nights})
    if asked is not None and asked not in days:
        raise UnknownKey(
            f"None of these {len(meant):,} series has the night {asked}; the last is {days[-1]}."
        )
    return asked or days[-1]
