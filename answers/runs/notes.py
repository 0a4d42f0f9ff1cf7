"""What people said of runs and nights: which notes, exclusions and acceptances are about a view.

Readers given here see the excluded runs too (``Reader(root, everything=True)``).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from analysis.nightly.nights import NOON
from answers.wording import TextRows
from warehouse import annotations, queries
from warehouse.annotations import Annotation, AnnotationTarget
from warehouse.filters import Filters
from warehouse.store import Reader

UNKNOWN_NIGHT = "unknown"
_WORDS = {
    "note": "noted", "exclude": "excluded", "include": "taken back", "accept": "accepted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlacedNote:
    """An annotation and a night that it is about (``2026-11-21``; ``unknown`` for a run without a
    start)."""

    night: str
    event: Annotation


def note_rows(notes: Iterable[PlacedNote]) -> TextRows:
    """Return a row per night and what was said of what, by whom and when; the newest night first."""
    newest_first = sorted(notes, key=lambda note: (note.night, note.event.at), reverse=True)
    return ["night", "about", "said", "text", "by", "written (UTC)"], [
        [
            one.night, one.event.target.run_id or one.event.target.series or "the night",
            _WORDS[one.event.action], one.event.text, one.event.author, f"{one.event.at:%Y-%m-%d %H:%M}",
        ]
        for one in newest_first
    ]  # fmt: skip


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


def by_night(notes: Iterable[PlacedNote]) -> tuple[tuple[str, str], ...]:
    """Return each night with all that was said of it and of its runs, in one line."""
    texts: dict[str, dict[str, None]] = {}
    for one in notes:
        said = f"{_WORDS[one.event.action]} {one.event.target.name}: "
        of_what = "" if one.event.action == "note" else said
        texts.setdefault(one.night, {})[f"{of_what}{one.event.text}"] = None
    return tuple((name, "; ".join(said)) for name, said in texts.items())


def of_run(
    reader: Reader, target: AnnotationTarget, started: datetime | None, study: str | None
) -> tuple[Annotation, ...]:
    """Return everything that was ever said of a run, and the notes on the night in which it started,
    oldest first."""
    night = UNKNOWN_NIGHT if started is None else f"{started - NOON:%Y-%m-%d}"
    return tuple(
        event
        for event in annotations.read(reader.root)
        if event.target == target or (event.target.night == night and _is_of(event, {study}))
    )


def of_series(
    reader: Reader, filters: Filters, about: tuple[tuple[str, object], ...], noted: str
) -> tuple[PlacedNote, ...]:
    """Return the notes on the nights of a series and on its runs, and the exclusions of its runs.

    ``about``: what makes it this series; ``noted``: the version of what people said, for caches.
    """
    if not noted:
        return ()
    cells = queries.cells(reader, filters).to_pandas()
    for name, value in about:
        cells = cells[cells[name].isna() if value is None else cells[name] == value]
    return _said_of_cells(reader, cells)


def of_night(reader: Reader, night: str, study: str, noted: str) -> tuple[PlacedNote, ...]:
    """Return the notes on one night (``2026-11-21``) of a study and on its runs, and the exclusions
    of its runs; a night that measured nothing can be noted on as well. ``noted``: as above."""
    of_itself = [
        PlacedNote(night, event)
        for event in annotations.read(reader.root)
        if event.target.night == night and _is_of(event, {study})
    ]
    of_runs = [
        one
        for one in of_view(reader, Filters(study=(study,)), noted)
        if one.night == night and one.event.target.night is None
    ]
    return (*of_itself, *of_runs)


def of_view(reader: Reader, filters: Filters, noted: str) -> tuple[PlacedNote, ...]:
    """Return the notes on nights and runs, and the exclusions, of all cells that the filters keep
    or would keep. ``noted``: as above."""
    if not noted:
        return ()
    return _said_of_cells(reader, queries.cells(reader, filters).to_pandas())


def _said_of_cells(reader: Reader, cells: pd.DataFrame) -> tuple[PlacedNote, ...]:
    excluded = annotations.excluded_runs(reader.root)
    events = [
        event
        for event in annotations.read(reader.root)
        if event.action in ("note", "accept") or excluded.get(event.target) is event
    ]
    # The night in which a start lies, noon to noon UTC, by the day on which it began.
    days = (pd.to_datetime(cells["started_at"], utc=True) - NOON).dt.strftime("%Y-%m-%d")
    nights = sorted({*days.dropna()})
    mine = cells["run_id"].isin({event.target.run_id for event in events})
    of_runs: dict[AnnotationTarget, dict[str, None]] = {}
    for run_id, source_id, night in zip(
        cells.loc[mine, "run_id"], cells.loc[mine, "source_id"], days[mine].fillna(UNKNOWN_NIGHT),
        strict=True,
    ):  # fmt: skip
        of_runs.setdefault(annotations.AnnotationTarget(run_id, source_id), {})[night] = None
    studies = {study if isinstance(study, str) else None for study in cells["study"].unique()}
    found = []
    for event in events:
        of_night = event.target.night
        if of_night is None:
            found += [PlacedNote(night, event) for night in of_runs.get(event.target, ())]
        elif nights and nights[0] <= of_night <= nights[-1] and _is_of(event, studies):
            found.append(PlacedNote(of_night, event))
    return tuple(found)


def _is_of(event: Annotation, studies: Collection[str | None]) -> bool:
    return event.target.study is None or event.target.study in studies
