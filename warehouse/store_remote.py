"""A warehouse in an object store: this machine's copy follows it.

Reading and writing work in the copy as in any folder. Only four things pass between the two: a new
generation comes (``pull``) or goes (``store_turn``), a file is fetched when it is asked for (``have``),
and lines are added to a file that all add to (``append``).
"""

import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import WarehouseBusy, WarehouseDamaged, WarehouseOutdated
from warehouse.store_aside import LINES, pull_aside
from warehouse.store_cache import (
    each,
    is_copy,
    keep_small,
    keep_tags,
    replace_file,
    store_of,
    tags_of,
    touch,
    turning,
)
from warehouse.store_files import (
    CURRENT,
    REQUESTS,
    TABLES,
    point,
    pointer_here,
    publish,
    sha256_of,
)
from warehouse.store_list import Generation, is_old, load, number_of

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

#: What is being fetched, and what a kill left of it, for so many seconds.
_PART, _PART_S = ".part", 3600.0


def pull(root: Path) -> None:
    """Fetch the newest generation and what people said since.

    Raises WarehouseUnreachable, WarehouseDamaged where something that it lists is not there, and
    WarehouseOutdated.
    """
    store = store_of(root)
    with turning(root):
        tags = tags_of(root)
        new = dict(each(lambda n: _changed(store, n, tags.get(n)), (CURRENT, *LINES)))
        for name in LINES:
            if new[name] is not None:
                replace_file(root / name, new[name].content)
                tags[name] = new[name].tag
        moved = new[CURRENT]
        if moved is not None:
            _move(root, store, moved.content.decode("utf-8", "replace").strip())
            tags[CURRENT] = moved.tag
        pull_aside(root, store, tags, moved is not None)
        keep_tags(root, tags)
    if moved is not None:
        _tidy(root)


def _changed(store: "ObjectStore", name: str, tag: str | None) -> Any:
    """Return an object that has another tag by now; None where it has not."""
    from warehouse.store_object import Unchanged

    try:
        found = store.get(name, unless=tag)
    except Unchanged:
        return None
    if found is None and name == CURRENT and tag is not None:
        raise WarehouseDamaged(
            f"{store.url} holds no {CURRENT} any more, and this machine has read a generation from "
            f"it: somebody emptied it. draftboard warehouse restore brings back what is left there, "
            "draftboard warehouse push what another folder holds."
        )
    return found


def _move(root: Path, store: "ObjectStore", name: str) -> None:
    if number_of(name) is None:
        raise WarehouseDamaged(
            f"{store.url}/{CURRENT} does not name a generation; bring one back with: "
            f"draftboard warehouse restore GENERATION --warehouse {store.url}"
        )
    if is_old(name):
        raise WarehouseOutdated(
            f"{store.url} is of an older version; draftboard warehouse convert the folder that it was "
            "copied from, and push that."
        )
    fetch_generation(root, store, name)
    point(root, name)


def fetch_generation(root: Path, store: "ObjectStore", name: str) -> Generation:
    """Bring a generation's list here, and all that it lists but requests. Raises WarehouseDamaged."""
    for folder in (TABLES, REQUESTS):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if not (root / name).exists() and not _fetch(root, store, name):
        raise WarehouseDamaged(
            f"{store.url}/{name}, which {CURRENT} names, is not there; bring another generation back "
            f"with: draftboard warehouse restore GENERATION --warehouse {store.url}"
        )
    try:
        found = load(root / name)
    except WarehouseDamaged:
        (root / name).unlink()
        raise
    have_files(root, store, [f"{TABLES}/{file.file}" for file in found.files()])
    return found


def have(root: Path, names: Iterable[str]) -> None:
    """Make sure that request files are here. Raises WarehouseDamaged for one that is not in the
    store either, or that is not what its name says."""
    if is_copy(root):
        wanted = [f"{REQUESTS}/{name}" for name in dict.fromkeys(names)]
        touch([root / name for name in wanted])
        have_files(root, store_of(root), wanted)


def have_files(root: Path, store: "ObjectStore", names: Iterable[str]) -> None:
    """Fetch those files that are not here, at the same time."""
    missing = [name for name in names if not (root / name).exists()]
    for name, there in each(lambda name: _fetch(root, store, name), missing):
        if not there:
            raise WarehouseDamaged(
                f"{store.url}/{name}, which the newest generation lists, is not there; bring an older "
                f"one back with: draftboard warehouse restore GENERATION --warehouse {store.url}"
            )


def _fetch(root: Path, store: "ObjectStore", name: str) -> bool:
    """Fetch one immutable file; its name says what its content must be."""
    final = root / name
    # Not the prefix of a writer's private files: one that starts would remove this.
    private = final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}{_PART}")
    try:
        if not store.fetch(name, private):
            return False
        digest = sha256_of(private)
        if final.stem.rpartition("-")[2] not in (digest, digest[:16]):
            from warehouse.store_object import truncated

            raise truncated(store.url, name)
        publish(private, final)
    finally:
        private.unlink(missing_ok=True)
    return True


def _tidy(root: Path) -> None:
    """Remove what the copy needs no more, unless somebody here is writing, who does it."""
    # Not above: what publishes needs this module.
    from warehouse.store_lock import WriterLock
    from warehouse.store_turnover import retire

    with suppress(WarehouseBusy), WriterLock(root).held(wait=False, on_wait=None):
        retire(root, number_of(pointer_here(root) or "") or 0)
        keep_small(root)
        for path in root.rglob(f".*{_PART}"):
            if path.stat().st_mtime < time.time() - _PART_S:
                path.unlink()
