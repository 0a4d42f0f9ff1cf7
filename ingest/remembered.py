"""What was found out about a file is remembered until the file changes."""

import stat
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path

from warehouse.errors import InvalidInput

_FILES = 4096


def remembered(look: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Return ``look`` with the answers for files as they were last: a watched folder is looked at again
    and again. What is no file, or cannot be read, is False."""

    @lru_cache(maxsize=_FILES)
    def as_it_was(path: Path, _written: int, _size: int) -> bool:
        try:
            return look(path)
        except (OSError, InvalidInput):
            return False

    @wraps(look)
    def as_it_is(path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and as_it_was(path, status.st_mtime_ns, status.st_size)

    return as_it_is
