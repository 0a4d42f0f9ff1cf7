"""What a trend is read from: the nights of every series, and what was accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from analysis.matching.comparison import STUDY_TABLE
from analysis.nightly.acceptance import Acceptance
from analysis.nightly.nights import Series, of_many_nights, series_over_nights
from analysis.nightly.regressions import LEAST_NIGHTS
from answers.trend import read
from warehouse import annotations, queries
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


@dataclass(frozen=True, slots=True)
class Watched:
    """The series with enough nights to be judged; ``few``: how many settings have fewer;
    ``origins``: what was stated of where their runs come from, a sentence each."""

    series: tuple[Series, ...]
    few: int
    origins: tuple[str, ...] = ()


def series(reader: Reader, filters: Filters, since: datetime | None = None) -> list[Series]:
    """Read the series of every setting and line of the study's table, from the day ``since`` on."""
    cells = queries.cells(reader, filters).to_pandas()
    if since is not None:
        cells = cells[cells["started_at"] >= pd.Timestamp(since, tz="UTC")]
    return _series(reader, filters, cells)


def watched(reader: Reader, filters: Filters) -> Watched:
    """Read the series of the settings that have enough nights to be judged; no value of the others
    is read."""
    cells, few = of_many_nights(queries.cells(reader, filters).to_pandas(), LEAST_NIGHTS)
    if cells.empty:
        return Watched((), few)
    stated = queries.provenances(reader, cells["cell_id"].tolist())
    origins = tuple(stated.column("provenance").to_pylist())
    return Watched(tuple(_series(reader, filters, cells)), few, origins)


def _series(reader: Reader, filters: Filters, cells: pd.DataFrame) -> list[Series]:
    metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE, strict=True))
    values = queries.measurements(reader, filters, metrics, statistics).to_pandas()
    lines = pd.DataFrame(list(STUDY_TABLE), columns=["metric", "statistic"])
    return series_over_nights(cells, values.merge(lines, on=["metric", "statistic"]))


def accepted(root: Path) -> tuple[Acceptance, ...]:
    """Return the nights that people accepted, in the order in which they said so."""
    return tuple(
        Acceptance(
            night=str(event.target.night), why=event.text, by=event.author, at=event.at,
            study=event.target.study, series=event.target.series,
        )
        for event in annotations.accepted(root)
    )  # fmt: skip
