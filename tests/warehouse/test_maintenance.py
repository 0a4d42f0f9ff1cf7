"""Check finds what is wrong; compact, gc and export change nothing that a reader sees."""

import json

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from commands.keeping.warehouse import warehouse
from warehouse import queries
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.store import Reader, open_writer


@pytest.fixture
def call(filled):
    def run(*arguments):
        return CliRunner().invoke(warehouse, [*arguments, "--warehouse", str(filled)])

    return run


def _requests(root):
    with Reader(root) as reader:
        ids = queries.cells(reader, Filters()).column("cell_id").to_pylist()
        return {cell_id: queries.requests(reader, cell_id).to_pylist() for cell_id in ids}


def test_info_counts(call):
    found = json.loads(call("info", "--json").output)
    assert (found["sources"], found["cells"], found["requests"]) == (2, 6, 120)
    assert "generation" in call("info").output


def test_a_whole_warehouse_has_no_findings(call):
    assert call("check").exit_code == 0
    assert json.loads(call("check", "--json").output) == {"findings": []}


@pytest.mark.parametrize("how", ["altered", "missing", "orphan"])
def test_check_names_what_is_wrong_and_exits_1(call, filled, how):
    file = sorted((filled / "requests").iterdir())[0]
    if how == "altered":
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    elif how == "missing":
        file.unlink()
    else:
        file = file.with_name("stray.parquet")
        file.write_bytes(b"stray")
    result = call("check", "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.output)["findings"]
    assert (finding["name"], finding["where"]) == (how, file.name)


def test_compact_and_gc_keep_every_row(call, filled):
    before = _requests(filled)
    assert call("compact").output == "Merged 2 request files.\n"
    assert call("compact").output == "Merged 0 request files.\n"
    assert _requests(filled) == before
    assert call("gc", "--grace", "0").exit_code == 0
    assert (check(filled), _requests(filled)) == ([], before)


def test_gc_leaves_young_files_and_takes_old_ones(call, filled):
    stray = filled / "requests" / "stray.parquet"
    stray.write_bytes(b"stray")
    call("gc")
    assert stray.exists()
    call("gc", "--grace", "0")
    assert not stray.exists()


def test_export_to_one_database_and_to_a_folder(call, filled, tmp_path):
    assert call("export", "--out", str(tmp_path / "all.duckdb")).exit_code == 0
    with duckdb.connect(str(tmp_path / "all.duckdb")) as connection:
        counts = "select (select count(*) from cells), (select count(*) from requests)"
        assert connection.execute(counts).fetchone() == (6, 120)
    assert call("export", "--out", str(tmp_path / "all")).exit_code == 0
    assert pq.read_table(tmp_path / "all" / "cells.parquet").num_rows == 6
    again = call("export", "--out", str(tmp_path / "all"))
    assert again.exit_code == 1
    assert "is there already" in again.output


def test_a_failed_export_leaves_nothing(call, filled, tmp_path):
    sorted((filled / "requests").iterdir())[0].unlink()
    for name in ("all", "all.duckdb"):
        result = call("export", "--out", str(tmp_path / "out" / name))
        assert result.exit_code == 1
        assert "cannot be exported" in result.output
    assert list((tmp_path / "out").iterdir()) == []


def test_check_does_not_call_the_files_of_a_live_writer_orphans(
    call, filled, make_source, make_cell
):
    source = make_source("third")
    with open_writer(filled) as writer:
        writer.add(source, [make_cell(source)])
        result = call("check")
        assert result.exit_code == 0
        assert "orphans were not judged" in result.output
    assert call("check").exit_code == 0, "what was never committed is gone"


@pytest.mark.parametrize("command", ["info", "check", "compact", "gc"])
def test_no_warehouse_is_one_sentence(command, tmp_path):
    result = CliRunner().invoke(warehouse, [command, "--warehouse", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "There is no warehouse at" in result.output
    assert "Traceback" not in result.output
