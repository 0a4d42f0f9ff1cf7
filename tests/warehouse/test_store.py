"""The store: what is added is there whole, once, or not at all."""

import errno
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from warehouse import queries
from warehouse.errors import (
    DraftboardError,
    InvalidInput,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseMissing,
    WarehouseOutdated,
)
from warehouse.filters import Filters
from warehouse.maintenance import check, compact
from warehouse.rows import Measurement, Rejection
from warehouse.storage.current import current_generation, current_name, save
from warehouse.storage.files import full_disk_explained
from warehouse.storage.lists import generations, load
from warehouse.storage.tables import sql_text
from warehouse.store import Reader, open_writer


def _ids(root: Path) -> list[str]:
    with Reader(root) as reader:
        found: list[str] = queries.cells(reader, Filters()).column("cell_id").to_pylist()
    return found


def _add(root: Path, source: Any, cells: Any) -> int:
    with open_writer(root) as writer:
        writer.add(source, cells)
        return writer.commit()


def test_a_cell_comes_back_as_it_was_given(warehouse_path, make_source, make_cell):
    source = make_source()
    facts = {"spec_method": "eagle3", "num_speculative_tokens": 3, "launch": "r0", "trace": "day"}
    cell = make_cell(source, facts=facts, order=7)
    assert _add(warehouse_path, source, [cell]) == 1
    with Reader(warehouse_path) as reader:
        (row,) = queries.cells(reader, Filters()).to_pylist()
        assert queries.requests(reader, cell.cell_id).to_pylist() == cell.requests.to_pylist()
    facts = cell.facts.model_dump()
    facts["server_args"] = '{"max_model_len": 4096}'
    assert {key: row[key] for key in facts} == facts
    rest = {key: value for key, value in row.items() if key not in facts}
    del rest["ingested_at"]
    assert rest == {
        "cell_id": cell.cell_id, "source_id": source.source_id, "index": 0,
        "run_id": cell.run_id, "arm_label": "eagle3 K=3", "load_generator": "guidellm",
        "load_generator_version": "0.8.1", "schema_generation": "G4",
        "reported_definition": "guidellm>=0.7.4", "comparable_as": "canonical",
        "started_at": cell.started_at, "order": 7, "duration": 60.0, "requests_made": 20, "completed": 20,
        "errored": 0, "incomplete": 0, "requests_complete": True, "stop_reason": "max_requests",
        "status": "good", "flags": 1, "path": "report.json", "source_format": "guidellm",
    }  # fmt: skip


def test_the_same_content_twice_changes_nothing(filled, make_source, make_cell):
    before = _ids(filled)
    with open_writer(filled) as writer:
        source = make_source("base")
        assert writer.holds(source.source_id)
        assert writer.add(source, [make_cell(source)]) == 0
        assert writer.commit() == 1
    assert _ids(filled) == before


def test_a_failing_reader_leaves_nothing_behind(warehouse_path, make_source, make_cell):
    source = make_source()

    def cells():
        yield make_cell(source, 0)
        raise InvalidInput("cut off")

    with open_writer(warehouse_path) as writer:
        with pytest.raises(InvalidInput, match="cut off"):
            writer.add(source, cells())
        assert not writer.holds(source.source_id)
        assert writer.commit() == 0
    assert list((warehouse_path / "requests").iterdir()) == []
    assert current_generation(warehouse_path) is None


def test_a_replaced_source_stands_once_with_its_new_rows(filled, make_source, make_cell):
    source = make_source("base")
    with open_writer(filled) as writer:
        writer.forget(source.source_id)
        writer.add(source, [make_cell(source, 0, 2.0)])
        writer.commit()
    with Reader(filled) as reader:
        arm = Filters(arm=("baseline",))
        (row,) = queries.measurements(reader, arm, ["output_throughput"], ["mean"]).to_pylist()
        assert row["value"] == 2000.0
        assert queries.cells(reader, arm).num_rows == 1


def test_a_replacement_that_fails_keeps_the_old_rows(filled, make_source):
    source = make_source("base")

    def broken():
        raise InvalidInput("cut off")
        yield

    with open_writer(filled) as writer:
        writer.forget(source.source_id)
        with pytest.raises(InvalidInput):
            writer.add(source, broken())
        assert writer.commit() == 1
    assert len(_ids(filled)) == 6


def test_a_rejection_stands_once_and_goes_when_the_path_is_accepted(
    warehouse_path, make_source, make_cell
):
    source = make_source()
    with open_writer(warehouse_path) as writer:
        writer.reject(Rejection(source.path, "cut off"))
        assert writer.commit() == 1
        writer.reject(Rejection(source.path, "cut off"))
        assert writer.commit() == 1
        writer.add(source, [make_cell(source)])
        assert writer.commit() == 2
    with Reader(warehouse_path) as reader:
        assert queries.rejections(reader).num_rows == 0


