"""A warehouse of somebody else's cannot read files by what it holds."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from warehouse import queries
from warehouse.errors import WarehouseDamaged
from warehouse.filters import Filters
from warehouse.storage.copies import export
from warehouse.storage.current import current_name, save
from warehouse.storage.lists import File, load
from warehouse.storage.tables import convert, write_table
from warehouse.store import Reader


@pytest.mark.parametrize("name", ["../../secret.parquet", "/etc/passwd", "cells-x.parquet"])
def test_a_list_that_names_a_file_elsewhere_is_refused(filled: Path, name: str) -> None:
    ours = load(filled / (current_name(filled) or ""))
    save(filled, replace(ours, number=2, rejections=File(name, 1, 1)))
    with pytest.raises(WarehouseDamaged, match="is no file of a warehouse"):
        Reader(filled)


def test_requests_are_read_in_their_folder_whatever_a_table_says(filled: Path) -> None:
    ours = load(filled / (current_name(filled) or ""))
    (segment,) = ours.segments
    rows = pq.read_table(filled / "tables" / segment.tables["cell_requests"].file)
    elsewhere = rows.set_column(1, "file", [["../../secret.parquet"] * rows.num_rows])
    tables = segment.tables | {"cell_requests": write_table(filled, "cell_requests", elsewhere)}
    save(filled, replace(ours, number=2, segments=(replace(segment, tables=tables),)))
    with Reader(filled) as reader:
        cell_ids = queries.cells(reader, Filters()).column("cell_id").to_pylist()
        assert reader.request_files(cell_ids) == [filled.absolute() / "requests/secret.parquet"]


def test_a_view_in_a_foreign_database_reaches_no_file_when_it_is_converted(
    filled: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("path,reason,rejected_at\nkingfisher,x,2026-01-01\n")
    database = filled / "warehouse-2.duckdb"
    export(filled, database)
    with duckdb.connect(str(database)) as connection:
        connection.execute("update meta set schema_version = 3")
        connection.execute("drop table rejections")
        connection.execute(f"create view rejections as select * from read_csv('{secret}')")
    (filled / "CURRENT").write_text(database.name)
    with pytest.raises(WarehouseDamaged, match="disabled"):
        convert(filled)
