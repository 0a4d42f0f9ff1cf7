"""A warehouse in an object store: this machine's copy follows it.

Reading and writing work in the copy as in any folder. Only four things pass between the two: a new
generation comes (``pull``) or goes (``store_turn``), a file is fetched when it is asked for (``have``),
and lines are added to a file that all add to (``append``).
"""

import math
import os
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import (
    DraftboardError,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseOutdated,
    WarehouseUnreachable,
)
from warehouse.store_cache import (
    LINES,
    each,
    is_copy,
    keep_small,
    keep_tags,
    pull_aside,
    read_at,
    replace_file,
    store_of,
    tags_of,
    touch,
    turning,
)
from warehouse.store_files import CURRENT, REQUESTS, TABLES, point, pointer_here, publish, sha256_of
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


# --- When this machine's copy of a warehouse looks at its store, and what it does where it cannot be reached.


POLL_S = 5.0
"""A reader looks whether there is a new generation at most so often, in seconds."""
#: A store that could not be reached is left alone for so many seconds: asking takes twenty.
_AGAIN_S = 30.0
_guard = threading.Lock()


@dataclass
class _Look:
    """How the last look at a store ended, and when the copy last answered without it (monotonic s)."""

    at: float
    trouble: DraftboardError | None = None
    answered_alone: float = -math.inf

    @property
    def is_unreachable(self) -> bool:
        return isinstance(self.trouble, WarehouseUnreachable)


_looked: dict[Path, _Look] = {}


def follow(root: Path) -> None:
    """Bring the copy up to date, unless that was done a few seconds ago.

    Where the store cannot be reached, a copy that holds a generation answers without it, and
    ``not_fresh`` says so. Raises as ``pull`` otherwise, and says the same again until it is time for
    another look.
    """
    with _guard:
        look = _looked.get(root)
        wait = _AGAIN_S if look is not None and look.is_unreachable else POLL_S
        if look is None or time.monotonic() - look.at >= wait:
            look = _look(root)
    if look.is_unreachable and pointer_here(root) is not None:
        look.answered_alone = time.monotonic()
    elif look.trouble is not None:
        raise look.trouble


def reach(root: Path) -> None:
    """Bring the copy up to date for whoever is about to write: raises as ``pull``."""
    with _guard:
        look = _look(root)
    if look.trouble is not None:
        raise look.trouble


def _look(root: Path) -> _Look:
    trouble = None
    try:
        pull(root)
    except DraftboardError as error:
        trouble = error
    _looked[root] = _Look(time.monotonic(), trouble)
    return _looked[root]


def stay(root: Path) -> None:
    """Never look at the store from this process: it may not, or has no credentials."""
    _looked[root] = _Look(math.inf)


def not_fresh(root: Path) -> str | None:
    """Return the sentence to show beside what a copy answers while its store cannot be reached."""
    look = _looked.get(root)
    if look is None or not look.is_unreachable:
        return None
    return f"Shown is what was read by {read_at(root):%Y-%m-%d %H:%M} UTC, nothing newer: {look.trouble}"


def not_fresh_since(moment: float) -> list[str]:
    """Return that sentence for each warehouse whose copy answered alone since a ``moment``
    (monotonic s)."""
    alone = [root for root, look in _looked.items() if look.answered_alone >= moment]
    return [said for root in alone if (said := not_fresh(root)) is not None]