def test_files_older_than_a_fact_are_read_beside_newer_ones(filled, make_source, make_cell):
    before = _ids(filled)
    (old,) = (filled / "tables").glob("cells-*")
    pq.write_table(pq.read_table(old).drop_columns(["engine_settings"]), old)
    with Reader(filled) as reader:
        assert queries.cells(reader, Filters()).column("engine_settings").to_pylist() == [
            None
        ] * len(before)
    source = make_source("newer")
    _add(filled, source, [make_cell(source, facts={"engine_settings": {"model_runner": "V2"}})])
    compact(filled)
    with Reader(filled) as reader:
        told = queries.cells(reader, Filters()).column("engine_settings").to_pylist()
    assert sorted(told, key=str) == [*[None] * len(before), '{"model_runner": "V2"}']


@pytest.mark.parametrize(
    "bad",
    [
        Measurement("canonical", "ttft", "p50", float("nan")),
        Measurement("canonical", "speed", "p50", 1.0),
        Measurement("canonical", "ttft", "p51", 1.0),
    ],
)
def test_a_bad_measurement_is_refused(warehouse_path, make_source, make_cell, bad):
    source = make_source()
    with open_writer(warehouse_path) as writer, pytest.raises(InvalidInput):
        writer.add(source, [make_cell(source, measurements=(bad,))])


def test_a_number_beyond_range_is_refused_with_a_sentence(warehouse_path, make_source, make_cell):
    source = make_source()
    with open_writer(warehouse_path) as writer, pytest.raises(InvalidInput, match="beyond"):
        writer.add(source, [make_cell(source, completed=2**70)])


@pytest.mark.parametrize(
    "statement",
    [
        "insert into measurements values (0, 'guessed', 'ttft', 'p50', 1, true)",
        "insert into measurements values (0, 'canonical', 'ttft', 'p50', 'nan', true)",
        "insert into acceptance_by_position values (0, 'counters', 0, 1.5)",
        "insert into acceptance values (7, 'counters', 1, 1, 1, 0.5, 1.5)",
        "insert into request_files values ('x.csv', repeat('0', 64), 1, 1)",
        "insert into cell_requests values (7, 'x.parquet', 1)",
    ],
)
def test_the_schema_refuses_foreign_and_bad_rows(statement):
    with duckdb.connect() as connection:
        connection.execute(sql_text("schema"))
        with pytest.raises(duckdb.ConstraintException):
            connection.execute(statement)


def test_a_second_writer_is_refused_or_waits(filled):
    busy = pytest.raises(WarehouseBusy, match=r"Process \d+ is writing")
    with open_writer(filled), busy, open_writer(filled, wait=False):
        pass
    with open_writer(filled, wait=False) as writer:
        assert writer.commit() == 1


def test_a_reader_follows_new_generations(filled, make_source, make_cell):
    with Reader(filled) as reader:
        assert not reader.refresh()
        source = make_source("third")
        _add(filled, source, [make_cell(source)])
        assert queries.cells(reader, Filters()).num_rows == 6
        assert reader.refresh()
        assert (reader.generation, queries.cells(reader, Filters()).num_rows) == (2, 7)


def test_no_warehouse_says_how_to_make_one(warehouse_path):
    with pytest.raises(WarehouseMissing, match="draftboard ingest"):
        Reader(warehouse_path)


@pytest.mark.parametrize("what", ["list", "table", "no table"])
def test_a_foreign_file_in_place_of_ours_is_damage_and_nothing_is_removed(filled, what):
    name = current_name(filled)
    table = filled / "tables" / load(filled / name).of("cells")[0].file
    if what == "no table":
        table.unlink()
    else:
        (filled / name if what == "list" else table).write_bytes(b"not ours" * 1000)
    there = sorted(filled.rglob("*.*"))
    for _ in range(2):
        with pytest.raises(WarehouseDamaged):
            Reader(filled)
        with pytest.raises(WarehouseDamaged), open_writer(filled):
            pass
    assert sorted(filled.rglob("*.*")) == there


def test_a_missing_request_file_is_damage(filled):
    cell_id = _ids(filled)[0]
    for path in (filled / "requests").iterdir():
        path.unlink()
    with Reader(filled) as reader:
        with pytest.raises(WarehouseDamaged):
            queries.requests(reader, cell_id)
        with pytest.raises(WarehouseDamaged):
            queries.request_distribution(reader, cell_id, "ttft")


def test_an_older_schema_names_the_command_that_rebuilds_and_it_works(
    filled, make_source, make_cell
):
    save(filled, replace(load(filled / current_name(filled)), number=2, schema_version=2))
    command = f"draftboard ingest --rebuild --warehouse {filled}"
    with pytest.raises(WarehouseOutdated, match=command):
        Reader(filled)
    with pytest.raises(WarehouseOutdated), open_writer(filled):
        pass
    source = make_source("base")
    with open_writer(filled, rebuild=True) as writer:
        writer.add(source, [make_cell(source)])
        assert writer.commit() == 3
    assert len(_ids(filled)) == 1


