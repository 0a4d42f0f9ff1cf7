"""Which format a file is, by its structure; never by its name."""

import stat
from functools import lru_cache
from pathlib import Path

from ingest.formats import FORMATS
from ingest.model import Content, Format
from ingest.read import head_of_file, json_bytes
from warehouse.errors import InvalidInput


def sniff(content: Content) -> Format:
    """Return the format that recognises the content. Raises InvalidInput where none does."""
    found = recognised(content.data)
    if found is not None:
        return found
    *kinds, last = (known.KIND for known in FORMATS if known.KIND)
    raise InvalidInput(
        f"This is neither {', '.join(kinds)} nor {last}: give the file that the load generator "
        "wrote."
    )


def is_report(path: Path) -> bool:
    """Return whether a format recognises a file by its first bytes; False where it cannot be
    read."""
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and _is_report(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _is_report(path: Path, _written: int, _size: int) -> bool:
    """Return whether a format recognises a file. The answer is remembered, since a watched folder
    is looked at again and again."""
    try:
        return recognised(head_of_file(path)) is not None
    except (OSError, InvalidInput):
        return False


def recognised(data: memoryview) -> Format | None:
    """Return the format that recognises a file, also by its first bytes alone."""
    data = json_bytes(data)
    return next((known for known in FORMATS if known.sniff(data)), None)
