"""What people said of the runs and nights that a page is about; read from the file, not cached."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from analysis.nightly.regressions import Assessment
from dashboard import data
from dashboard.answers.notes import UNKNOWN_NIGHT, Placed, nights_of
from dashboard.cells import EXCLUDED
from dashboard.shelf import Shelf
from warehouse import annotations
from warehouse.annotations import Annotation, Target
from warehouse.filters import Filters


def left_out(shelf: Shelf, filters: Filters) -> tuple[Annotation, ...]:
    """The exclusions of the runs that the filters would keep, newest run first."""
    if not shelf.excluded:
        return ()
    excluded = annotations.excluded_runs(Path(shelf.root))
    runs = data.runs(shelf.with_excluded(), filters)
    found = _targets(runs[runs[EXCLUDED].notna()])
    return tuple(excluded[target] for target in found if target in excluded)


def target_of(head: pd.Series) -> Target:
    """A run of ``data.runs`` as annotations know it."""
    return annotations.run(str(head["run_id"]), str(head["source_id"]))


def exclusion_of(shelf: Shelf, head: pd.Series) -> Annotation | None:
    """Why a run is excluded; None where it is not."""
    return annotations.excluded_runs(Path(shelf.root)).get(target_of(head))


def of_run(shelf: Shelf, head: pd.Series) -> tuple[Annotation, ...]:
    """Everything that was ever said of a run, and the notes on its night, oldest first."""
    night = nights_of(pd.Series([head["started_at"]])).iloc[0]
    target, study = target_of(head), {_known(head["study"])}
    return tuple(
        event
        for event in annotations.read(Path(shelf.root))
        if event.target == target or (event.target.night == night and _is_of(event, study))
    )


def of_series(shelf: Shelf, filters: Filters, one: Assessment) -> tuple[Placed, ...]:
    """The notes on the nights of a series and on its runs, and the exclusions of its runs."""
    if not annotations.version(Path(shelf.root)):
        return ()
    cells = data.cells(shelf.with_excluded(), filters)
    for name, value in one.series.about.items():
        cells = cells[cells[name].isna() if value is None else cells[name] == value]
    return _of(shelf, cells)


def of_night(shelf: Shelf, night: str, study: str) -> tuple[Placed, ...]:
    """The notes on one night (``2026-11-21``) of a study and on its runs, and the exclusions of its
    runs; a night that measured nothing can be noted on as well."""
    if not annotations.version(Path(shelf.root)):
        return ()
    of_itself = [
        Placed(night, event)
        for event in annotations.read(Path(shelf.root))
        if event.target.night == night and _is_of(event, {study})
    ]
    of_runs = [
        one
        for one in of_view(shelf, Filters(study=(study,)))
        if one.night == night and one.event.target.night is None
    ]
    return (*of_itself, *of_runs)


def of_view(shelf: Shelf, filters: Filters) -> tuple[Placed, ...]:
    """The same of all cells that the filters keep or would keep."""
    if not annotations.version(Path(shelf.root)):
        return ()
    return _of(shelf, data.cells(shelf.with_excluded(), filters))


def _of(shelf: Shelf, cells: pd.DataFrame) -> tuple[Placed, ...]:
    root = Path(shelf.root)
    excluded = annotations.excluded_runs(root)
    events = [
        event
        for event in annotations.read(root)
        if event.action in ("note", "accept") or excluded.get(event.target) is event
    ]
    nights = sorted({*nights_of(cells["started_at"])} - {UNKNOWN_NIGHT})
    runs = _nights_of_runs(cells, {event.target for event in events})
    studies = {_known(study) for study in cells["study"].unique()}
    return tuple(
        Placed(night, event)
        for event in events
        for night in (
            runs.get(event.target, ())
            if event.target.night is None
            else _within(event, nights, studies)
        )
    )


def _within(
    event: Annotation, nights: list[str], studies: Collection[str | None]
) -> tuple[str, ...]:
    """The night of a note where it lies among ``nights`` (sorted) and is of one of ``studies``."""
    night = str(event.target.night)
    among = bool(nights) and nights[0] <= night <= nights[-1]
    return (night,) if among and _is_of(event, studies) else ()


def _is_of(event: Annotation, studies: Collection[str | None]) -> bool:
    return event.target.study is None or event.target.study in studies


def _nights_of_runs(cells: pd.DataFrame, wanted: set[Target]) -> dict[Target, list[str]]:
    """Each wanted run -> the nights in which its cells started."""
    mine = cells[cells["run_id"].isin([target.run_id for target in wanted])]
    found: dict[Target, list[str]] = {}
    for target, night in zip(_targets(mine), nights_of(mine["started_at"]), strict=True):
        if target in wanted and night not in found.setdefault(target, []):
            found[target].append(night)
    return found


def _targets(rows: pd.DataFrame) -> list[Target]:
    return [
        annotations.run(run_id, source_id)
        for run_id, source_id in zip(rows["run_id"], rows["source_id"], strict=True)
    ]


def _known(value: object) -> str | None:
    return value if isinstance(value, str) else None
