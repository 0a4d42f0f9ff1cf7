"""Whole warehouses between a folder and an object store, and back to an older generation."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import InvalidInput, UnknownKey
from warehouse.store_cache import ASIDE, LINES, each, is_copy, name_of, store_of
from warehouse.store_files import (
    CURRENT,
    REQUESTS,
    TABLES,
    full_disk_explained,
    pointer_here,
    publish,
    remove_private,
)
from warehouse.store_list import (
    Generation,
    current_name,
    generations,
    is_old,
    load,
    no_current,
    number_of,
)
from warehouse.store_lock import WriterLock
from warehouse.store_remote import fetch_generation, have
from warehouse.store_turnover import listed_requests, require_conditions, save

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore


def push(root: Path, to: Path) -> int:
    """Upload the warehouse at ``root`` into the object store whose copy is ``to``; return how many
    files it has. Killed halfway it can be done again.

    Raises InvalidInput where there is a warehouse already, or ``to`` is a folder.
    """
    store = _store(to)
    name = current_name(root)
    if name is None or is_old(name):
        raise no_current(root)
    if store.get(CURRENT) is not None:
        raise InvalidInput(
            f"{store.url} holds a warehouse already: ingest the results of {root} into it, or push "
            "to another place."
        )
    require_conditions(to, store)
    files = [*_listed(root, load(root / name)), *_aside(root)]
    each(lambda one: store.send(root / one, one), files)
    store.send(root / name, name)
    if store.replace(CURRENT, f"{name}\n".encode(), None) is None:
        raise InvalidInput(
            f"Another machine made {store.url} meanwhile: nothing there was changed."
        )
    return len(files)


def fetch_all(root: Path) -> int:
    """Fetch every request file of the newest generation into this machine's copy; return how many it
    has. Raises InvalidInput for a folder."""
    _store(root)
    name = current_name(root)
    if name is None:
        raise no_current(root)
    requests = listed_requests(root, load(root / name))
    have(root, requests)
    return len(requests)


def clone(root: Path, out: Path) -> int:
    """Make a warehouse in the folder ``out`` that holds what the one in an object store does, and has
    nothing to do with it any more; return how many files it has. Killed halfway it can be done again.

    Raises InvalidInput where there is a warehouse already.
    """
    import shutil

    if (out / CURRENT).exists():
        raise InvalidInput(f"{out} is a warehouse already: name another folder.")
    fetch_all(root)
    name = pointer_here(root) or ""
    files = [*_listed(root, load(root / name)), *_aside(root), name, CURRENT]
    for one in files:
        private = out / f"{one}.part"
        private.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / one, private)
        publish(private, out / one)
    return len(files)


def restore(root: Path, wanted: str) -> int:
    """Publish again what an older generation held, named by its number or its whole name; return the
    number of the new one.

    What came since stays in the store, under its own generation. Raises UnknownKey where there is no
    such generation, and LostRace.
    """
    with full_disk_explained(root), WriterLock(root).held(wait=True, on_wait=None):
        store = store_of(root) if is_copy(root) else None
        there = list(generations(root)) if store is None else [e.name for e in store.entries()]
        names = sorted(
            (n for n in there if number_of(n) is not None and not is_old(n)), key=_number
        )
        name = _chosen(names, wanted, name_of(root))
        found = load(root / name) if store is None else fetch_generation(root, store, name)
        last = _current(root, store)
        number = (last if last is not None else max(map(_number, names))) + 1
        try:
            save(root, Generation(number, found.next_cell, found.segments, found.rejections))
        finally:
            remove_private(root)
        return number


def _current(root: Path, store: "ObjectStore | None") -> int | None:
    if store is None:
        return number_of(pointer_here(root) or "")
    now = store.get(CURRENT)
    return None if now is None else number_of(now.content.decode("utf-8", "replace").strip())


def _number(name: str) -> int:
    return number_of(name) or 0


def _chosen(names: list[str], wanted: str, place: str) -> str:
    found = [name for name in names if wanted in (name, str(number_of(name)))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownKey(f"{place} has several generations {wanted}: name {' or '.join(found)}.")
    known = ", ".join(str(number_of(name)) for name in names) or "none"
    raise UnknownKey(f"{place} has no generation {wanted}; there are: {known}.")


def _store(root: Path) -> "ObjectStore":
    if not is_copy(root):
        raise InvalidInput(f"{root} is a folder: name a warehouse in a bucket, s3://BUCKET/PREFIX.")
    return store_of(root)


def _listed(root: Path, generation: Generation) -> Iterator[str]:
    yield from (f"{REQUESTS}/{one}" for one in sorted(listed_requests(root, generation)))
    yield from (f"{TABLES}/{file.file}" for file in generation.files())


def _aside(root: Path) -> Iterator[str]:
    """Yield what lies beside the generations, as names below ``root``."""
    yield from (name for name in LINES if (root / name).exists())
    for folder in ASIDE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(root).as_posix()
