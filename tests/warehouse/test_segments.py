"""A generation is a list of immutable files: what a commit writes, merges, keeps and removes."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warehouse import queries
from warehouse.filters import Filters
from warehouse.maintenance import check, compact
from warehouse.storage.current import current_generation, current_name
from warehouse.storage.lists import generations, load
from warehouse.storage.tables import CROWD
from warehouse.store import Reader, open_writer

Add = Callable[..., None]


@pytest.fixture
def add(make_source: Any, make_cell: Any) -> Add:
    """``add(root, first, last, cells)``: sources of so many cells, all in one commit."""

    def fill(root: Path, first: int, last: int, cells: int = 1) -> None:
        with open_writer(root) as writer:
            for number in range(first, last):
                source = make_source(f"source {number}")
                made = (make_cell(source, i, facts={"concurrency": 1 + i}) for i in range(cells))
                writer.add(source, made)
            writer.commit()

    return fill


def segments(root: Path) -> list[int]:
    return [segment.cells for segment in load(root / (current_name(root) or "")).segments]


def sizes(root: Path) -> dict[str, int]:
    found = (path for folder in ("", "tables", "requests") for path in (root / folder).glob("*.*"))
    return {path.name: path.stat().st_size for path in found}


def written(root: Path, change: Callable[[], None]) -> int:
    """Bytes of the files that ``change`` made."""
    before = sizes(root)
    change()
    return sum(size for name, size in sizes(root).items() if name not in before)


def seen(reader: Reader) -> tuple[list[Any], ...]:
    """Everything of every cell, its requests too."""
    cells = queries.cells(reader, Filters())
    ids = cells.column("cell_id").to_pylist()
    measured = queries.measurements(reader, Filters(), ["output_throughput", "ttft"], ["mean"])
    return (
        cells.to_pylist(), measured.to_pylist(), queries.flags(reader, ids).to_pylist(),
        queries.acceptance_by_position(reader, Filters()).to_pylist(),
        [queries.requests(reader, one).to_pylist() for one in ids],
    )  # fmt: skip


def test_one_report_costs_as_many_bytes_in_a_full_warehouse_as_in_an_empty_one(
    tmp_path: Path, add: Add
) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    add(full, 0, 40, 8)
    everything = sum(sizes(full).values())
    ours = written(full, lambda: add(full, 40, 41, 8))
    alone = written(empty, lambda: add(empty, 40, 41, 8))
    assert ours <= 1.1 * alone
    assert ours <= 0.1 * everything


def test_every_name_holds_the_hash_of_its_content_and_none_ever_changes(
    tmp_path: Path, add: Add
) -> None:
    add(tmp_path, 0, 3)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    for number in range(3, 12):
        add(tmp_path, number, number + 1)
    files = [p for p in tmp_path.rglob("*.*") if p.suffix in (".parquet", ".json")]
    for path in files:
        assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] in path.name
        assert before.get(path, path.read_bytes()) == path.read_bytes()


def test_many_small_commits_are_merged_and_every_row_stands_once(tmp_path: Path, add: Add) -> None:
    many, once = tmp_path / "many", tmp_path / "once"
    for number in range(2 * CROWD + 1):
        add(many, number, number + 1)
    add(once, 0, 2 * CROWD + 1)
    assert segments(many) == [CROWD, CROWD, 1]
    assert check(many) == []
    with Reader(many) as one, Reader(once) as other:
        for mine, theirs in zip(seen(one), seen(other), strict=True):
            assert [without_time(row) for row in mine] == [without_time(row) for row in theirs]


def without_time(row: Any) -> Any:
    return {**row, "ingested_at": None} if isinstance(row, dict) else row


def test_compact_makes_one_segment_and_changes_no_row(tmp_path: Path, add: Add) -> None:
    for number in range(5):
        add(tmp_path, number, number + 1)
    with Reader(tmp_path) as reader:
        before = seen(reader)
        with open_writer(tmp_path):
            assert compact(tmp_path) == 5
        assert seen(reader) == before
        assert reader.refresh()
        assert seen(reader) == before
    assert segments(tmp_path) == [5]
    with open_writer(tmp_path):
        assert compact(tmp_path) == 0
    assert current_generation(tmp_path) == 6


def test_a_source_that_is_replaced_leaves_the_others_of_its_segment(
    tmp_path: Path, add: Add, make_source: Any, make_cell: Any
) -> None:
    add(tmp_path, 0, 4)
    source = make_source("source 2")
    with open_writer(tmp_path) as writer:
        writer.forget(source.source_id)
        writer.add(source, [make_cell(source, 0, 9.0)])
        writer.commit()
    assert segments(tmp_path) == [3, 1]
    assert check(tmp_path) == []
    with Reader(tmp_path) as reader:
        rows = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"]).to_pylist()
        assert sorted(row["value"] for row in rows) == [1000.0, 1000.0, 1000.0, 9000.0]
        assert queries.sources(reader).num_rows == 4


def test_a_source_that_is_forgotten_alone_takes_its_segment_with_it(
    tmp_path: Path, add: Add, make_source: Any
) -> None:
    add(tmp_path, 0, 1)
    add(tmp_path, 1, 2)
    with open_writer(tmp_path) as writer:
        writer.forget(make_source("source 0").source_id)
        writer.commit()
    assert segments(tmp_path) == [1]


def test_cells_keep_their_numbers_apart_after_a_source_was_dropped_before_its_commit(
    tmp_path: Path, make_source: Any, make_cell: Any
) -> None:
    with open_writer(tmp_path) as writer:
        for number in range(3):
            source = make_source(f"source {number}")
            writer.add(source, [make_cell(source)])
        writer.forget(make_source("source 0").source_id)
        writer.commit()
        source = make_source("source 3")
        writer.add(source, [make_cell(source)])
        writer.commit()
    with Reader(tmp_path) as reader:
        found = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"])
        assert len(set(found.column("cell_id").to_pylist())) == found.num_rows == 3


def test_files_stay_while_a_reader_of_an_old_generation_is_at_work_and_go_after(
    tmp_path: Path, add: Add
) -> None:
    add(tmp_path, 0, 1)
    with Reader(tmp_path) as reader:
        before = seen(reader)
        for number in range(1, 2 * CROWD):
            add(tmp_path, number, number + 1)
            assert seen(reader) == before
        assert 1 in generations(tmp_path).values()
    del reader
    add(tmp_path, 50, 51)
    assert 1 not in generations(tmp_path).values()
    assert len(generations(tmp_path)) == 3
    listed = {f.file for name in generations(tmp_path) for f in load(tmp_path / name).files()}
    assert {path.name for path in (tmp_path / "tables").iterdir()} == listed


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path, add: Add) -> None:
    root = tmp_path / "night [1]* it's"
    add(root, 0, 2)
    with Reader(root) as reader:
        assert len(seen(reader)[0]) == 2
