"""Readers beside a writer see whole generations only; two writers take turns."""

import json
import runpy
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warehouse.errors import WarehouseBusy
from warehouse.storage.current import current_generation
from warehouse.storage.lock import WriterLock
from warehouse.store import open_writer

CHILD = runpy.run_path(str(Path(__file__).with_name("child.py")))
SECONDS = 4


@pytest.mark.slow
def test_readers_beside_a_writer_see_whole_generations_that_never_go_back(warehouse_path, start):
    CHILD["ingest"](warehouse_path, 1)
    writer = start("ingest", warehouse_path, 100_000)
    other = start("read", warehouse_path, SECONDS)
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(CHILD["read"], [warehouse_path] * 2, [SECONDS] * 2))
    text, _ = other.communicate()
    assert writer.poll() is None
    seen.append(json.loads(text))
    for one in seen:
        assert one["wrong"] == []
        assert one["reads"] > CHILD["ENOUGH"]
        assert 1 < one["newest"] <= current_generation(warehouse_path)


def test_a_second_writer_waits_with_a_message_and_then_writes(filled, start):
    holder = start("hold", filled)
    assert holder.stdout.readline() == "holding\n"
    said: list[str] = []

    def let_go(sentence: str) -> None:
        said.append(sentence)
        threading.Timer(0.2, holder.stdin.close).start()

    with open_writer(filled, on_wait=let_go) as writer:
        assert writer.commit() == 1
    assert said == [f"Process {holder.pid} is writing to {filled}; waiting for it."]


def test_a_second_writer_that_may_not_wait_is_refused(filled, start):
    holder = start("hold", filled)
    assert holder.stdout.readline() == "holding\n"
    with pytest.raises(WarehouseBusy, match="--no-wait"), open_writer(filled, wait=False):
        pass


def test_a_lock_is_let_go_though_the_name_of_its_holder_stays(filled):
    holder = filled / "lock.holder"
    with WriterLock(filled).held(wait=False, on_wait=None):
        holder.unlink()
        holder.mkdir()
    with WriterLock(filled).held(wait=False, on_wait=None):
        assert holder.is_dir()


def test_the_lock_of_a_killed_writer_is_free(filled, start):
    holder = start("hold", filled)
    assert holder.stdout.readline() == "holding\n"
    holder.kill()
    holder.wait()
    with open_writer(filled, wait=False) as writer:
        assert writer.commit() == 1
