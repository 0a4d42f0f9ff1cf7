"""A warehouse in a bucket: machines with homes of their own share it, and nothing is lost or twice."""

import os
import random
import threading
import time

import pytest
from msgspec.structs import replace

from warehouse import annotations, queries
from warehouse.errors import InvalidInput, LostRace, UnknownKey, WarehouseOutdated
from warehouse.filters import Filters
from warehouse.maintenance import check, collect_garbage
from warehouse.rows import Rejection
from warehouse.storage import lock
from warehouse.storage.cache import name_of, warehouse_path
from warehouse.storage.copies import clone, push, restore
from warehouse.storage.current import POLL_S, current_generation, current_name, pull, save
from warehouse.storage.lists import SCHEMA_VERSION, load
from warehouse.storage.lock import LINE
from warehouse.storage.objects import ObjectStore
from warehouse.store import Reader, open_writer


@pytest.fixture
def put(make_source, make_cell):
    """``put(writer, "name")``: take in a source of two cells, not committed yet."""

    def take_in(writer, name):
        source = make_source(name)
        return writer.add(source, [make_cell(source, i) for i in range(2)])

    return take_in


def held(root):
    """Names of the sources, number of cells and of rejections, with every request readable."""
    pull(root)
    with Reader(root) as reader:
        cells = queries.cells(reader, Filters()).column("cell_id").to_pylist()
        for cell in cells:
            assert queries.requests(reader, cell, ["index"]).num_rows == 20
        sources = queries.sources(reader).to_pylist()
        assert len(set(cells)) == len(cells)
        return sorted(row["path"] for row in sources), len(cells)


def test_what_one_machine_publishes_another_reads(bucket, put):
    with open_writer(bucket.at("writer")) as writer:
        put(writer, "one")
        writer.reject(Rejection("broken.json", "cut off"))
        assert writer.commit() == 1
    reader = bucket.at("reader")
    assert name_of(reader) == bucket.url
    assert held(reader) == held(bucket.at("writer"))
    assert not set(reader.parents) & set(bucket.at("writer").parents[:3])


def test_an_open_reader_sees_a_new_generation_and_fetches_only_what_is_new(bucket, put):
    with open_writer(bucket.at("writer")) as writer:
        put(writer, "one")
        writer.commit()
    root = bucket.at("reader")
    with Reader(root) as reader:
        with open_writer(bucket.at("writer")) as writer:
            put(writer, "two")
            writer.commit()
        before = {path.name for path in root.rglob("*.parquet")}
        bucket.front.requests.clear()
        until = time.monotonic() + 6 * POLL_S
        while reader.generation < 2 and time.monotonic() < until:
            reader.refresh()
            time.sleep(0.1)
        assert reader.generation == 2
    asked = " ".join(bucket.front.requests)
    assert not [name for name in before if name in asked]
    assert "requests/" not in asked
    assert held(root)[1] == 4


def test_two_writers_race_and_both_are_there(bucket, put):
    first, second = bucket.at("first"), bucket.at("second")
    with open_writer(first) as one, open_writer(second) as other:
        for writer, name in ((one, "one"), (other, "other")):
            put(writer, name)
            put(writer, "the same report")
            writer.reject(Rejection(f"broken {name}.json", "cut off"))
        assert one.commit() == 1
        assert other.commit() == 2
        put(one, "later")
        assert one.commit() == 3
    root = bucket.at("reader")
    names, cells = held(root)
    assert len(set(names)) == len(names) == 4
    assert cells == 8
    assert load(root / current_name(root)).rejections.rows == 2


