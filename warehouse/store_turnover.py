"""How one generation follows another, in a folder and in an object store, and what goes that nobody needs."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, LostRace, WarehouseBusy, WarehouseDamaged
from warehouse.store_cache import each, is_copy, keep_tags, name_of, store_of, tags_of, turning
from warehouse.store_files import (
    CURRENT,
    PRIVATE,
    REQUESTS,
    TABLES,
    point,
    pointer_here,
    publish,
    remove_unpinned,
)
from warehouse.store_list import (
    Generation,
    current_name,
    generations,
    is_old,
    lists,
    load,
    lost,
    no_current,
    number_of,
)
from warehouse.store_remote import have, reach

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore


# --- The machine that removes what an object store does not need: one at a time, and everybody can see what.
#
# It holds the object ``collecting.json``, which names what is about to go. A writer that is about to list
# one of these names waits until it has gone, and uploads it again.


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


# --- Publishing into an object store: everything new is uploaded, then CURRENT is replaced on a condition.
#
# That one write decides: a generation is there for everybody, or it never was.


#: In a copy: its store was seen to keep to the conditions of a write.
_PROVEN = "remote-proven"


def turn(root: Path, name: str) -> None:
    """Publish the generation whose list is at ``root / name``: for everybody, or for nobody.

    Raises LostRace where another one was published since the one that it goes on from, and
    WarehouseUnreachable. What was not published has no list afterwards.
    """
    if not is_copy(root):
        point(root, name)
        return
    try:
        _turn(root, store_of(root), name)
    except DraftboardError:
        (root / name).unlink(missing_ok=True)
        raise


def _turn(root: Path, store: "ObjectStore", name: str) -> None:
    now = store.get(CURRENT)
    before = None if now is None else _named(now.content)
    if before != name:
        number = number_of(before or "")
        # Where CURRENT names nothing that could be gone on from, everything is uploaded.
        if number is not None and load(root / name).number != number + 1:
            raise LostRace(_overtaken(store))
        require_conditions(root, store)
        upload(root, store, before, name)
    with turning(root):
        tag = None if now is None else now.tag
        if before != name:
            tag = _swung(store, name, tag)
        point(root, name)
        keep_tags(root, tags_of(root) | {CURRENT: str(tag)})


def _swung(store: "ObjectStore", name: str, tag: str | None) -> str:
    won = store.replace(CURRENT, f"{name}\n".encode(), tag)
    if won is not None:
        return won
    # Where the answer was cut it was asked again, and met itself.
    now = store.get(CURRENT)
    if now is None or _named(now.content) != name:
        store.remove([name])
        raise LostRace(_overtaken(store))
    return now.tag


def _named(content: bytes) -> str:
    return content.decode("utf-8", "replace").strip()


def require_conditions(root: Path, store: "ObjectStore") -> None:
    """Raise WarehouseUnreachable where the store does not keep to the conditions of a write; tried
    once."""
    if not (root / _PROVEN).exists():
        store.require_conditions()
        (root / _PROVEN).touch()


def upload(root: Path, store: "ObjectStore", before: str | None, name: str) -> None:
    """Write what a generation lists beyond the one before into the store, the list last."""
    new = load(root / name)
    is_here = before is not None and number_of(before) and (root / before).exists()
    base = load(root / str(before)) if is_here else Generation(0)
    tables = {file.file for file in new.files()} - {file.file for file in base.files()}
    requests = listed_requests(root, new) - listed_requests(root, base)
    have(root, requests)
    names = [*(f"{REQUESTS}/{one}" for one in requests), *(f"{TABLES}/{one}" for one in tables)]
    if names:
        wait_for(store, {name, *names})
    each(lambda one: store.send(root / one, one), sorted(names))
    store.send(root / name, name)


def listed_requests(root: Path, generation: Generation) -> set[str]:
    """Return the request files that a generation lists."""
    tables = (file.file for file in generation.of("request_files"))
    return {name for table in tables for name in requests_named(root, table)}


def requests_named(root: Path, table: str) -> set[str]:
    """Return the request files that one file of the table ``request_files`` names."""
    return set(pq.read_table(root / TABLES / table, columns=["file"]).column("file").to_pylist())


def _overtaken(store: "ObjectStore") -> str:
    return (
        f"Another machine published into {store.url} meanwhile; nothing was changed: run the same "
        "command again."
    )


# --- How one generation follows another: a list is published, and what nobody needs any more goes.


KEPT_GENERATIONS = 2
"""Old generations that stay, for readers still at work."""


def save(root: Path, generation: Generation) -> None:
    """Publish a generation, all of whose files are in place."""
    text = msgspec.json.encode(generation)
    digest = hashlib.sha256(text).hexdigest()[:16]
    name = f"generation-{generation.number}-{digest}.json"
    private = root / f"{PRIVATE}{os.getpid()}-{name}"
    private.write_bytes(text)
    publish(private, root / name)
    turn(root, name)
    retire(root, generation.number)


def start_writing(root: Path, rebuild: bool) -> str | None:
    """Return the name of the generation that a writer goes on from, what a killed one left removed.

    None where there is no warehouse. Nothing is removed before it is certain what is published;
    raises WarehouseDamaged where that cannot be said, unless ``rebuild`` starts from nothing.
    """
    # First of all: a copy follows its store now, and gets new files.
    if is_copy(root):
        reach(root)
    there = generations(root)
    try:
        current = current_name(root)
        if current is None and not set(there.values()) <= {1}:
            raise no_current(root)
        if current is not None and current not in there:
            raise lost(root, f"{name_of(root)}/{current}, which CURRENT names, is missing", there)
    except WarehouseDamaged:
        if not rebuild:
            raise
        return max(there, key=there.__getitem__, default=None)
    if current is None and there:
        # Killed between the two last steps of the first commit: generation 1 is whole.
        current = next(iter(there))
        turn(root, current)
    retire(root, 0 if current is None else there[current])
    return current


def retire(root: Path, current: int) -> list[str]:
    """Remove what nobody can need: old generations beyond the kept that no reader keeps,
    unpublished ones, and files of tables that none of the others lists.

    Only under the writer's lock. Returns the names of what was removed.
    """
    with turning(root):
        # A copy may have followed another machine meanwhile.
        return _retire(root, max(current, number_of(pointer_here(root) or "") or 0))


def _retire(root: Path, current: int) -> list[str]:
    there = generations(root)
    old = sorted(number for number in set(there.values()) if number < current)
    kept = {current, *old[-KEPT_GENERATIONS:]}
    going = [name for name, number in there.items() if number not in kept]
    _note_unlisted(root, going, there.keys() - set(going))
    removed = [name for name in going if remove_unpinned(root / name)]
    try:
        listed = {file.file for one in lists(root) for file in one.files()}
    except WarehouseDamaged:
        return removed  # What a list that cannot be read holds is not known, so all of it stays.
    for path in sorted((root / TABLES).glob("*.parquet")):
        if path.name not in listed and not path.name.startswith(PRIVATE):
            path.unlink()
            removed.append(path.name)
    return removed


def _note_unlisted(root: Path, going: Iterable[str], staying: Iterable[str]) -> None:
    """Let the age of request files count from now on, where no list will name them any more.

    Somebody may be at work on a path that an older generation gave him; ``gc`` leaves young files.
    """
    # What cannot be read keeps its age: the list, or a file of it, is damaged.
    with suppress(WarehouseDamaged, OSError):
        left = _tables_of_files(root, staying)
        for table in _tables_of_files(root, going) - left:
            others = {name for one in left for name in requests_named(root, one)}
            for name in requests_named(root, table) - others:
                os.utime(root / REQUESTS / name)


def _tables_of_files(root: Path, names: Iterable[str]) -> set[str]:
    """Return the files of the table ``request_files`` that some lists hold."""
    found = (load(root / name) for name in names if not is_old(name))
    return {file.file for one in found for file in one.of("request_files")}
