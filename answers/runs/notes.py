"""What people said of runs and nights: which notes, exclusions and acceptances are about a view.

Readers given here see the excluded runs too (``Reader(root, everything=True)``).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from analysis.nightly.nights import NOON
from warehouse import annotations, queries
from warehouse.annotations import Annotation, AnnotationTarget
from warehouse.filters import Filters
from warehouse.store import Reader

UNKNOWN_NIGHT = "unknown"
_WORDS = {
    "note": "noted", "exclude": "excluded", "include": "taken back", "accept": "accepted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """An annotation and a night that it is about (``2026-11-21``; ``unknown`` for a run without a
    start)."""

    night: str
    event: Annotation

    @property
    def about(self) -> str:
        """What was annotated: the run, the series or the night."""
        target = self.event.target
        return target.run_id or target.series or "the night"

    @property
    def said(self) -> str:
        """What the author did: ``noted``, ``excluded`` …"""
        return _WORDS[self.event.action]

    @property
    def text(self) -> str:
        """The words that the author wrote."""
        return self.event.text

    @property
    def by(self) -> str:
        """The author."""
        return self.event.author

    @property
    def written(self) -> str:
        """When the annotation was written, UTC."""
        return f"{self.event.at:%Y-%m-%d %H:%M}"


def line(event: Annotation) -> str:
    """Return an annotation as a line: ``2026-11-21 22:05 UTC, Ann noted: driver updated``."""
    return f"{event.at:%Y-%m-%d %H:%M} UTC, {event.author} {_WORDS[event.action]}: {event.text}"


def about(event: Annotation) -> str:
    """Return an annotation as a line that names its run or night: ``2026-11-21 22:05 UTC, Ann noted
    on night 2026-11-21: driver updated``."""
    what = f"{_WORDS[event.action]} on" if event.action == "note" else _WORDS[event.action]
    return f"{event.at:%Y-%m-%d %H:%M} UTC, {event.author} {what} {event.target.name}: {event.text}"


def exclusion(event: Annotation) -> str:
    """Say that a run is excluded, why, by whom and since when."""
    return (
        f"Excluded by name: {event.text.rstrip('.')} ({event.author}, "
        f"{event.at:%Y-%m-%d %H:%M} UTC). No comparison, trend or gate counts this run."
    )


def newest_first(found: Iterable[Placed]) -> tuple[Placed, ...]:
    """Sort by night, then by when it was written, the newest first."""
    return tuple(sorted(found, key=lambda one: (one.night, one.event.at), reverse=True))


def by_night(found: Iterable[Placed]) -> tuple[tuple[str, str], ...]:
    """Return each night with all that was said of it and of its runs, in one line."""
    texts: dict[str, list[str]] = {}
    for one in found:
        texts.setdefault(one.night, []).append(_said(one.event))
    return tuple((name, "; ".join(dict.fromkeys(said))) for name, said in texts.items())


def _said(event: Annotation) -> str:
    if event.action == "note":
        return event.text
    return f"{_WORDS[event.action]} {event.target.name}: {event.text}"


def night_of(started: datetime | None) -> str:
    """Return the night in which a start lies, noon to noon UTC, by the day on which it began."""
    return UNKNOWN_NIGHT if started is None else f"{started - NOON:%Y-%m-%d}"


def of_run(
    reader: Reader, target: AnnotationTarget, night: str, study: str | None
) -> tuple[Annotation, ...]:
    """Return everything that was ever said of a run, and the notes on its ``night``, oldest
    first."""
    return tuple(
        event
        for event in annotations.read(reader.root)
        if event.target == target or (event.target.night == night and _is_of(event, {study}))
    )


def of_series(
    reader: Reader, filters: Filters, about: tuple[tuple[str, object], ...], noted: str
) -> tuple[Placed, ...]:
    """Return the notes on the nights of a series and on its runs, and the exclusions of its runs.

    ``about``: what makes it this series; ``noted``: the version of what people said, for caches.
    """
    if not noted:
        return ()
    cells = queries.cells(reader, filters).to_pandas()
    for name, value in about:
        cells = cells[cells[name].isna() if value is None else cells[name] == value]
    return _of(reader, cells)


def of_night(reader: Reader, night: str, study: str, noted: str) -> tuple[Placed, ...]:
    """Return the notes on one night (``2026-11-21``) of a study and on its runs, and the exclusions
    of its runs; a night that measured nothing can be noted on as well. ``noted``: as above."""
    if not noted:
        return ()
    of_itself = [
        Placed(night, event)
        for event in annotations.read(reader.root)
        if event.target.night == night and _is_of(event, {study})
    ]
    of_runs = [
        one
        for one in of_view(reader, Filters(study=(study,)), noted)
        if one.night == night and one.event.target.night is None
    ]
    return (*of_itself, *of_runs)


def of_view(reader: Reader, filters: Filters, noted: str) -> tuple[Placed, ...]:
    """Return the notes on nights and runs, and the exclusions, of all cells that the filters keep
    or would keep. ``noted``: as above."""
    if not noted:
        return ()
    return _of(reader, queries.cells(reader, filters).to_pandas())


def _of(reader: Reader, cells: pd.DataFrame) -> tuple[Placed, ...]:
    excluded = annotations.excluded_runs(reader.root)
    events = [
        event
        for event in annotations.read(reader.root)
        if event.action in ("note", "accept") or excluded.get(event.target) is event
    ]
    nights = sorted({*_nights_of(cells["started_at"])} - {UNKNOWN_NIGHT})
    runs = _nights_of_runs(cells, {event.target for event in events})
    studies = {study if isinstance(study, str) else None for study in cells["study"].unique()}
    return tuple(
        Placed(night, event)
        for event in events
        for night in (
            runs.get(event.target, ())
            if event.target.night is None
            else _within(event, nights, studies)
        )
    )


def _nights_of(starts: pd.Series) -> pd.Series:
    """Return the night in which each start lies, noon to noon UTC, by the day on which it began."""
    days = (pd.to_datetime(starts, utc=True) - NOON).dt.strftime("%Y-%m-%d")
    return days.fillna(UNKNOWN_NIGHT)


def _within(
    event: Annotation, nights: Sequence[str], studies: Collection[str | None]
) -> tuple[str, ...]:
    """Return the night of a note if it lies among ``nights`` (sorted) and is of one of
    ``studies``."""
    night = str(event.target.night)
    among = bool(nights) and nights[0] <= night <= nights[-1]
    return (night,) if among and _is_of(event, studies) else ()


def _is_of(event: Annotation, studies: Collection[str | None]) -> bool:
    return event.target.study is None or event.target.study in studies


def _nights_of_runs(
    cells: pd.DataFrame, wanted: set[AnnotationTarget]
) -> dict[AnnotationTarget, list[str]]:
    """Return each wanted run with the nights in which its cells started."""
    mine = cells[cells["run_id"].isin([target.run_id for target in wanted])]
    targets = [
        annotations.run(run_id, source_id)
        for run_id, source_id in zip(mine["run_id"], mine["source_id"], strict=True)
    ]
    found: dict[AnnotationTarget, list[str]] = {}
    for target, night in zip(targets, _nights_of(mine["started_at"]), strict=True):
        if target in wanted and night not in found.setdefault(target, []):
            found[target].append(night)
    return found