def test_who_lost_a_race_stands_in_line_and_nobody_publishes_before(bucket, put, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE_S", 300.0)  # However busy the machine is.
    first, second = bucket.at("first"), bucket.at("second")
    store, published = ObjectStore(bucket.url), []

    def leave():
        published.append(store.get("CURRENT").text)
        store.remove([f"{LINE}/before"])

    with open_writer(first) as one, open_writer(second) as other:
        put(one, "one")
        one.commit()
        mine = current_name(first)
        store.send(b"", f"{LINE}/before")
        put(other, "other")
        left = threading.Timer(3.0, leave)
        left.start()
        assert other.commit() == 2
        left.join()
    assert published == [mine]
    assert store.entries(LINE) == []
    assert held(bucket.at("reader"))[1] == 4


def test_who_was_killed_in_the_line_holds_nobody_up_for_long(bucket, put, monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE_S", 0.5)
    store = ObjectStore(bucket.url)
    store.send(b"", f"{LINE}/killed")
    with open_writer(bucket.at("first")) as one:
        put(one, "one")
        assert one.commit() == 1
    assert store.entries(LINE) == []


def test_what_another_machine_took_back_stays_taken_back(bucket, put):
    with open_writer(bucket.at("first")) as one:
        one.reject(Rejection("gone.json", "cut off"))
        one.reject(Rejection("stays.json", "cut off"))
        one.commit()
        second = bucket.at("second")
        with open_writer(second) as other:
            one.unreject("gone.json")
            one.commit()
            put(other, "more")
            other.reject(Rejection("new.json", "cut off"))
            other.commit()
    pull(second)
    assert load(second / current_name(second)).rejections.rows == 2


def test_a_rebuild_that_lost_its_race_replaces_nothing(bucket, put):
    with open_writer(bucket.at("first")) as one:
        put(one, "one")
        one.commit()
        with open_writer(bucket.at("second"), rebuild=True) as other:
            put(other, "other")
            put(one, "two")
            one.commit()
            with pytest.raises(LostRace, match=r"published into s3://.* meanwhile.*again\.$"):
                other.commit()
    assert held(bucket.at("reader"))[1] == 4


def test_people_on_two_machines_write_notes_into_one_file(bucket, put):
    with open_writer(bucket.at("first")) as one:
        put(one, "one")
        one.commit()
    for home in ("first", "second", "first", "second"):
        event = annotations.annotation(
            "note", annotations.AnnotationTarget(night="2026-11-21"), f"by {home}", home
        )
        annotations.add(bucket.at(home), event)
    for home in ("first", "third"):
        root = bucket.at(home)
        pull(root)
        assert [event.author for event in annotations.read(root)] == ["first", "second"] * 2


def test_no_secret_is_kept_in_a_copy(bucket, put):
    with open_writer(bucket.at("writer")) as writer:
        put(writer, "one")
        writer.commit()
    files = [path for path in bucket.homes.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if b"a secret of the bucket" in path.read_bytes()]


@pytest.mark.slow
def test_a_copy_keeps_to_its_bound(bucket, put, monkeypatch):
    with open_writer(bucket.at("writer")) as writer:
        for name in ("one", "two"):
            put(writer, name)
            writer.commit()
    root = bucket.at("reader")
    held(root)
    assert len(list((root / "requests").iterdir())) == 2
    for path in (root / "requests").iterdir():
        os.utime(path, (1, 1))
    monkeypatch.setenv("DRAFTBOARD_CACHE_MB", "0")
    with open_writer(bucket.at("writer")) as writer:
        put(writer, "three")
        writer.commit()
    bucket.at("reader")
    pull(root)
    assert not list((root / "requests").iterdir())
    assert held(root)[1] == 6


@pytest.mark.slow
def test_what_a_copy_does_not_need_any_more_goes(bucket, put):
    with open_writer(bucket.at("writer")) as writer:
        for number in range(6):
            put(writer, f"number {number}")
            writer.commit()
            pull(bucket.at("reader"))
    root = bucket.at("reader")
    assert len(list(root.glob("generation-*.json"))) == 3
    collect_garbage(root, current_generation(root), grace=0)
    assert held(root)[1] == 12


def test_a_file_url_is_the_folder(tmp_path):
    assert warehouse_path(f"file://{tmp_path}/x") == tmp_path / "x"


@pytest.mark.slow
def test_a_folder_is_pushed_cloned_checked_and_brought_back(bucket, put, filled, tmp_path):
    root = bucket.at("writer")
    assert push(filled, root) > 5
    with pytest.raises(InvalidInput, match="holds a warehouse already"):
        push(filled, root)
    with open_writer(root) as writer:
        put(writer, "one more")
        last = writer.commit()
    reader = bucket.at("reader")
    assert clone(reader, tmp_path / "clone") > 5
    assert check(tmp_path / "clone") == check(reader) == []
    with Reader(tmp_path / "clone") as cloned, Reader(filled) as before:
        assert cloned.generation == last
        former, more = (one.query("overview").to_pylist()[0]["cells"] for one in (before, cloned))
        assert more == former + 2
    assert restore(reader, str(last - 1)) == last + 1
    pull(root)
    with Reader(root) as reader:
        assert reader.query("overview").to_pylist()[0]["cells"] == former
    store = ObjectStore(bucket.url)
    (tmp_path / "other").write_bytes(b"by hand")
    listed = load(root / current_name(root)).files()[0].file
    store.send(tmp_path / "other", f"tables/{listed}")
    assert [one.name for one in check(root)] == ["altered"]


def test_a_broken_pointer_is_mended_by_going_back(bucket, put, tmp_path):
    with open_writer(bucket.at("writer")) as writer:
        put(writer, "one")
        writer.commit()
    store = ObjectStore(bucket.url)
    (tmp_path / "new").write_text("nonsense")
    store.send(tmp_path / "new", "CURRENT")
    assert restore(bucket.at("reader"), "1") == 2
    store.remove(["CURRENT"])
    assert restore(bucket.at("reader"), "2") == 3
    assert held(bucket.at("third"))[1] == 2
    with pytest.raises(UnknownKey, match=r"has no generation 9; there are: 1, 2, 3\.$"):
        restore(bucket.at("reader"), "9")


def test_a_writer_of_an_older_layout_is_refused_and_nothing_is_lost(bucket, put):
    newer = bucket.at("newer")
    with open_writer(bucket.at("older")) as older:
        put(older, "one")
        older.commit()
        put(older, "two")
        pull(newer)
        found = load(newer / current_name(newer))
        save(newer, replace(found, number=2, schema_version=SCHEMA_VERSION + 1))
        with pytest.raises(WarehouseOutdated, match=rf"{bucket.url} has .*: update Draftboard on"):
            older.commit()
    pull(bucket.at("reader"))
    assert current_generation(bucket.at("reader")) == 2
    with pytest.raises(WarehouseOutdated), open_writer(bucket.at("older")):
        pass
    assert restore(newer, "1") == 3
    with open_writer(bucket.at("older")) as updated:
        put(updated, "two")
        updated.commit()
    assert len(held(bucket.at("reader"))[0]) == 2


@pytest.mark.slow
def test_writers_on_two_machines_at_once_lose_nothing_and_add_nothing_twice(bucket, start):
    children = []
    for home in ("first", "second"):
        bucket.at(home)
        children.append(start("ingest", bucket.url, 6, home))
    for child in children:
        child.communicate()
        assert child.returncode == 0
    names, cells = held(bucket.at("reader"))
    assert len(set(names)) == len(names) == 12
    assert cells == 24


def killed_again_and_again(bucket, start, times):
    """Kill a writer so many times at random moments, then let it finish.

    One that was faster than its end has more to do the next time: a kill of nothing would show nothing.
    """
    moments, killed, sources = random.Random(3), 0, 8
    bucket.at("writer")
    while killed < times:
        child = start("ingest", bucket.url, sources)
        time.sleep(moments.uniform(0, 2))
        child.kill()
        child.communicate()
        killed += child.returncode == -9
        sources += 0 if child.returncode == -9 else 8
    child = start("ingest", bucket.url, sources)
    child.communicate()
    assert child.returncode == 0
    names, cells = held(bucket.at("reader"))
    assert len(set(names)) == len(names) == sources
    assert cells == 2 * sources


@pytest.mark.slow
def test_a_writer_killed_at_random_loses_nothing(bucket, start):
    killed_again_and_again(bucket, start, 3)


@pytest.mark.long
def test_a_writer_killed_fifty_times_at_random_loses_nothing(bucket, start):
    killed_again_and_again(bucket, start, 50)
