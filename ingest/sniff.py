"""Which format a file is, by its structure; never by its name."""

from pathlib import Path

from ingest.formats import FORMATS
from ingest.model import Content, Format
from ingest.read import head_of_file, json_bytes
from ingest.remembered import remembered
from warehouse.errors import InvalidInput


def sniff(content: Content) -> Format:
    """Return the format that recognises the content. Raises InvalidInput where none does."""
    found = recognised(content.data)
    if found is not None:
        return found
    *kinds, last = (known.KIND for known in FORMATS if known.KIND)
    raise InvalidInput(
        f"This is neither {', '.join(kinds)} nor {last}: of a CSV or JSON of one row a run say what its "
        "columns are by --columns, else give the file that the load generator wrote."
    )


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


def recognised(data: memoryview) -> Format | None:
    """Return the format that recognises a file, also by its first bytes alone."""
    data = json_bytes(data)
    return next((known for known in FORMATS if known.sniff(data)), None)
