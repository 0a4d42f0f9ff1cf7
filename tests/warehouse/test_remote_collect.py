"""What nobody needs any more goes from a bucket; what a generation lists, or a reader reads, does not."""

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warehouse import queries
from warehouse.errors import WarehouseBusy, WarehouseUnreachable
from warehouse.filters import Filters
from warehouse.maintenance import check, collect_garbage
from warehouse.storage.collect import right_to_collect
from warehouse.storage.copies import restore
from warehouse.storage.current import COLLECTING, current_generation, pull
from warehouse.storage.objects import ObjectStore
from warehouse.store import Reader, open_writer

Put = Callable[..., None]


@pytest.fixture
def put(bucket: Any, make_source: Any, make_cell: Any) -> Put:
    """``put("home", "name", forget="other")``: commit one source there, another one taken out."""

    def commit(home: str, name: str | None = None, forget: str | None = None) -> None:
        with open_writer(bucket.at(home)) as writer:
            if forget is not None:
                writer.forget(make_source(forget).source_id)
            if name is not None:
                source = make_source(name)
                writer.add(source, [make_cell(source, i) for i in range(2)])
            writer.commit()

    return commit


def _collected(bucket: Any, home: str = "tidy", grace: float = 0) -> list[str]:
    root = bucket.at(home)
    with open_writer(root):
        return collect_garbage(root, current_generation(root) or 0, grace)


def _there(bucket: Any, folder: str | None = None) -> set[str]:
    return {one.name for one in ObjectStore(bucket.url).entries(folder)}


def _sources(root: Path) -> list[str]:
    """Return the paths of the sources, all of whose requests could be read."""
    pull(root)
    assert check(root) == []
    with Reader(root) as reader:
        for cell in queries.cells(reader, Filters()).column("cell_id").to_pylist():
            assert queries.requests(reader, cell, ["index"]).num_rows == 20
        return sorted(row["path"] for row in queries.sources(reader).to_pylist())


@pytest.mark.slow
def test_old_generations_go_with_what_only_they_list_and_nothing_else(
    bucket: Any, put: Put
) -> None:
    put("writer", "gone")
    (former,) = _there(bucket, "requests")
    put("writer", "stays", forget="gone")
    for number in range(3):
        put("writer", f"number {number}")
    before = _sources(bucket.at("reader"))

    removed = _collected(bucket)

    assert former in removed
    assert former not in _there(bucket)
    assert len([name for name in removed if name.startswith("generation-")]) == 2
    assert COLLECTING not in _there(bucket)
    assert _sources(bucket.at("reader")) == _sources(bucket.at("new")) == before
    assert restore(bucket.at("writer"), "4") == 7


def test_what_needs_nothing_removed_is_left_as_it_is(bucket: Any, put: Put) -> None:
    put("writer", "one")
    before = _there(bucket) | {"unlisted.json"}
    assert _collected(bucket) == []
    assert _there(bucket) == before
    assert current_generation(bucket.at("reader")) == 1


@pytest.mark.slow
def test_grace_counts_from_when_a_file_was_unlisted_and_an_old_reader_reads_on(
    bucket: Any, put: Put
) -> None:
    grace = 2.0
    put("writer", "replaced")
    (former,) = _there(bucket, "requests")
    root = bucket.at("reader")
    with Reader(root) as reader:
        for number in range(3):
            put("writer", f"number {number}", forget="replaced")
        time.sleep(grace)
        removed = _collected(bucket, grace=grace)
        # The file is older than the grace, its being unlisted is not.
        assert [name.partition("-")[0] for name in removed] == ["generation"]
        assert former in _there(bucket)
        (cell, _) = queries.cells(reader, Filters()).column("cell_id").to_pylist()
        assert queries.requests(reader, cell, ["index"]).num_rows == 20
        time.sleep(grace)
        assert former in _collected(bucket, grace=grace)
    assert len(_sources(root)) == 3


