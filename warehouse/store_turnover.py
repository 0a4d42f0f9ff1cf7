"""How one generation follows another: a list is published, and what nobody needs any more goes."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from warehouse.errors import WarehouseDamaged
from warehouse.store_cache import is_copy, name_of, turning
from warehouse.store_files import (
    PRIVATE,
    REQUESTS,
    TABLES,
    pointer_here,
    publish,
    remove_unpinned,
)
from warehouse.store_follow import reach
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
from warehouse.store_turn import requests_named, turn

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
