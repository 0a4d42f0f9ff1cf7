"""A source that was read and is not in the warehouse yet: what whoever reads hands to the writer.

Making one needs no database and no lock, so that another process than the writer's can do it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Source
from warehouse.store_requests import RequestFile
from warehouse.store_rows import BATCHES, Rows, add_cell, as_table, source_row


@dataclass(frozen=True)
class Draft:
    """The rows of one source, its cells numbered from 0, and the private file of its requests."""

    source_id: str
    path: str
    """The source's, as in ``Source``."""
    tables: dict[str, pa.Table]
    requests: Path | None
    """Whole and on the disk; the tables list it under the name that it will have. None: none."""

    @property
    def cells(self) -> int:
        """How many cells the source has."""
        return int(self.tables["cells"].num_rows)

    @property
    def first(self) -> int:
        """The number of the first cell."""
        return int(self.tables["cells"].column("cell")[0].as_py()) if self.cells else 0

    @property
    def rows(self) -> int:
        """How many requests the source has."""
        if "request_files" not in self.tables:
            return 0
        return int(self.tables["request_files"].column("rows")[0].as_py())

    def numbered(self, first: int) -> "Draft":
        """Return the same draft with its cells numbered from ``first``."""
        return replace(self, tables={name: _moved(t, first) for name, t in self.tables.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        # Tables of a few rows and many columns: a tenth of what pickling each column takes. Both
        # sides know the schemas.
        packed = {
            name: [batch.serialize().to_pybytes() for batch in table.combine_chunks().to_batches()]
            for name, table in self.tables.items()
        }
        return _unpacked, (self.source_id, self.path, packed, self.requests)

    def discard(self) -> None:
        """Remove the private file of the source's requests."""
        if self.requests is not None:
            self.requests.unlink(missing_ok=True)


def write_draft(root: Path, source: Source, cells: Iterable[Cell]) -> Draft:
    """Read ``cells`` one by one, and write their requests into the warehouse at ``root``.

    An exception while reading ``cells`` propagates and leaves nothing behind.
    """
    file = RequestFile(root)
    try:
        tables = _tables(source, cells, file)
        file.close()
    except BaseException:
        file.discard()
        raise
    written = file.private if "request_files" in tables else None
    return Draft(source.source_id, source.path, tables, written)


def _unpacked(
    source_id: str, path: str, packed: dict[str, list[bytes]], requests: Path | None
) -> Draft:
    tables = {name: _table(parts, BATCHES[name]) for name, parts in packed.items()}
    return Draft(source_id, path, tables, requests)


def _table(parts: list[bytes], schema: pa.Schema) -> pa.Table:
    batches = [pa.ipc.read_record_batch(pa.py_buffer(one), schema) for one in parts]
    return pa.Table.from_batches(batches, schema)


def _moved(table: pa.Table, first: int) -> pa.Table:
    if first == 0 or "cell" not in table.column_names:
        return table
    index = table.schema.get_field_index("cell")
    return table.set_column(index, table.schema.field(index), pc.add(table.column(index), first))


def _tables(source: Source, cells: Iterable[Cell], file: RequestFile) -> dict[str, pa.Table]:
    rows: Rows = {name: [] for name in BATCHES}
    rows["sources"].append(source_row(source))
    for number, cell in enumerate(cells):
        add_cell(rows, number, source.source_id, cell)
        if cell.requests is not None and cell.requests.num_rows:
            file.write(cell.requests)
            rows["cell_requests"].append({"cell": number, "rows": cell.requests.num_rows})
    _require_distinct(rows, source)
    written = file.whole()
    if written is not None:
        rows["request_files"] = [written]
        rows["cell_requests"] = [{**row, "file": written["file"]} for row in rows["cell_requests"]]
    there = (name for name in BATCHES if rows[name] or name == "cells")
    return {name: as_table(name, rows[name]) for name in there}


def _require_distinct(rows: Rows, source: Source) -> None:
    identities = [row["cell_id"] for row in rows["cells"]]
    if len(set(identities)) != len(identities):
        raise InvalidInput(f"{source.path} holds a cell twice; correct the reader of its format.")
