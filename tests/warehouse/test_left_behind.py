"""What a kill, a failure or an older generation leaves behind, and who removes it."""

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from warehouse import queries
from warehouse.filters import Filters
from warehouse.maintenance import check, collect_garbage
from warehouse.storage.copies import export
from warehouse.storage.current import current_generation, placed
from warehouse.storage.draft import private_requests
from warehouse.store import Reader, open_writer

HOURS_AGO = time.time() - 7200


def _commit(root: Path, make_source: Any, make_cell: Any, name: str) -> None:
    source = make_source(name)
    with open_writer(root) as writer:
        writer.add(source, [make_cell(source)])
        writer.commit()


def _collected(root: Path) -> list[str]:
    number = current_generation(root)
    assert number is not None
    return collect_garbage(root, number)


def test_gc_counts_its_grace_from_when_a_file_was_unlisted(
    filled: Path, make_source: Any, make_cell: Any
) -> None:
    for path in (filled / "requests").iterdir():
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    (replaced,) = (p.name for p in (filled / "requests").iterdir() if _is_of(filled, p, "base"))
    with open_writer(filled) as writer:
        writer.forget(make_source("base").source_id)
        writer.commit()
    for name in ("one", "two", "three"):
        _commit(filled, make_source, make_cell, name)

    assert replaced not in _collected(filled)
    assert (filled / "requests" / replaced).exists()

    os.utime(filled / "requests" / replaced, (HOURS_AGO, HOURS_AGO))
    assert replaced in _collected(filled)
    assert check(filled) == []


def _is_of(root: Path, path: Path, name: str) -> bool:
    with Reader(root) as reader:
        rows = queries.cells(reader, Filters()).to_pylist()
    source = {row["cell_id"]: row["source_id"] for row in rows}
    wanted = hashlib.sha256(name.encode()).hexdigest()
    first = pq.read_table(path, columns=["cell_id"]).column("cell_id")[0].as_py()
    return source[first] == wanted


def test_a_writer_that_fails_leaves_no_request_file(
    filled: Path, make_source: Any, make_cell: Any
) -> None:
    before = sorted(path.name for path in (filled / "requests").iterdir())
    source = make_source("third")

    def fail() -> None:
        with open_writer(filled) as writer:
            writer.add(source, [make_cell(source)])
            raise RuntimeError("after it was read")

    with pytest.raises(RuntimeError):
        fail()
    assert sorted(path.name for path in (filled / "requests").iterdir()) == before
    assert check(filled) == []


def test_the_next_writer_removes_what_a_publication_that_was_killed_had_named(
    filled: Path,
) -> None:
    stray = private_requests(filled)
    stray.write_bytes(b"of a generation that never came")
    listed = sorted((filled / "requests").glob("*.parquet"))[0].name

    def die() -> None:
        with placed(filled, {stray: "0" * 64 + ".parquet"}):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        die()
    assert (filled / "requests" / ("0" * 64 + ".parquet")).exists()
    with open_writer(filled):
        pass
    assert check(filled) == []
    assert (filled / "requests" / listed).exists()
    assert not list(filled.glob("placing*"))


@pytest.mark.parametrize("name", ["all", "all.duckdb"])
def test_an_export_removes_what_a_killed_one_left_and_not_one_at_work(
    filled: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    left, at_work, foreign = (
        out / "tmp-4194304-draftboard-all", out / "tmp-4194305-draftboard-all", out / "tmp-1-notes",
    )  # fmt: skip
    for folder in (left, at_work, foreign):
        folder.mkdir(parents=True)
        (folder / "half.parquet").write_bytes(b"half")
    descriptor = os.open(at_work, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    export(filled, out / name)

    os.close(descriptor)
    assert {path.name for path in out.iterdir()} == {name, at_work.name, foreign.name}


@pytest.mark.slow
def test_an_export_that_is_killed_leaves_nothing_to_the_next(filled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import sys, time; from pathlib import Path; from warehouse.storage import copies\n"
        "copies.shutil.copy2 = lambda *files: time.sleep(600)\n"
        "copies.export(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    words = [sys.executable, "-c", script, str(filled), str(out / "first")]
    with subprocess.Popen(words, cwd=Path(__file__).parents[2]) as process:
        while not list(out.glob("tmp-*/first/cells.parquet")):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    assert list(out.glob("tmp-*"))
    export(filled, out / "second")
    assert [path.name for path in out.iterdir()] == ["second"]


def test_a_writer_that_comes_back_at_once_lets_another_go_first(filled: Path) -> None:
    order = []
    stands_in_line = threading.Event()

    def other() -> None:
        with open_writer(filled, while_waiting=stands_in_line.set):
            order.append("other")

    waiting = threading.Thread(target=other)
    with open_writer(filled):
        waiting.start()
        assert stands_in_line.wait(60)
    with open_writer(filled):
        order.append("first again")
    waiting.join()
    assert order == ["other", "first again"]
