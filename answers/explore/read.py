"""The rows of a free chart, asked of the documented views by the SQL that the page shows."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from answers.explore import words
from answers.explore.values import (
    Amount,
    Behind,
    Cells,
    Clicked,
    Mark,
    Marks,
    Panel,
    Pick,
    cells_sql,
    marks_sql,
)
from warehouse import annotations
from warehouse.filters import Filters
from warehouse.store import Opened, Reader
from warehouse.store_question import documented

_MARK, _CELL = ({field.name for field in fields(kind)} for kind in (Mark, Behind))


@lru_cache(maxsize=2)
def _views(root: Path, generation: int, excluded: str) -> Opened:
    """Open the documented views in this process, for our own questions only. ``generation``: the
    newest; ``excluded``: the version of the exclusions that they follow."""
    del generation, excluded
    return documented(root)


def _table(reader: Reader, sql: str) -> pa.Table:
    version = annotations.exclusions_version(reader.root)
    opened = _views(reader.root, reader.generation, version)
    with opened.connection.cursor() as cursor:
        return cursor.sql(sql).to_arrow_table()


def marks(reader: Reader, pick: Pick, filters: Filters, most: int) -> Marks:
    """Return what one chart draws in at most ``most`` panels."""
    rows = [
        # Over a key a mark is at no load.
        Mark(**{"load": None, **{name: row[name] for name in row.keys() & _MARK}})
        for row in _table(reader, marks_sql(pick, filters)).to_pylist()
    ]
    return placed(rows, pick, most)


def placed(rows: Sequence[Mark], pick: Pick, most: int) -> Marks:
    """Choose the marks that can be drawn, and say what is left out."""
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
    """Return the marks of the ``number`` values that have most of them."""
    counts: dict[str, int] = {}
    for mark in rows:
        counts[getattr(mark, what)] = counts.get(getattr(mark, what), 0) + 1
    kept = sorted(counts, key=lambda name: -counts[name])[:number]
    return [mark for mark in rows if getattr(mark, what) in kept]


def cells(
    reader: Reader,
    pick: Pick,
    filters: Filters,
    clicked: tuple[Clicked, ...] = (),
    most: int | None = None,
) -> Cells:
    """Return the cells of a chart, each once, or those behind the marks that were clicked; at most
    ``most``."""
    # Parallel reading keeps no order, and a reader who asks twice expects the same rows.
    rows = _table(
        reader, f"{cells_sql(pick, filters)}\norder by panel, series, x, y, cells.cell_id"
    )
    if not clicked:
        return Cells(tuple(map(_behind, rows.slice(0, most).to_pylist())), rows.num_rows)
    wanted = {(one.panel, one.series, _at(one.along)) for one in clicked}
    along = "load" if isinstance(pick.x, Amount) else "x"
    found = [
        _behind(row)
        for row in rows.to_pylist()
        if (row["panel"], row["series"], _at(row[along])) in wanted
    ]
    return Cells(tuple(found[:most]), len(found))


def _behind(row: dict[str, Any]) -> Behind:
    return Behind(**{name: row[name] for name in _CELL})


def _at(place: Any) -> Any:
    """Return a place along an axis; times as a browser tells them, in ms since 1970."""
    return place.astimezone(UTC).timestamp() * 1000 if isinstance(place, datetime) else place
