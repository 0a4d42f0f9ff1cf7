"""The machine that removes what an object store does not need: one at a time, and everybody can see what.

It holds the object ``collecting.json``, which names what is about to go. A writer that is about to list
one of these names waits until it has gone, and uploads it again.
"""

import json
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import WarehouseBusy
from warehouse.store_files import PRIVATE

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

COLLECTING = "collecting.json"
#: In a copy: by what its store knows it, so that it goes on where it was killed.
_NAME = "remote-name"
#: Who has not shown for so long that it is at work was killed.
_DEAD = timedelta(minutes=15)
#: Seconds for which a writer waits for a name to go.
_PATIENCE_S = 60.0


@dataclass
class Turn:
    """The right to remove objects, for as long as nobody takes it away; ``tag``: of the object."""

    store: "ObjectStore"
    machine: str
    tag: str

    def announce(self, names: Collection[str]) -> None:
        """Say what is about to be removed, and that this machine is at work. Raises WarehouseBusy where
        another one took over."""
        content = _content(self.machine, names)
        tag = self.store.replace(COLLECTING, content, self.tag)
        if tag is None:
            # Where the answer was cut it was asked again, and met itself.
            found = self.store.get(COLLECTING)
            if found is None or found.content != content:
                raise _busy(self.store)
            tag = found.tag
        self.tag = tag


@contextmanager
def turn_to_collect(root: Path, store: "ObjectStore") -> Iterator[Turn]:
    """Be the one machine that removes. Only under the writer's lock of the copy.

    Raises WarehouseBusy where another one is at work. What this machine left when it was killed is taken
    over at once, what another one left after a quarter of an hour.
    """
    place = root / _NAME
    if not place.exists():
        place.write_text(secrets.token_hex(8), encoding="utf-8")
    machine = place.read_text(encoding="utf-8")
    # Made on a condition: what is there is somebody's.
    tag = store.replace(COLLECTING, _content(machine, ()), None) or _taken_over(store, machine)
    turn = Turn(store, machine, tag)
    try:
        yield turn
    finally:
        if _holder(store) == machine:
            store.remove([COLLECTING])


def wait_for(store: "ObjectStore", names: Collection[str]) -> None:
    """Wait until none of these names is about to be removed. Raises WarehouseBusy where that takes too
    long."""
    until = time.monotonic() + _PATIENCE_S
    while not _read(store)[1].isdisjoint(names):
        if time.monotonic() > until:
            raise _busy(store)
        time.sleep(1)


def _taken_over(store: "ObjectStore", machine: str) -> str:
    found = store.get(COLLECTING)
    if found is None or (_holder(store) != machine and not _is_dead(store)):
        raise _busy(store)
    tag = store.replace(COLLECTING, _content(machine, ()), found.tag)
    if tag is None:
        raise _busy(store)
    return tag


def _is_dead(store: "ObjectStore") -> bool:
    """Return whether the holder was killed, by the clock of the store alone."""
    probe = f"{PRIVATE}{secrets.token_hex(8)}"
    store.replace(probe, b"", None)
    times: dict[str, datetime] = {one.name: one.modified for one in store.entries()}
    store.remove([probe])
    return COLLECTING not in times or times[probe] - times[COLLECTING] > _DEAD


def _holder(store: "ObjectStore") -> str | None:
    return _read(store)[0]


def _read(store: "ObjectStore") -> tuple[str | None, frozenset[str]]:
    found = store.get(COLLECTING)
    try:
        said = {} if found is None else json.loads(found.content)
        return said.get("machine"), frozenset(said.get("going", ()))
    except (ValueError, AttributeError, TypeError):
        return None, frozenset()


def _content(machine: str, names: Collection[str]) -> bytes:
    return json.dumps({"machine": machine, "going": sorted(names)}).encode()


def _busy(store: "ObjectStore") -> WarehouseBusy:
    return WarehouseBusy(
        f"Another machine is removing what {store.url} does not need any more, or was killed while it "
        "did; nothing was changed: run the same command again, and draftboard warehouse gc where that "
        "does not help within a quarter of an hour."
    )
