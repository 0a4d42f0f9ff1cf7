"""Which format a file is, by its structure; never by its name."""

from ingest.formats import FORMATS
from ingest.model import Content, Format
from ingest.read import json_bytes
from warehouse.errors import InvalidInput


def sniff(content: Content) -> Format:
    """The format that recognises the content. Raises InvalidInput where none does."""
    data = json_bytes(content.data)
    for known in FORMATS:
        if known.sniff(data):
            return known
    *kinds, last = (known.KIND for known in FORMATS)
    raise InvalidInput(
        f"This is neither {', '.join(kinds)} nor {last}: give the JSON file that the load generator "
        "wrote."
    )
