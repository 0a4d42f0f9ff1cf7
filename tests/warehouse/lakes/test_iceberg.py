"""What is published as Iceberg: the same rows, the whole generation or nothing, once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.warehouse.lakes.conftest import ROOT, assert_refused, rows_of
from warehouse import annotations
from warehouse.lakes import iceberg
from warehouse.maintenance import compact
from warehouse.store import open_writer

Publish = Callable[..., Result]
TABLES = {
    "sources", "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
    "rejections", "annotations", "excluded_runs", "requests", "publication",
}  # fmt: skip


class Place:
    """A catalogue in a file, and where its data go."""

    def __init__(self, folder: Path) -> None:
        self.uri, self.location = f"sqlite:///{folder}/catalogue.db", folder / "lake"
        self.words = ("--iceberg", self.uri, "--location", self.location)

    def table(self, name: str, schema: str = "draftboard") -> Table:
        """Load a table as any reader does, by a catalogue of its own."""
        bucket = {"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", ""), "s3.region": "us-east-1"}
        catalog = SqlCatalog("draftboard", uri=self.uri, **bucket)
        try:
            return catalog.load_table((schema, name))
        finally:
            catalog.engine.dispose()

    def rows(self, name: str) -> list[Any]:
        """Read a table."""
        return rows_of(self.table(name).scan().to_arrow())

    def generations(self) -> set[str]:
        """Return of which generation each table says it is."""
        return {self.table(name).properties["draftboard.generation"] for name in TABLES}

    def files(self) -> set[Path]:
        """Return every file that was written."""
        return {path for path in self.location.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_published_is_what_an_export_holds(
    publish: Publish, lake: Place, exported: Callable[[], dict[str, list[Any]]]
) -> None:
    done = publish(*lake.words)
    assert done.output == f"Published generation 1 to {lake.uri}, schema draftboard.\n"
    wanted = exported()
    assert set(wanted) == TABLES - {"publication"}
    assert {name: lake.rows(name) for name in wanted} == wanted
    assert lake.generations() == {"1"}
    (row,) = lake.table("publication").scan().to_arrow().to_pylist()
    assert row["generation"] == 1
    assert lake.table("cells").current_snapshot().summary["draftboard.generation"] == "1"


def test_duckdb_joins_what_was_published(publish: Publish, lake: Place) -> None:
    publish(*lake.words)
    connection = duckdb.connect()
    for name in ("cells", "measurements", "requests"):
        lake.table(name).scan().to_duckdb(name, connection)
    found = connection.sql(
        "select c.concurrency, m.value, count(*) from cells as c join measurements as m using (cell) "
        "join requests as r using (cell_id) where m.metric = 'output_throughput' and m.preferred "
        "and c.spec_method = 'none' group by all order by all"
    ).fetchall()
    assert found == [(1, 1000.0, 20), (2, 1000.0, 20), (4, 1000.0, 20)]


def test_the_same_generation_again_adds_nothing_and_says_so(publish: Publish, lake: Place) -> None:
    publish(*lake.words)
    before = lake.files()
    again = publish("--iceberg", lake.uri)
    assert "holds generation 1 already: nothing was added." in again.output
    assert again.exit_code == 0
    assert lake.files() == before
    assert len(lake.table("cells").snapshots()) == 1


def test_new_results_are_one_more_snapshot_and_old_requests_are_not_written_again(
    publish: Publish, lake: Place, grow: Callable[[str], None], exported: Callable[..., Any]
) -> None:
    publish(*lake.words)
    old = {task.file.file_path for task in lake.table("requests").scan().plan_files()}
    grow("third")
    assert publish("--iceberg", lake.uri).exit_code == 0
    wanted = exported()
    assert {name: lake.rows(name) for name in wanted} == wanted
    assert lake.generations() == {"2"}
    now = {task.file.file_path for task in lake.table("requests").scan().plan_files()}
    assert old < now
    assert len(now) == len(old) + 1
    assert {len(lake.table(name).snapshots()) for name in TABLES} == {2}


@pytest.mark.slow
def test_an_older_generation_can_be_read_by_its_tag(
    publish: Publish, lake: Place, grow: Callable[[str], None]
) -> None:
    for name in ("third", "fourth", "fifth"):
        publish(*lake.words)
        grow(name)
    publish(*lake.words)
    cells = lake.table("cells")
    assert set(cells.refs()) == {"main", "generation_2", "generation_3", "generation_4"}
    older = cells.scan().use_ref("generation_2").to_arrow()
    assert (older.num_rows, cells.scan().to_arrow().num_rows) == (9, 15)


def test_requests_of_files_that_were_merged_are_there_once(
    publish: Publish, lake: Place, filled: Path, exported: Callable[..., Any]
) -> None:
    publish(*lake.words)
    with open_writer(filled):
        assert compact(filled)
    assert "Published generation 2" in publish(*lake.words).output
    assert lake.rows("requests") == exported()["requests"]


def test_an_exclusion_is_published_and_leaves_nothing_out(
    publish: Publish, lake: Place, filled: Path
) -> None:
    publish(*lake.words)
    cell = lake.table("cells").scan().to_arrow().to_pylist()[0]
    target = annotations.AnnotationTarget(cell["run_id"], cell["source_id"])
    annotations.add(filled, annotations.annotation("exclude", target, "GPU throttled", "Ann"))
    done = publish(*lake.words)
    assert "Published generation 1" in done.output
    assert "1 run is excluded by name and in it all the same" in done.output
    (excluded,) = lake.table("excluded_runs").scan().to_arrow().to_pylist()
    assert excluded["reason"] == "GPU throttled"
    assert lake.table("cells").scan().to_arrow().num_rows == 6


KILLED = """
import os, sys
from pyiceberg.table import Transaction
from draftboard import main
commit, done = Transaction.commit_transaction, []
def killed(self):
    commit(self)
    done.append(self)
    if len(done) == 5:
        os._exit(9)
