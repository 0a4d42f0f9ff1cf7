"""How searches that measure stand: one file for each, beside the generations of a warehouse.

``searches/<study>.json`` is replaced before every launch. What stands in it is for whoever wrote it to
say (``answers/search/board.py``).
"""

from collections.abc import Iterator
from pathlib import Path

from warehouse.store_cache import changed_aside
from warehouse.store_files import PRIVATE, publish

FOLDER = "searches"


def write(root: Path, study: str, text: str) -> None:
    """Put the file of a search in place, in one step. Raises OSError where it cannot be written."""
    path = root / FOLDER / f"{study}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{PRIVATE}{path.name}")
    private.write_text(text, encoding="utf-8")
    publish(private, path)
    changed_aside(root, [path])


def read(root: Path) -> tuple[bytes, ...]:
    """Return what the files hold; one that is gone meanwhile is passed over."""
    return tuple(path.read_bytes() for path in _files(root) if path.is_file())


def version(root: Path) -> str:
    """Return a text that changes whenever a search goes on; for caches."""
    stats = [(path.name, (at := path.stat()).st_mtime_ns, at.st_size) for path in _files(root)]
    return repr(stats)


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted((root / FOLDER).glob("*.json")) if path.name[0] != ".")
