"""Which format a file is, by its structure; never by its name."""

from ingest.formats import FORMATS
from ingest.model import Content, Format
from ingest.read import json_bytes
from warehouse.errors import InvalidInput


def sniff(content: Content) -> Format:
    """The first format that recognises the content. Raises InvalidInput where none does."""
    data = json_bytes(content.data)
    for known in FORMATS:
        if known.sniff(data):
            return known
    raise InvalidInput(
        "This is neither a GuideLLM report nor a vllm bench result: give the JSON file that "
        "the load generator wrote."
    )