Transaction.commit_transaction = killed
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_killed_between_two_tables_it_shows_the_old_generation_and_can_be_run_again(
    publish: Publish, lake: Place, grow: Callable[[str], None], filled: Path, exported: Any
) -> None:
    publish(*lake.words)
    grow("third")
    words = ["warehouse", "publish", "--warehouse", filled, "--iceberg", lake.uri]
    died = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], cwd=ROOT, check=False)
    assert died.returncode == 9
    assert lake.generations() == {"1"}
    assert len(lake.rows("cells")) == 6
    assert "Published generation 2" in publish(*lake.words).output
    assert lake.generations() == {"2"}
    wanted = exported()
    assert {name: lake.rows(name) for name in wanted} == wanted


@pytest.mark.slow
def test_readers_see_the_old_generation_until_all_tables_turn(
    publish: Publish, lake: Place, grow: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(*lake.words)
    grow("third")
    seen, commit = [], iceberg.Transaction.commit_transaction

    def look(self: Any) -> Any:
        done = commit(self)
        seen.append(lake.generations())
        return done

    monkeypatch.setattr(iceberg.Transaction, "commit_transaction", look)
    assert publish(*lake.words).exit_code == 0
    assert seen == [{"1"}] * len(TABLES)
    assert lake.generations() == {"2"}


@pytest.mark.slow
def test_who_loses_a_race_publishes_nothing_and_says_so(
    publish: Publish, lake: Place, grow: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(*lake.words)
    grow("third")
    commit = iceberg._commit_together

    def late(catalog: Any, staged: Any) -> None:
        monkeypatch.setattr(iceberg, "_commit_together", commit)
        grow("fourth")
        assert "Published generation 3" in publish(*lake.words).output
        commit(catalog, staged)

    monkeypatch.setattr(iceberg, "_commit_together", late)
    lost = publish(*lake.words)
    assert lost.exit_code == 1
    assert "Somebody else wrote into" in lost.output
    assert "nothing of generation 2 was published; run the same command again." in lost.output
    assert lake.generations() == {"3"}
    assert len(lake.rows("cells")) == 12


@pytest.mark.slow
def test_an_older_generation_is_published_over_a_newer_one_only_when_told(
    publish: Publish, lake: Place, grow: Callable[[str], None], filled_once: Path
) -> None:
    grow("third")
    publish(*lake.words)
    older = ("--warehouse", filled_once, "--iceberg", lake.uri)
    refused = publish(*older)
    assert refused.exit_code == 1
    assert "holds generation 2, and this warehouse is at 1" in refused.output
    assert lake.generations() == {"2"}
    assert publish(*older, "--replace").exit_code == 0
    assert lake.generations() == {"1"}
    assert len(lake.rows("requests")) == 120


def test_tables_of_somebody_else_are_left_alone(
    publish: Publish, lake: Place, exported: Any
) -> None:
    catalog = SqlCatalog("draftboard", uri=lake.uri, warehouse=str(lake.location))
    catalog.create_namespace("draftboard")
    theirs = catalog.create_table(("draftboard", "cells"), iceberg.request_schema())
    catalog.engine.dispose()
    refused = publish(*lake.words)
    assert refused.exit_code == 1
    assert (
        "has tables in the schema draftboard that Draftboard did not write (cells)"
        in refused.output
    )
    assert lake.table("cells").metadata_location == theirs.metadata_location
    assert publish(*lake.words, "--schema", "team").exit_code == 0
    assert lake.table("cells", "team").scan().to_arrow().num_rows == 6


@pytest.mark.slow
def test_a_column_that_is_new_comes_with_the_next_generation(
    publish: Publish, lake: Place, grow: Callable[[str], None], exported: Any
) -> None:
    publish(*lake.words)
    for name in ("cells", "requests"):
        with lake.table(name).update_schema(allow_incompatible_changes=True) as change:
            change.delete_column({"cells": "duration", "requests": "ttft"}[name])
    grow("third")
    assert publish(*lake.words).exit_code == 0
    assert lake.rows("cells") == exported()["cells"]
    ttft = lake.table("requests").scan().to_arrow().column("ttft")
    assert ttft.null_count == 120  # What was published before knows nothing of it.
    assert len(ttft) == 180


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--iceberg", "sqlite:////nowhere/at-all/c.db"), "unable to open database file"),
        (("--iceberg", f"sqlite:///{ROOT}/README.md"), "file is not a database"),
        (("--iceberg", "catalogue"), "Could not parse"),
        (("--iceberg", "mysql://u:hunter2@h/x"), "h/x is no catalogue that can be written"),
        (("--iceberg", "postgresql://u:hunter2@127.0.0.1:1/x"), "connection"),
        (("--iceberg", "sqlite://"), "say with --location where its files go"),
        (("--iceberg", "sqlite://", "--location", "/proc/nothing"), "check --location"),
        (("--iceberg", "sqlite://", "--ducklake", "x"), "Name one catalogue"),
        ((), "Name one catalogue"),
        (("--iceberg", "sqlite://", "--schema", "a b"), "no name for a schema"),
        (
            ("--iceberg", "sqlite://", "--warehouse", "/nowhere"),
            "There is no warehouse at /nowhere",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    publish: Publish, words: tuple[str, ...], said: str
) -> None:
    assert_refused(publish(*words), said)


def test_without_the_package_the_command_names_it(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "warehouse.lakes.iceberg")
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    failed = publish("--iceberg", "sqlite://")
    assert failed.exit_code == 1
    assert "pip install 'draftboard[iceberg]'" in failed.output


@pytest.mark.slow
def test_a_catalogue_in_postgres_takes_it_and_keeps_no_password(
    publish: Publish, lake: Place, postgres: Callable[[], str], exported: Any
) -> None:
    lake.uri = postgres()
    secret = lake.uri.replace("postgres@", "postgres:hunter-2-secret@")
    done = publish("--iceberg", secret, "--location", lake.location)
    assert done.output == f"Published generation 1 to {lake.uri}, schema draftboard.\n"
    assert "nothing was added" in publish("--iceberg", secret).output
    lake.uri = lake.uri.replace("postgresql", "postgresql+psycopg")
    wanted = exported()
    assert {name: lake.rows(name) for name in wanted} == wanted
    assert not [path for path in lake.files() if b"hunter-2-secret" in path.read_bytes()]


@pytest.mark.slow
def test_who_may_only_read_a_catalogue_is_told_so(
    publish: Publish, lake: Place, postgres: Callable[[str], str]
) -> None:
    failed = publish("--iceberg", postgres("reader"), "--location", lake.location)
    assert failed.exit_code == 1
    assert "permission denied" in failed.output
    assert "your rights there" in failed.output


@pytest.mark.slow
def test_its_files_can_lie_in_a_bucket(
    publish: Publish, lake: Place, bucket: Any, s3_port: int, exported: Any
) -> None:
    # The front does not pass on uploads in parts.
    bucket.environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3_port}")
    place = bucket.url.replace("/results", "/lake")
    done = publish("--iceberg", lake.uri, "--location", place)
    assert done.exit_code == 0, done.output
    assert lake.table("cells").location() == f"{place}/draftboard/cells"
    assert lake.rows("requests") == exported()["requests"]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(lake.table("cells").metadata)
