"""Removing from an object store what nobody needs any more, beside writers on other machines.

One machine does it at a time: it holds the object ``collecting.json``, which names what is about to go. A
writer that is about to list one of these names waits until it has gone, and uploads it again. Then what the
newest generation holds is published as a new one: whoever was publishing at that moment loses the race and
begins again, so nobody lists what goes, however long an upload takes.
"""

import json
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from warehouse.errors import LostRace, WarehouseDamaged
from warehouse.storage.cache import each, store_of
from warehouse.storage.current import (
    COLLECTING,
    announced,
    collecting_elsewhere,
    have_files,
    pull,
    require_conditions,
    require_current,
    save,
)
from warehouse.storage.files import PRIVATE, REQUESTS, TABLES, pointer_here
from warehouse.storage.lists import (
    KEPT_GENERATIONS,
    Generation,
    is_old,
    load,
    number_of,
    requests_named,
)
from warehouse.storage.tables import require_our_schema

if TYPE_CHECKING:
    from warehouse.storage.objects import ObjectStore

#: In the store: since when files have no list that names them, though they had one.
UNLISTED = "unlisted.json"
#: Who has not shown for so long that it is at work was killed.
_DEAD = timedelta(minutes=15)
_BATCH = 200
#: Before every moment that a store knows of.
_NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass
class CollectingRight:
    """The right to remove objects, for as long as nobody takes it away; ``tag``: of the object."""

    store: "ObjectStore"
    machine: str
    tag: str

    def announce(self, names: Collection[str]) -> None:
        """Say what is about to be removed, and that this machine is at work. Raises WarehouseBusy
        where another one took over.
        """
        tag = self.store.replace(COLLECTING, _content(self.machine, names), self.tag)
        if tag is None:
            raise collecting_elsewhere(self.store)
        self.tag = tag


@contextmanager
def right_to_collect(root: Path, store: "ObjectStore") -> Iterator[CollectingRight]:
    """Be the one machine that removes. Only under the writer's lock of the copy. Raises
    WarehouseBusy where another one is at work. What this machine left when it was killed is taken
    over at once, what another one left after a quarter of an hour.
    In a copy: by what its store knows it, so that it goes on where it was killed.
    """
    place = root / "remote-name"
    if not place.exists():
        place.write_text(secrets.token_hex(8), encoding="utf-8")
    machine = place.read_text(encoding="utf-8")
    content = _content(machine, ())
    # Made on a condition: what is there is somebody's.
    tag = store.replace(COLLECTING, content, None)
    if tag is None:
        stored = store.get(COLLECTING)
        if stored is not None and (announced(store)[0] == machine or _is_dead(store)):
            tag = store.replace(COLLECTING, content, stored.tag)
        if tag is None:
            raise collecting_elsewhere(store)
    try:
        yield CollectingRight(store, machine, tag)
    finally:
        if announced(store)[0] == machine:
            store.remove([COLLECTING])


def _content(machine: str, names: Collection[str]) -> bytes:
    return json.dumps({"machine": machine, "going": sorted(names)}).encode()


def _is_dead(store: "ObjectStore") -> bool:
    """Return whether the holder was killed, by the clock of the store alone."""
    probe = f"{PRIVATE}{secrets.token_hex(8)}"
    store.replace(probe, b"", None)
    times = {entry.name: entry.modified for entry in store.entries()}
    store.remove([probe])
    return COLLECTING not in times or times[probe] - times[COLLECTING] > _DEAD


def collect(root: Path, grace: float) -> list[str]:
    """Remove old generations, and files that no generation has listed for ``grace`` seconds.

    An old generation stays for as long after the next one came. Only under the writer's lock of the
    copy; killed, it can be run again. Returns the names of what was removed. Raises WarehouseBusy where
    another machine is at it, and WarehouseDamaged where it cannot be said what is listed.
    """
    store = store_of(root)
    require_conditions(root, store)
    with right_to_collect(root, store) as right:
        while True:
            pull(root)
            name = require_current(root)
            require_our_schema(root, name)
            right.announce(())
            lists, files, unlisted = _plan(store, name, grace)
            if not files:
                break
            right.announce(files)
            base = load(root / name)
            with suppress(LostRace):
                save(root, base.followed_by(base.segments))
                break
        store.send(json.dumps(unlisted).encode(), UNLISTED)
        # What an attempt that failed left may be the very list that is published now.
        going = [name for name in (*lists, *files) if name != pointer_here(root)]
        for start in range(0, len(going), _BATCH):
            # Shows that this machine is alive, and that no other took over.
            right.announce(going)
            each(lambda name: store.remove([name]), going[start : start + _BATCH])
        return going


def _plan(
    store: "ObjectStore", current: str, grace: float
) -> tuple[list[str], list[str], dict[str, str]]:
    # Old lists that are to go, which nobody is about to publish; files that are, lists that were never
    # published among them, which somebody may be; and since when (ISO, by the store's clock) each file
    # that stays for now is unlisted.
    entries = {entry.name: entry for entry in store.entries(None)}
    now = entries[COLLECTING].modified
    latest = now - timedelta(seconds=grace)
    numbers = {
        name: number
        for name in entries
        if (number := number_of(name)) is not None and not is_old(name)
    }
    published = number_of(current) or 0
    came: dict[int, datetime] = {}
    for name, number in numbers.items():
        at = entries[name].modified
        came[number] = max(at, came.get(number, at))
    # Generations that were followed by the next one before ``latest``; the newest and the current stay.
    followed = sorted(number for number in came if number <= published)
    over = {old for old, new in pairwise(followed) if came[new] <= latest}
    over -= set(followed[-KEPT_GENERATIONS - 1 :])
    old = {name for name, number in numbers.items() if number in over}
    coming = {name for name, number in numbers.items() if number > published}
    never = {name for name in coming if entries[name].modified <= latest}
    listed = _named_by(store, numbers.keys() - old - coming)
    # Who loses a race takes his list away.
    listed |= _named_by(store, coming - never, whole=False)
    since = dict.fromkeys(_named_by(store, old, whole=False), now)
    noted = store.get(UNLISTED)
    with suppress(ValueError, AttributeError, TypeError):
        said = json.loads(noted.content if noted else b"{}")
        since = {name: datetime.fromisoformat(at) for name, at in said.items()} | since
    unlisted = {
        name
        for name in entries
        if name.rpartition("/")[0] in (TABLES, REQUESTS) and name.endswith(".parquet")
    } - listed
    gone = {n for n in unlisted if max(entries[n].modified, since.get(n, _NEVER)) <= latest}
    stays = {name: since[name].isoformat() for name in unlisted - gone if name in since}
    return sorted(old), sorted(gone | never), stays


def _named_by(store: "ObjectStore", lists: Collection[str], whole: bool = True) -> set[str]:
    """Return the files that some lists name; with ``whole=False`` those that can still be read.
    Raises WarehouseDamaged.
    """
    passed_over = () if whole else (WarehouseDamaged,)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / TABLES).mkdir()

        def generation(name: str) -> Generation:
            with suppress(*passed_over):
                have_files(place, store, [name])
                return load(place / name)
            return Generation(0)

        def requests(table: str) -> set[str]:
            with suppress(*passed_over):
                have_files(place, store, [f"{TABLES}/{table}"])
                return requests_named(place, table)
            return set()

        read = [one for _, one in each(generation, lists)]
        tables = {file.file for one in read for file in one.of("request_files")}
        named = each(requests, tables)
    return {f"{TABLES}/{file.file}" for one in read for file in one.files()} | {
        f"{REQUESTS}/{name}" for _, names in named for name in names
    }
