"""Removing from an object store what nobody needs any more, beside writers on other machines.

What is about to go is announced first (``store_collecting``). Then what the newest generation holds is
published as a new one: whoever was publishing at that moment loses the race and begins again, so nobody
lists what goes, however long an upload takes.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from warehouse.errors import LostRace, WarehouseDamaged
from warehouse.store_cache import each, store_of
from warehouse.store_files import REQUESTS, TABLES, pointer_here
from warehouse.store_list import Generation, current_name, is_old, load, no_current, number_of
from warehouse.store_old import require_our_schema
from warehouse.store_remote import have_files, pull
from warehouse.store_turnover import (
    COLLECTING,
    KEPT_GENERATIONS,
    Turn,
    requests_named,
    require_conditions,
    save,
    turn_to_collect,
)

if TYPE_CHECKING:
    from warehouse.store_object import Entry, ObjectStore

#: In the store: since when files have no list that names them, though they had one.
UNLISTED = "unlisted.json"
_BATCH = 200

Entries = dict[str, "Entry"]


@dataclass(frozen=True)
class _Plan:
    """What is to go. Somebody may be about to publish ``files``, lists that were never published among
    them, but none of the old ``lists``."""

    lists: list[str]
    files: list[str]
    unlisted: dict[str, str]
    """Since when (ISO, by the store's clock) each file that stays for now is unlisted."""


def collect(root: Path, grace: float) -> list[str]:
    """Remove old generations, and files that no generation has listed for ``grace`` seconds.

    An old generation stays for as long after the next one came. Only under the writer's lock of the
    copy; killed, it can be run again. Returns the names of what was removed. Raises WarehouseBusy where
    another machine is at it, and WarehouseDamaged where it cannot be said what is listed.
    """
    store = store_of(root)
    require_conditions(root, store)
    with turn_to_collect(root, store) as turn:
        while True:
            pull(root)
            name = current_name(root)
            if name is None:
                raise no_current(root)
            require_our_schema(root, name)
            turn.announce(())
            found = _plan(store, name, grace)
            if not found.files:
                break
            turn.announce(found.files)
            try:
                _publish_again(root, name)
            except LostRace:
                continue
            break
        store.send(json.dumps(found.unlisted).encode(), UNLISTED)
        # What an attempt that failed left may be the very list that is published now.
        going = [one for one in (*found.lists, *found.files) if one != pointer_here(root)]
        _remove(turn, going)
        return going


def _publish_again(root: Path, name: str) -> None:
    base = load(root / name)
    save(root, Generation(base.number + 1, base.next_cell, base.segments, base.rejections))


def _remove(turn: Turn, names: list[str]) -> None:
    for start in range(0, len(names), _BATCH):
        # Shows that this machine is alive, and that no other took over.
        turn.announce(names)
        each(lambda name: turn.store.remove([name]), names[start : start + _BATCH])


def _plan(store: "ObjectStore", current: str, grace: float) -> _Plan:
    entries = {entry.name: entry for entry in store.entries(None)}
    now = entries[COLLECTING].modified
    latest = now - timedelta(seconds=grace)
    lists = [name for name in entries if number_of(name) is not None and not is_old(name)]
    old = _superseded(entries, lists, current, latest)
    coming = {name for name in lists if _number(name) > _number(current)}
    never = {name for name in coming if entries[name].modified <= latest}
    listed = _named_by(store, set(lists) - old - coming)
    # Who loses a race takes his list away.
    listed |= _named_by(store, coming - never, whole=False)
    since = {
        **_known_since(store),
        **dict.fromkeys(_named_by(store, old, whole=False), now),
    }
    unlisted = {name for name in entries if _is_file(name)} - listed
    gone = {n for n in unlisted if max(entries[n].modified, since.get(n, _NEVER)) <= latest}
    stays = {name: since[name].isoformat() for name in unlisted - gone if name in since}
    return _Plan(sorted(old), sorted(gone | never), stays)


#: Before every moment that a store knows of.
_NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _is_file(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder in (TABLES, REQUESTS) and file.endswith(".parquet")


def _number(name: str) -> int:
    return number_of(name) or 0


def _superseded(entries: Entries, lists: Iterable[str], current: str, latest: datetime) -> set[str]:
    """Return the lists that may go: those of generations that were followed by the next one before
    ``latest``. The newest ``KEPT_GENERATIONS`` and the current one stay."""
    came: dict[int, datetime] = {}
    for name in lists:
        number, at = _number(name), entries[name].modified
        came[number] = max(at, came.get(number, at))
    published = sorted(number for number in came if number <= _number(current))
    going = {old for old, new in pairwise(published) if came[new] <= latest}
    going -= set(published[-KEPT_GENERATIONS - 1 :])
    return {name for name in lists if _number(name) in going}


def _named_by(store: "ObjectStore", lists: Collection[str], whole: bool = True) -> set[str]:
    """Return the files that some lists name; with ``whole=False`` those that can still be read.

    Raises WarehouseDamaged.
    """
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / TABLES).mkdir()
        found = [one for _, one in each(partial(_list, place, store, whole), lists)]
        tables = {file.file for one in found for file in one.of("request_files")}
        requests = each(partial(_requests, place, store, whole), tables)
    return {f"{TABLES}/{file.file}" for one in found for file in one.files()} | {
        f"{REQUESTS}/{name}" for _, names in requests for name in names
    }


def _list(place: Path, store: "ObjectStore", whole: bool, name: str) -> Generation:
    try:
        have_files(place, store, [name])
        return load(place / name)
    except WarehouseDamaged:
        if whole:
            raise
        return Generation(0)


def _requests(place: Path, store: "ObjectStore", whole: bool, table: str) -> set[str]:
    try:
        have_files(place, store, [f"{TABLES}/{table}"])
        return requests_named(place, table)
    except WarehouseDamaged:
        if whole:
            raise
        return set()


def _known_since(store: "ObjectStore") -> dict[str, datetime]:
    found = store.get(UNLISTED)
    try:
        said = {} if found is None else json.loads(found.content)
        return {name: datetime.fromisoformat(at) for name, at in said.items()}
    except (ValueError, AttributeError, TypeError):
        return {}
