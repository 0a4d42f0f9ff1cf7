"""A generation of somebody else's cannot read files by what it holds."""

from pathlib import Path

import duckdb
import pytest

from warehouse import queries
from warehouse.errors import WarehouseDamaged
from warehouse.filters import Filters
from warehouse.store import Reader, current_generation
from warehouse.store_files import generation_name


def test_a_view_in_a_foreign_database_reaches_no_file(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("path,reason,rejected_at\nkingfisher,x,2026-01-01\n")
    path = filled / generation_name(current_generation(filled) or 0)
    with duckdb.connect(str(path)) as connection:
        connection.execute("drop table rejections")
        connection.execute(f"create view rejections as select * from read_csv('{secret}')")
    monkeypatch.chdir(filled.parent)
    with Reader(Path(filled.name)) as reader:
        cell = queries.cells(reader, Filters()).column("cell_id")[0].as_py()
        assert queries.request_distribution(reader, cell, "ttft").num_rows
        with pytest.raises((WarehouseDamaged, duckdb.Error)):
            queries.rejections(reader)
