"""Published tables that an ingest was given: kept whole, apart from what was measured.

Each is one file in ``published/``, named by the hash of its content and never changed. They belong
to no generation: a study that somebody else printed is neither a cell nor part of a comparison.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from warehouse.secrets.shapes import REMOVED
from warehouse.secrets.texts import scrub_text
from warehouse.store_cache import changed_aside
from warehouse.store_files import PUBLISHED, full_disk_explained

#: In a folder, a file of such a name is a published table; other YAML files are passed over.
NAMES = re.compile(r"published-.+\.ya?ml")
_HASHED = 16
_BARE = re.compile(rf"(?m)^([^'\"\n]*?(?:^|[:-])[ \t]+){re.escape(REMOVED)}")


@dataclass(frozen=True)
class Kept:
    """One published table: what its file was called, and its text."""

    name: str
    text: str


def is_table(path: Path) -> bool:
    """Return whether a file in a folder is taken as a published table."""
    return NAMES.fullmatch(path.name) is not None


def keep(root: Path, name: str, text: str) -> bool:
    """Add a table without credentials; False where it is there already.

    Another text of the same name replaces it.
    """
    folder = root / PUBLISHED
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", scrub_text(name))
    # Without quotes YAML would take what stands in its place for a list.
    text = _BARE.sub(rf"\1'{REMOVED}'", scrub_text(text))
    there = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:_HASHED]}-{safe}"
    if there.exists():
        return False
    with full_disk_explained(root):
        folder.mkdir(parents=True, exist_ok=True)
        former = [path for path in folder.iterdir() if _name(path) == safe]
        private = there.with_name(f".{there.name}")
        private.write_text(text, encoding="utf-8")
        private.replace(there)
        for path in former:
            path.unlink()
        changed_aside(root, [there], former)
    return True


def kept(root: Path) -> tuple[Kept, ...]:
    """Return every table, by name."""
    return tuple(Kept(_name(path), path.read_text(encoding="utf-8")) for path in _paths(root))


def version(root: Path) -> str:
    """Return a text that changes with every table that is added; empty where there is none."""
    return ",".join(path.name for path in _paths(root))


def _paths(root: Path) -> list[Path]:
    folder = root / PUBLISHED
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in found if not path.name.startswith(".")), key=_name)


def _name(path: Path) -> str:
    return path.name[_HASHED + 1 :]
