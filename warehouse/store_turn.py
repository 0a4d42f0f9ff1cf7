"""Publishing into an object store: everything new is uploaded, then CURRENT is replaced on a condition.

That one write decides: a generation is there for everybody, or it never was.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, LostRace
from warehouse.store_cache import each, is_copy, keep_tags, store_of, tags_of, turning
from warehouse.store_collecting import wait_for
from warehouse.store_files import CURRENT, REQUESTS, TABLES, point
from warehouse.store_list import Generation, load, number_of
from warehouse.store_remote import have

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

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
