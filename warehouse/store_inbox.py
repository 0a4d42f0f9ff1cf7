"""An inbox in an object store: what nodes drop there lies in a folder here, as if they had copied it."""

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.store_cache import each, folder_of, keep_tags, store_of, tags_of, turning
from warehouse.store_files import REMOTE, split_url

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

_FILES = "files"


def inbox(given: Path) -> Path:
    """Return the folder that holds what lies at a URL now, for anything else the path itself.

    Raises InvalidInput for a URL that can be none, and WarehouseUnreachable.
    """
    url = split_url(given)
    if url is None:
        return given
    place = folder_of(*url, kind="inbox")
    if url[0] == "file":
        return place
    (place / _FILES).mkdir(exist_ok=True)
    bring_in(place / _FILES)
    return place / _FILES


def bring_in(folder: Path) -> None:
    """Fetch what came into an inbox or changed there, and remove what is gone; nothing for a folder
    that is none."""
    place = folder.parent
    if folder.name != _FILES or not (place / REMOTE).exists():
        return
    store = store_of(place)
    with turning(place):
        there = {
            f"{_FILES}/{one.name}": one
            for one in store.entries(None)
            if not one.name.endswith("/") and not {"", ".", ".."} & set(one.name.split("/"))
        }
        held = tags_of(place)
        for name in held.keys() - there.keys():
            (place / name).unlink()
        new = [name for name, one in there.items() if held.get(name) != one.tag]
        came = {name for name, whole in each(lambda n: _fetch(place, store, n), new) if whole}
        kept = {n: one.tag for n, one in there.items() if n not in new or n in came}
        keep_tags(place, kept)


def _fetch(place: Path, store: "ObjectStore", name: str) -> bool:
    """Fetch a file whole; its time is now, so that a watcher waits for what belongs to it."""
    final = place / name
    final.parent.mkdir(parents=True, exist_ok=True)
    private = place / f".{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        if not store.fetch(name.removeprefix(f"{_FILES}/"), private):
            return False
        private.replace(final)
    finally:
        private.unlink(missing_ok=True)
    return True
