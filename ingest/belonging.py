"""Which format a file is, which files belong to one result, and which say what another one says already.

Some load generators write a summary and its requests apart. The id of such a result begins as that
of its main file alone and ends as the hash of all that belongs to it: so it is another one when more
comes or something changes, and still known to be of the same run (``pipeline.Intake``).
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ingest.formats import FORMATS
from ingest.model import FileContent, Format
from ingest.read import head_of_file, json_bytes, open_content, remembered
from ingest.settings import is_meta, meta_files
from warehouse.errors import InvalidInput

_Files = Callable[[Path], tuple[Path, ...]]
_HALF = 32


def _all(name: str) -> list[Any]:
    return [getattr(one, name) for one in FORMATS if hasattr(one, name)]


_BY_PRODUCT = cast(list[Callable[[Path], bool]], _all("is_by_product"))
_BESIDE, _MADE_OF, _STANDS_FOR = (
    cast(list[_Files], _all(name)) for name in ("beside", "made_of", "stands_for")
)


def sniff(content: FileContent) -> Format:
    """Return the format that recognises the content by its structure, never by its name. Raises
    InvalidInput where none does."""
    found = recognised(content.data)
    if found is not None:
        return found
    *kinds, last = (known.KIND for known in FORMATS if known.KIND)
    raise InvalidInput(
        f"This is neither {', '.join(kinds)} nor {last}: of a CSV or JSON of one row a run say what its "
        "columns are by --columns, else give the file that the load generator wrote."
    )


def recognised(data: memoryview) -> Format | None:
    """Return the format that recognises a file, also by its first bytes alone."""
    data = json_bytes(data)
    return next((known for known in FORMATS if known.sniff(data)), None)


@remembered
def is_report(path: Path) -> bool:
    """Return whether a format recognises a file by its first bytes; False where it cannot be
    read."""
    return recognised(head_of_file(path)) is not None


@remembered
def may_be_report(path: Path) -> bool:
    """Return whether a format recognises a file, or it cannot be told: it cannot be read, or its
    packing is cut off."""
    try:
        return recognised(head_of_file(path)) is not None
    except (OSError, InvalidInput):
        return True


def is_by_product(path: Path) -> bool:
    """Return whether a file in a folder is no result of its own: a format knows it by its name, or
    what says the same lies beside it."""
    if is_meta(path) or any(says(path) for says in _BY_PRODUCT):
        return True
    made_of = (one for says in _MADE_OF for one in says(path))
    return any(one.is_file() and (is_report(one) or is_by_product(one)) for one in made_of)


def may_belong(path: Path) -> tuple[Path, ...]:
    """Return the files that may belong to the result at ``path`` by their names, there or not;
    those of its facts are among them."""
    return (*(one for says in _BESIDE for one in says(path)), *meta_files(path))


def bytes_beside(path: Path) -> int:
    """Return how many bytes the files have that may belong to a result."""
    total = 0
    for one in set(may_belong(path)) - {path}:
        with suppress(OSError):
            total += one.stat().st_size
    return total


def with_companions(content: FileContent) -> FileContent:
    """Return the content with the files that belong to it, whose hashes are then part of its own.

    Raises InvalidInput where one of them cannot be a part of a result, OSError where it cannot be
    read.
    """
    beside = getattr(recognised(content.data), "beside", None)
    if beside is None:
        return content
    named = cast(_Files, beside)(content.path)
    companions = tuple(open_content(path) for path in named if os.path.lexists(path))
    whole = replace(content, beside=companions, alone=content.sha256)

    def sha256() -> str:
        return run_of(content.sha256()) + of_first(whole, len(companions))[_HALF:]

    return replace(whole, sha256=sha256)


def run_of(source_id: str) -> str:
    """Return the part of an id that all results of the same main file share."""
    return source_id[:_HALF]


def of_first(content: FileContent, count: int) -> str:
    """Return the hash of a result and of the first ``count`` files that belong to it."""
    own = (content.alone or content.sha256)()
    parts = (own, *(one.sha256() for one in content.beside[:count]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if count else own


def stood_for(content: FileContent) -> Iterator[FileContent]:
    """Yield the files in whose place a result stands, should they have been read before it."""
    opened = {one.path: one for one in content.beside}
    for path in (one for says in _STANDS_FOR for one in says(content.path)):
        # What cannot be read was never taken in.
        with suppress(InvalidInput, OSError):
            if path.is_file():
                yield opened.get(path) or open_content(path)
