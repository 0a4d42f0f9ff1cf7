"""An ingest that is killed anywhere, again and again, ends where a clean one ends."""

import random
import time

import pyarrow.parquet as pq
import pytest

from warehouse.maintenance import check, collect_garbage
from warehouse.storage.current import current_generation
from warehouse.storage.draft import BATCHES
from warehouse.store import open_newest

SOURCES, KILLS = 15, 15
TABLES = (*BATCHES, "meta", "rejections")
TIMES = ("ingested_at", "rejected_at")


def _content(root):
    """Every row of every table without times, and of every request file that is there."""
    with open_newest(root) as opened:
        tables = {n: opened.connection.sql(f"from store.{n}").to_arrow_table() for n in TABLES}
    found = {
        name: sorted(map(repr, table.drop_columns(set(TIMES) & {*table.column_names}).to_pylist()))
        for name, table in tables.items()
    }
    for path in (root / "requests").iterdir():
        found[path.name] = pq.read_table(path).to_pylist()
    return found


def _seconds_of_a_clean_run(start, root):
    child = start("ingest", root, SOURCES)
    begin = time.perf_counter()
    child.communicate()
    assert child.returncode == 0
    return time.perf_counter() - begin


@pytest.mark.slow
def test_an_ingest_killed_at_random_moments_ends_as_a_clean_one(tmp_path, start):
    longest = _seconds_of_a_clean_run(start, tmp_path / "clean")
    moments = random.Random(2)
    killed = 0
    for _ in range(KILLS):
        child = start("ingest", tmp_path / "killed", SOURCES)
        time.sleep(moments.uniform(0, longest / 4))
        child.kill()
        child.communicate()
        killed += child.returncode == -9
    _seconds_of_a_clean_run(start, tmp_path / "killed")
    assert killed >= 5
    collect_garbage(tmp_path / "killed", current_generation(tmp_path / "killed"), grace=0)
    assert check(tmp_path / "killed") == []
    assert _content(tmp_path / "killed") == _content(tmp_path / "clean")
    assert not list((tmp_path / "killed").rglob("tmp-*"))
