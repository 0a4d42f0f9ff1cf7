"""What lies beside the generations of a warehouse in an object store, and changes: lines that people
add, published tables, the history of nights, how searches stand."""

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.store_cache import (
    each,
    is_copy,
    keep_tags,
    replace_file,
    store_of,
    tags_of,
    turning,
)
from warehouse.store_files import PUBLISHED

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

#: Files that lines are added to.
LINES = ("annotations.jsonl", "audit.jsonl", "decisions.jsonl", "tokens.jsonl")
#: Folders of small files that are replaced whole; looked at once in so many seconds.
ASIDE, _ASIDE_S = (PUBLISHED, "nights", "searches"), 30.0
_looked: dict[Path, float] = {}


def append(root: Path, name: str, lines: bytes) -> None:
    """Add lines to a file that several machines add to; here it then holds theirs too."""
    store = store_of(root)
    with turning(root):
        while True:
            found = store.get(name)
            held = b"" if found is None else found.content
            if lines in held:  # An answer that was cut: it had been written.
                break
            text = held + (b"\n" if held and not held.endswith(b"\n") else b"") + lines
            if store.replace(name, text, None if found is None else found.tag):
                held = text
                break
        replace_file(root / name, held)
        keep_tags(root, {n: tag for n, tag in tags_of(root).items() if n != name})


def changed_aside(root: Path, written: Iterable[Path], removed: Iterable[Path] = ()) -> None:
    """Tell the store of files that were written or removed beside the generations; nothing for a
    folder that is no copy."""
    if is_copy(root):
        store = store_of(root)
        for path in written:
            store.send(path, path.relative_to(root).as_posix())
        store.remove([path.relative_to(root).as_posix() for path in removed])


def pull_aside(root: Path, store: "ObjectStore", tags: dict[str, str], moved: bool) -> None:
    """Fetch those files that changed, and remove those that are gone; ``tags`` gets their tags.

    Not at every call, unless the generation ``moved``.
    """
    now = time.monotonic()
    if not moved and now - _looked.get(root, -math.inf) < _ASIDE_S:
        return
    for folder, entries in each(store.entries, ASIDE):
        there = {one.name: one.tag for one in entries}
        for path in (p for p in (root / folder).rglob("*") if p.is_file()):
            if path.relative_to(root).as_posix() not in there and not path.name.startswith("."):
                path.unlink()
        for name, tag in there.items():
            found = store.get(name) if tags.get(name) != tag else None
            if found is not None and ".." not in Path(name).parts:
                replace_file(root / name, found.content)
                tags[name] = tag
    _looked[root] = now
