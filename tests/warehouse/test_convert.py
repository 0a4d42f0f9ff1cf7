"""A warehouse of schema version 3, one DuckDB file a generation, becomes one of ours."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from draftboard import cli
from warehouse import queries
from warehouse.errors import WarehouseOutdated
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.rows import Rejection
from warehouse.storage.copies import export
from warehouse.storage.current import current_generation
from warehouse.storage.lists import generations
from warehouse.store import Reader, open_writer

TABLES = ("cells", "runs", "acceptance", "acceptance_by_position")


def everything(root: Path) -> dict[str, Any]:
    with Reader(root) as reader:
        found = {name: getattr(queries, name)(reader, Filters()).to_pylist() for name in TABLES}
        ids = [row["cell_id"] for row in found["cells"]]
        return found | {
            "rejections": queries.rejections(reader).to_pylist(),
            "sources": queries.sources(reader).to_pylist(),
            "flags": queries.flags(reader, ids).to_pylist(),
            "measured": [queries.cell_measurements(reader, one).to_pylist() for one in ids],
            "samples": [queries.samples(reader, one).to_pylist() for one in ids],
            "requests": [queries.requests(reader, one).to_pylist() for one in ids],
        }


def aged(root: Path, version: int) -> None:
    """Make the warehouse what an older version had written."""
    database = root / "warehouse-7.duckdb"
    export(root, database)
    with duckdb.connect(str(database)) as connection:
        connection.execute("update meta set schema_version = $version", {"version": version})
    shutil.rmtree(root / "tables")
    for name in generations(root):
        if name != database.name:
            (root / name).unlink()
    (root / "CURRENT").write_text(f"{database.name}\n")


@pytest.fixture
def before(filled: Path) -> dict[str, Any]:
    """What the warehouse at ``filled`` held before it was made one of version 3."""
    with open_writer(filled) as writer:
        writer.reject(Rejection("broken.json", "cut off"))
        writer.commit()
    found = everything(filled)
    aged(filled, 3)
    return found


def convert(root: Path) -> Result:
    return CliRunner().invoke(cli, ["warehouse", "convert", "--warehouse", str(root)])


def test_an_old_warehouse_names_the_command_that_keeps_all_of_it(
    filled: Path, before: dict[str, Any], make_source: Any, make_cell: Any
) -> None:
    command = f"convert it with: draftboard warehouse convert --warehouse {filled}"
    with pytest.raises(WarehouseOutdated, match=command):
        Reader(filled)
    with pytest.raises(WarehouseOutdated, match=command), open_writer(filled):
        pass
    assert convert(filled).output.startswith("Converted 6 cells; ")
    assert everything(filled) == before
    assert current_generation(filled) == 8
    assert check(filled) == []
    source = make_source("third")
    with open_writer(filled) as writer:
        assert writer.add(make_source("base"), []) == 0
        writer.add(source, [make_cell(source)])
        writer.commit()
    assert len(everything(filled)["measured"]) == 7


def test_converting_again_changes_nothing_and_gc_takes_the_old_database(
    filled: Path, before: dict[str, Any]
) -> None:
    convert(filled)
    assert convert(filled).output == "The warehouse is of this version already.\n"
    assert current_generation(filled) == 8
    CliRunner().invoke(cli, ["warehouse", "gc", "--warehouse", str(filled)])
    assert list(generations(filled).values()) == [8]
    assert everything(filled) == before


def test_a_conversion_that_was_killed_is_begun_again(filled: Path, before: dict[str, Any]) -> None:
    (filled / "tables").mkdir()
    (filled / "tables" / f"cells-{'0' * 64}.parquet").write_bytes(b"half")
    (filled / "generation-8-0123456789abcdef.json").write_text("{}")
    assert convert(filled).exit_code == 0
    assert everything(filled) == before
    assert check(filled) == []


def test_older_ones_are_read_again_from_their_results(filled: Path) -> None:
    aged(filled, 2)
    done = convert(filled)
    assert done.exit_code == 1
    assert "schema version 2" in done.output
    assert "draftboard ingest --rebuild" in done.output


def test_without_a_warehouse_it_says_so(tmp_path: Path) -> None:
    done = convert(tmp_path)
    assert done.exit_code == 1
    assert "There is no warehouse" in done.output