def test_a_newer_schema_is_left_as_it_is(filled, make_source, make_cell):
    save(filled, replace(load(filled / current_name(filled)), number=2, schema_version=5))
    for opening in (open_writer, Reader):
        with pytest.raises(WarehouseOutdated, match="update Draftboard on this"), opening(filled):
            pass
    assert load(filled / current_name(filled)).schema_version == 5


def test_a_writer_deletes_nothing_where_current_is_lost(filled, make_source, make_cell):
    _add(filled, make_source("third"), [make_cell(make_source("third"))])
    newest = current_name(filled)
    (filled / "CURRENT").unlink()
    for opening in (open_writer, Reader):
        lost = pytest.raises(WarehouseDamaged, match=rf"{newest}\); write .* --rebuild")
        with lost, opening(filled):
            pass
    (filled / "CURRENT").write_text(newest)
    assert len(_ids(filled)) == 7


def test_a_current_that_names_nothing_is_damage_and_deletes_nothing(filled):
    there = current_name(filled)
    (filled / "CURRENT").write_text("generation-9-0123456789abcdef.json")
    with pytest.raises(WarehouseDamaged, match=there), open_writer(filled):
        pass
    (filled / "CURRENT").write_text(there)
    assert len(_ids(filled)) == 6


def test_a_rebuild_works_where_current_is_lost(filled, make_source, make_cell):
    source = make_source("third")
    _add(filled, source, [make_cell(source)])
    (filled / "CURRENT").unlink()
    with open_writer(filled, rebuild=True) as writer:
        writer.add(source, [make_cell(source)])
        assert writer.commit() == 3
    assert len(_ids(filled)) == 1


def test_a_first_commit_killed_before_current_is_completed(filled):
    (filled / "CURRENT").unlink()
    with open_writer(filled) as writer:
        assert writer.commit() == 1
    assert len(_ids(filled)) == 6


@pytest.mark.parametrize("rebuild", [True, False])
def test_a_replacement_that_is_not_committed_leaves_the_old_requests(
    filled, make_source, make_cell, make_requests, rebuild
):
    source = make_source("base")
    cell = make_cell(source)
    with open_writer(filled, rebuild=rebuild) as writer:
        writer.forget(source.source_id)
        writer.add(source, [make_cell(source, requests=make_requests(cell.cell_id, 3))])
    with Reader(filled) as reader:
        assert queries.requests(reader, cell.cell_id).num_rows == 20
    collected = [finding for finding in check(filled) if finding.name != "orphan"]
    assert collected == []


def test_a_replacement_never_overwrites_what_an_old_generation_reads(
    filled, make_source, make_cell
):
    before = {path: path.read_bytes() for path in (filled / "requests").iterdir()}
    with open_writer(filled):
        compact(filled)
    source = make_source("base")
    with open_writer(filled) as writer:
        for _ in range(2):
            writer.forget(source.source_id)
            writer.add(source, [make_cell(source, 0, 2.0)])
            writer.commit()
    assert {path: path.read_bytes() for path in before} == before
    assert {finding.name for finding in check(filled)} <= {"orphan"}


def test_an_error_of_the_database_is_one_sentence_and_keeps_what_was_there(
    filled, make_source, make_cell
):
    source = make_source("third")
    with open_writer(filled) as writer:
        writer.add(source, [make_cell(source)])
        writer.forget(make_source("base").source_id)
        file = filled / "tables" / load(filled / current_name(filled)).of("measurements")[0].file
        whole = file.read_bytes()
        file.write_bytes(whole[:500])
        with pytest.raises(DraftboardError, match=r"cannot be read .* warehouse check"):
            writer.commit()
        file.write_bytes(whole)
    assert len(_ids(filled)) == 6
    assert not list(filled.rglob("tmp-*"))


def test_only_two_old_generations_stay(filled):
    with open_writer(filled) as writer:
        for reason in "abcd":
            writer.reject(Rejection("x", reason))
            writer.commit()
    assert list(generations(filled).values()) == [3, 4, 5]
    assert len(list((filled / "tables").glob("rejections-*"))) == 3


def test_what_a_killed_writer_left_is_removed_by_the_next(filled):
    left = [
        filled / "tmp-1-generation-2-x.json",
        filled / "generation-2-0123456789abcdef.json",
        *(filled / folder / "tmp-1-x.parquet" for folder in ("requests", "tables")),
        filled / "tables" / f"cells-{'0' * 64}.parquet",
    ]
    for path in left:
        path.write_bytes(b"half")
    with open_writer(filled):
        pass
    assert not any(path.exists() for path in left)


def test_a_full_disk_is_a_sentence_and_keeps_what_was_there(tmp_path):
    with pytest.raises(DraftboardError, match="is full"), full_disk_explained(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
