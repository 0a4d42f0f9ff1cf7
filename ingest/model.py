"""What passes between the steps of ingest: opened content, what the user said, a parsed report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from warehouse.rows import Cell


@dataclass(frozen=True)
class Content:
    """An opened file: its decompressed bytes (mapped where it was not compressed)."""

    path: Path
    data: memoryview
    sha256: Callable[[], str]
    """Hex digest of ``data`` and of what lies beside it; computed beside the parsing, waits for the
    result when called."""
    beside: tuple["Content", ...] = ()
    """Files that belong to the same result, e.g. its request records."""
    alone: Callable[[], str] | None = None
    """Hex digest of ``data`` alone, where other files may belong to the result."""


@dataclass(frozen=True)
class Context:
    """What is known beside the report: ``--set``, a drop's record, whether texts are kept."""

    source_id: Callable[[], str]
    """Waits, where the content is still being hashed beside the parsing."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts that override what the report says, already validated."""
    keep_text: bool = False


@dataclass(frozen=True)
class Parsed:
    """A report that was recognised; ``cells`` streams, so that a large report never sits whole."""

    format: str
    report_config: dict[str, Any]
    """The report's own configuration, secrets removed."""
    cells: Iterator[Cell]
    former: tuple[str, ...] = ()
    """Hashes of the content that this file had before results were appended to it: it stands in
    place of what was read from it then."""
    apart: tuple[tuple[str, Iterator[Cell]], ...] = ()
    """The same cells where each result of a collection is a source of its own, by the hash of what
    it says: it is known wherever it stands, collected or alone."""


class Format(Protocol):
    """What a module in ``ingest/formats`` provides.

    More functions it may have. ``beside(path)``: the files that belong to the result at ``path`` by
    their names, there or not. ``is_by_product(path)``: whether a file in a folder is no result of
    its own, but belongs to one or repeats it. ``made_of(path)``: files any of which says, if it is
    there, all that the one at ``path`` says. ``stands_for(path)``: files in whose place the result
    at ``path`` stands, of whatever format it is, should they have been read before it.
    """

    NAME: str
    """As sources are listed by it."""
    KIND: str
    """What a person calls such a file, with its article: ``a GuideLLM report``. Empty where it names
    files that cannot be read, in order to say what to give instead."""

    def sniff(self, data: memoryview) -> bool:
        """Whether these bytes look like this format; must be cheap and never raise."""

    def parse(self, content: Content, context: Context) -> Parsed:
        """Read it. Raises InvalidInput, also while ``cells`` is iterated."""