@pytest.mark.slow
def test_who_publishes_a_file_that_is_just_being_removed_uploads_it_again(
    bucket: Any, put: Put
) -> None:
    put("writer", "comes back")
    (former,) = _there(bucket, "requests")
    for number in range(3):
        put("writer", f"number {number}", forget="comes back")
    removed = []

    def collect_first(handler: Any, body: bytes) -> Any:
        removed.extend(_collected(bucket))
        return handler.forward(body)

    bucket.front.fail("PUT .*CURRENT", collect_first, times=1)
    put("writer", "comes back")

    assert former in removed
    assert former in _there(bucket, "requests")
    assert len(_sources(bucket.at("reader"))) == 4


def test_who_publishes_waits_until_what_he_lists_has_gone(bucket: Any, put: Put) -> None:
    put("writer", "comes back")
    (former,) = _there(bucket, "requests")
    put("writer", "other", forget="comes back")
    store, root = ObjectStore(bucket.url), bucket.at("tidy")
    publishing = threading.Thread(target=put, args=("writer", "comes back"))
    with right_to_collect(root, store) as turn:
        turn.announce([former])
        bucket.front.requests.clear()
        publishing.start()
        while not [one for one in bucket.front.requests if f"/{COLLECTING}" in one]:
            assert publishing.is_alive()
            time.sleep(0.02)
        store.remove([former])
        assert not [one for one in bucket.front.requests if one.startswith("PUT")]
    publishing.join()
    assert len(_sources(bucket.at("reader"))) == 2


def test_who_waits_in_vain_is_told_and_nothing_is_changed(
    bucket: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("writer", "one")
    put("writer", "two", forget="one")
    store = ObjectStore(bucket.url)
    monkeypatch.setattr("warehouse.storage.current._PATIENCE_S", 0)
    with right_to_collect(bucket.at("tidy"), store) as turn:
        turn.announce(_there(bucket, "requests"))
        with pytest.raises(WarehouseBusy, match=rf"{bucket.url} does not need any more"):
            put("writer", "one")
        with pytest.raises(WarehouseBusy, match="Another machine is removing"):
            _collected(bucket, "other")
    assert len(_sources(bucket.at("reader"))) == 1


def test_who_was_taken_over_removes_nothing_more(bucket: Any, put: Put) -> None:
    put("writer", "one")
    store = ObjectStore(bucket.url)

    def removes() -> None:
        with right_to_collect(bucket.at("slow"), store) as turn:
            store.send(json.dumps({"machine": "another", "going": []}).encode(), COLLECTING)
            turn.announce(["requests/x.parquet"])

    with pytest.raises(WarehouseBusy):
        removes()
    assert COLLECTING in _there(bucket), "it is another's now"


def _refused_in_the_middle(handler: Any, body: bytes) -> Any:
    if handler.command == "POST" and b"requests/" not in body:
        return handler.forward(body)
    return 403, {}, b"<Error><Code>AccessDenied</Code></Error>"


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["POST .*delete", "PUT .*CURRENT", "PUT .*unlisted"])
def test_what_was_broken_off_is_done_by_the_next_one(bucket: Any, put: Put, pattern: str) -> None:
    put("writer", "gone")
    for number in range(3):
        put("writer", f"number {number}", forget="gone")
    before = _sources(bucket.at("reader"))
    bucket.front.fail(pattern, _refused_in_the_middle)
    with pytest.raises(WarehouseUnreachable):
        _collected(bucket)
    bucket.front.heal()
    assert _sources(bucket.at("reader")) == before

    assert _collected(bucket)
    assert len(_there(bucket, "requests")) == 3
    assert _sources(bucket.at("new")) == before


@pytest.mark.slow
def test_killed_at_random_beside_a_writer_it_can_be_run_again_and_loses_nothing(
    bucket: Any, put: Put, start: Callable[..., Any]
) -> None:
    moments, killed = random.Random(7), 0
    for number in range(5):
        put("writer", f"number {number}", forget=f"number {number - 1}")
    bucket.at("ingest")
    writing = start("ingest", bucket.url, 6)
    for _ in range(4):
        bucket.at("tidy")
        child = start("collect", bucket.url)
        time.sleep(moments.uniform(0, 1.5))
        child.kill()
        child.communicate()
        killed += child.returncode == -9
    assert killed

    _collected(bucket)
    writing.communicate()
    assert writing.returncode == 0
    assert len(_sources(bucket.at("reader"))) == 7
    assert COLLECTING not in _there(bucket)
