"""Who writes for long lets others write in between, and goes on from what they left."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ingest import pipeline
from ingest.discovery import find_units
from ingest.model import IngestOptions, Unit
from ingest.pipeline import IngestOutcome, ingest_units
from warehouse.errors import WarehouseBusy
from warehouse.storage.current import current_generation
from warehouse.storage.tables import held_sources
from warehouse.store import open_writer

MANY = 24


@pytest.fixture
def units(write: Any, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(pipeline, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(pipeline, "_ASKING_SECONDS", 0.0)
    for number in range(MANY):
        write(f"in/{number:02}.json", bench(max_concurrency=number + 1))
    return list(find_units([tmp_path / "in"]))


class Other:
    """Somebody else who writes, from the first unit on, until he may go; ``found``: the number of
    sources that he saw."""

    def __init__(self, root: Path) -> None:
        self.found = -1
        self.may_go = threading.Event()
        self._root = root
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with open_writer(self._root, on_wait=lambda _: self._waits.set()):
            self.found = len(held_sources(self._root))
            self.may_go.wait(20)

    def comes(self, store: Any) -> None:
        if self._thread.ident is not None:
            return
        self._thread.start()
        # He passes through the line once before he stays in it.
        assert self._waits.wait(20)
        until = time.monotonic() + 20
        while not store.is_awaited:
            assert time.monotonic() < until
            time.sleep(0.01)

    def leaves(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_another_writer_gets_its_turn_while_a_long_ingest_goes_on(
    units: list[Unit], tmp_path: Path
) -> None:
    root = tmp_path / "w"
    other = Other(root)
    other.may_go.set()
    with open_writer(root) as store:
        outcome = ingest_units(units, store, IngestOptions(), lambda _: other.comes(store))
        other.leaves()
    assert 0 < other.found < MANY
    assert (outcome.accepted, outcome.rejected) == (MANY, [])
    assert outcome.generation == current_generation(root)
    assert len(held_sources(root)) == MANY


def test_what_another_took_in_meanwhile_is_known(units: list[Unit], tmp_path: Path) -> None:
    root = tmp_path / "w"
    theirs: list[IngestOutcome] = []

    def take_in() -> None:
        with open_writer(root) as store:
            theirs.append(ingest_units(reversed(units), store, IngestOptions()))

    other = threading.Thread(target=take_in)
    with open_writer(root) as store:
        other.start()
        ours = ingest_units(units, store, IngestOptions())
    other.join(60)
    assert ours.accepted + theirs[0].accepted == MANY
    assert ours.known + theirs[0].known == MANY
    assert len(held_sources(root)) == MANY


def test_who_gives_up_waiting_for_his_next_turn_keeps_what_he_took_in(
    units: list[Unit], tmp_path: Path
) -> None:
    root = tmp_path / "w"
    other = Other(root)
    done: list[Unit] = []

    def no_more() -> None:
        raise WarehouseBusy("Another process is writing.")

    def advance(unit: Unit) -> None:
        done.append(unit)
        other.comes(store)

    with open_writer(root, while_waiting=no_more) as store:
        outcome = ingest_units(units, store, IngestOptions(), advance)
        assert 0 < outcome.accepted == len(done) < MANY
    other.may_go.set()
    other.leaves()
    assert len(held_sources(root)) == outcome.accepted
