"""Which files belong to one result: some load generators write a summary and its requests apart."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from ingest.formats import FORMATS
from ingest.meta_file import is_meta
from ingest.model import Content
from ingest.read import open_content
from ingest.sniff import recognised

_BY_PRODUCT = cast(
    list[Callable[[Path], bool]],
    [one.is_by_product for one in FORMATS if hasattr(one, "is_by_product")],
)


def is_by_product(path: Path) -> bool:
    """Return whether a file in a folder is no result of its own, as a format knows by its name."""
    return is_meta(path) or any(says(path) for says in _BY_PRODUCT)


def with_companions(content: Content) -> Content:
    """Return the content with the files that belong to it, whose hashes are then part of its own.

    Raises InvalidInput where one of them cannot be a part of a result, OSError where it cannot be
    read.
    """
    beside = getattr(recognised(content.data), "beside", None)
    if beside is None:
        return content
    named = cast(Callable[[Path], tuple[Path, ...]], beside)(content.path)
    companions = tuple(open_content(path) for path in named if path.is_file())
    if not companions:
        return content

    def sha256() -> str:
        parts = (content, *companions)
        return hashlib.sha256("\n".join(one.sha256() for one in parts).encode()).hexdigest()

    return replace(content, beside=companions, sha256=sha256)
