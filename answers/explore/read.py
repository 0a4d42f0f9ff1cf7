"""The rows of a free chart, asked of the documented views by the SQL that the page shows."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from answers.explore import words
from answers.explore.pick import Amount, Pick
from answers.explore.question import cells_sql, marks_sql
from answers.explore.values import Behind, Clicked, Mark, Marks, Panel
from warehouse import annotations
from warehouse.filters import Filters
from warehouse.store import Reader
from warehouse.store_files import generation_name
from warehouse.store_question import documented

_MARK, _CELL = ({field.name for field in fields(kind)} for kind in (Mark, Behind))


@lru_cache(maxsize=2)
def _views(root: Path, generation: int, excluded: str) -> Any:
    """The documented views in this process, for our own questions only. ``excluded``: the version
    of the exclusions that they follow."""
    del excluded
    return documented(root / generation_name(generation))


def _rows(reader: Reader, sql: str) -> list[dict[str, Any]]:
    version = annotations.exclusions_version(reader.root)
    with _views(reader.root, reader.generation, version).cursor() as cursor:
        found: list[dict[str, Any]] = cursor.sql(sql).to_arrow_table().to_pylist()
    return found


def marks(reader: Reader, pick: Pick, filters: Filters, most: int) -> Marks:
    """What one chart draws in at most ``most`` panels."""
    rows = [
        # Over a key a mark is at no load.
        Mark(**{"load": None, **{name: row[name] for name in row.keys() & _MARK}})
        for row in _rows(reader, marks_sql(pick, filters))
    ]
    return placed(rows, pick, most)


def placed(rows: Sequence[Mark], pick: Pick, most: int) -> Marks:
    """The marks that can be drawn, and what has to be said about those that cannot."""
    known = [mark for mark in rows if mark.x is not None and mark.y is not None]
    kept = _most(_most(known, "panel", most), "series", words.MOST_SERIES)
    drawn = kept[: words.MOST_MARKS]
    by_panel: dict[str, list[Mark]] = {}
    for mark in drawn:
        by_panel.setdefault(mark.panel, []).append(mark)
    panels = tuple(
        Panel(name, words.answer(own, pick), tuple(own))
        for name, own in sorted(by_panel.items(), key=lambda one: -len(one[1]))
    )
    notes = (
        words.too_many(len(kept)),
        words.unplaced(len(rows) - len(known), pick),
        words.left_out(known, drawn, "panel"),
        words.left_out(known, drawn, "series"),
        words.pooled(drawn),
    )
    return Marks(
        panels, words.headline(panels, pick), tuple(filter(None, notes)), words.badges_of(drawn)
    )


def _most(rows: Sequence[Mark], what: str, number: int) -> list[Mark]:
    """The marks of the values that have most of them."""
    counts: dict[str, int] = {}
    for mark in rows:
        counts[getattr(mark, what)] = counts.get(getattr(mark, what), 0) + 1
    kept = sorted(counts, key=lambda name: -counts[name])[:number]
    return [mark for mark in rows if getattr(mark, what) in kept]


def cells(reader: Reader, pick: Pick, filters: Filters) -> tuple[Behind, ...]:
    """The cells of a chart, each once."""
    return tuple(
        Behind(**{name: row[name] for name in _CELL})
        for row in _rows(reader, cells_sql(pick, filters))
    )


def clicked(cells: Iterable[Behind], picked: Sequence[Clicked], pick: Pick) -> tuple[Behind, ...]:
    """The cells behind the marks that were clicked."""
    wanted = {(one.panel, one.series, _at(one.along)) for one in picked}
    over_amount = isinstance(pick.x, Amount)
    return tuple(
        cell
        for cell in cells
        if (cell.panel, cell.series, _at(cell.load if over_amount else cell.x)) in wanted
    )


def _at(place: Any) -> Any:
    """A browser tells times in ms since 1970."""
    return place.astimezone(UTC).timestamp() * 1000 if isinstance(place, datetime) else place
