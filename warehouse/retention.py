"""Requests of old runs go, their measurements stay: what is kept of a warehouse that grows each night."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.compaction import copied_requests
from warehouse.errors import InvalidInput
from warehouse.store_connection import sql_text
from warehouse.store_files import TABLES, full_disk_explained
from warehouse.store_list import Generation, Segment, current_name, load, no_current
from warehouse.store_placing import placed
from warehouse.store_rows import BATCHES
from warehouse.store_tables import attach_parts, write_table
from warehouse.store_turnover import save

#: The flag of a cell whose requests went.
FLAG = "requests_removed"


@dataclass(frozen=True)
class Rules:
    """Whose requests are kept: of runs ``since`` a moment (UTC), of the newest ``nights`` of each study,
    and of the last ``days``. A run that one of them names keeps its own; None names none."""

    since: datetime | None = None
    nights: int | None = None
    days: float | None = None

    def kept_since(self, now: datetime) -> datetime | None:
        """Return the moment from which on every run keeps its requests."""
        last = None if self.days is None else now - timedelta(days=self.days)
        return min(filter(None, (self.since, last)), default=None)


@dataclass(frozen=True)
class Removed:
    """The cells that have no requests any more, and in how many files these were."""

    cells: int
    files: int


def keep(root: Path, rules: Rules) -> Removed:
    """Publish a generation in which the requests of all other runs are not listed any more.

    Only under the writer's lock. Their files go with ``gc``. Raises InvalidInput where no rule is given,
    and LostRace.
    """
    if rules == Rules():
        raise InvalidInput("Nothing says what is to be kept; name at least one rule.")
    name = current_name(root)
    if name is None:
        raise no_current(root)
    base, now = load(root / name), datetime.now(UTC)
    with full_disk_explained(root):
        text = sql_text("outlived_requests")
        given = {"since": rules.kept_since(now), "nights": rules.nights}
        with attach_parts(root, base) as connection:
            rows = connection.execute(text, given).fetchall()
        going = {int(cell): str(file) for cell, _, file in rows}
        if not going:
            return Removed(0, 0)
        made: dict[Path, str] = {}
        sentence = (
            f"The requests of this cell were removed on {now:%Y-%m-%d} (draftboard warehouse keep): its "
            "measurements stay, and what is computed from requests is not shown for it; ingest --replace "
            "reads them again from its report."
        )
        segments = [_without_requests(root, one, going, sentence, made) for one in base.segments]
        with placed(root, made):
            save(
                root, Generation(base.number + 1, base.next_cell, tuple(segments), base.rejections)
            )
    return Removed(len(going), len(set(going.values())))


def _without_requests(
    root: Path, segment: Segment, going: Mapping[int, str], sentence: str, made: dict[Path, str]
) -> Segment:
    """Return the segment without the requests of some cells, each of which is flagged; ``made`` gets the
    private files of requests that were written, with the names that they are to have."""
    cells = _read(root, segment, "cells")
    numbers = [number for number in cells.column("cell").to_pylist() if number in going]
    if not numbers:
        return segment
    said = [{"cell": n, "name": FLAG, "severity": "info", "sentence": sentence} for n in numbers]
    files, places = _left(root, segment, going, made)
    flags = _read(root, segment, "flags")
    changed = {
        "cells": _flagged(cells, numbers),
        "flags": pa.concat_tables([flags, _like(flags, said)]).sort_by("cell"),
        "request_files": _like(_read(root, segment, "request_files"), files),
        "cell_requests": _like(_read(root, segment, "cell_requests"), places),
    }
    written = {
        name: write_table(root, name, rows) for name, rows in changed.items() if rows.num_rows
    }
    others = {name: file for name, file in segment.tables.items() if name not in changed}
    return Segment(segment.cells, others | written)


def _flagged(cells: pa.Table, numbers: Collection[int]) -> pa.Table:
    """Return the rows of ``cells`` with one flag more where the number is one of these."""
    more = pc.is_in(cells.column("cell"), pa.array(numbers, cells.schema.field("cell").type))
    count = cells.column("flags")
    place = cells.schema.get_field_index("flags")
    return cells.set_column(
        place, cells.schema.field("flags"), pc.add(count, more.cast(count.type))
    )


def _left(
    root: Path, segment: Segment, going: Mapping[int, str], made: dict[Path, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of ``request_files`` and ``cell_requests`` that stay. A file of which a part goes
    is written again."""
    names = _read(root, segment, "cells").select(["cell", "cell_id"]).to_pylist()
    cell_ids = {row["cell"]: row["cell_id"] for row in names}
    left = [
        row for row in _read(root, segment, "cell_requests").to_pylist() if row["cell"] not in going
    ]
    cells_of: dict[str, set[str]] = {}
    for row in left:
        cells_of.setdefault(row["file"], set()).add(cell_ids[row["cell"]])
    files = {
        row["file"]: row
        for row in _read(root, segment, "request_files").to_pylist()
        if row["file"] in cells_of
    }
    for name in files.keys() & set(going.values()):
        files[name] = copied_requests(root, [name], made, cells_of[name])
    places = [{**row, "file": files[row["file"]]["file"]} for row in left]
    return sorted(files.values(), key=itemgetter("file")), places


def _like(table: pa.Table, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=table.schema)


def _read(root: Path, segment: Segment, table: str) -> pa.Table:
    """Return the rows of a table; none, and its columns, where the segment has no file of it."""
    if table in segment.tables:
        return pq.read_table(root / TABLES / segment.tables[table].file)
    cell = pq.read_schema(root / TABLES / segment.tables["cells"].file).field("cell")
    schema = BATCHES[table]
    # Files have the database's types, which hold a cell's number in fewer bytes.
    return schema.set(schema.get_field_index("cell"), cell).empty_table()
