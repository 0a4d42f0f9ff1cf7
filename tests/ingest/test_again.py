"""``ingest --rebuild`` without paths: a warehouse reads again all that it was read from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from warehouse.errors import WarehouseOutdated
from warehouse.storage.copies import export

Age = Callable[[], None]


@pytest.fixture
def age(run: Any) -> Age:
    """Make the warehouse one of an older schema."""

    def back() -> None:
        database = run.root / "warehouse-9.duckdb"
        export(run.root, database)
        with duckdb.connect(str(database)) as connection:
            connection.execute("update meta set schema_version = 2")
        (run.root / "CURRENT").write_text(database.name)

    return back


@pytest.fixture
def two(run: Any, write: Any, bench: Any) -> tuple[Path, Path]:
    """A warehouse of two results, each with facts of its own."""
    paths = write("base.json", bench(duration=3.0)), write("spec.json", bench(True))
    for path, method in zip(paths, ("none", "eagle3"), strict=True):
        assert run(path, "--set", f"spec_method={method}", "--set", "gpu=H200").status == 0
    return paths


def test_the_command_that_an_old_warehouse_names_reads_it_all_again(
    run: Any, two: tuple[Path, Path], age: Age
) -> None:
    before = {cell["cell_id"]: cell["spec_method"] for cell in run.cells()}
    age()
    with pytest.raises(WarehouseOutdated) as refused:
        run.cells()
    command = str(refused.value).split("draftboard ingest ")[1].split(" --warehouse")[0]
    done = run(*command.split(), "--json")
    assert (done.status, done.json["accepted"], done.json["cells"]) == (0, 2, 2)
    assert {cell["cell_id"]: cell["spec_method"] for cell in run.cells()} == before
    assert {cell["gpu"] for cell in run.cells()} == {"H200"}


def test_more_facts_may_be_set_on_the_way(run: Any, two: tuple[Path, Path]) -> None:
    assert run("--rebuild", "--set", "gpu=H100", "--set", "launch=a").status == 0
    assert {(c["gpu"], c["launch"]) for c in run.cells()} == {("H100", "a")}
    assert {c["spec_method"] for c in run.cells()} == {"none", "eagle3"}


@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_nothing_is_lost_where_one_result_is_not_as_it_was(
    run: Any, two: tuple[Path, Path], bench: Any, write: Any, how: str
) -> None:
    before = run.cells()
    if how == "gone":
        two[1].unlink()
    else:
        write("spec.json", "{" if how == "cut" else bench(True, duration=9.0))
    done = run("--rebuild")
    assert done.status == 1
    assert f"1 of 2 results cannot be read again as they were ({two[1]}" in done.err
    assert run.cells() == before


def test_where_there_is_no_warehouse_there_is_nothing_to_read_again(run: Any) -> None:
    done = run("--rebuild")
    assert done.status == 1
    assert "There is no warehouse" in done.err
