"""What passes between the steps of ingest: what was found and is asked for, opened content, a parsed report."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ingest.settings import FactsFile
    from ingest.table import ColumnMap
    from warehouse.rows import Cell
    from warehouse.storage.draft import Draft

# --- What there is to read, and how much reading it may take: generous for a result, too little for
# a poison.

#: A disk or a busy machine may make a unit take so many times its processor time, and this at least.
_WAITING, _LEAST_S = 10, 60.0


@dataclass(frozen=True)
class Unit:
    """One thing to ingest: a report's file, or the folder of a drop.

    ``bytes``: as stored, with the files that belong to it.
    """

    path: Path
    is_drop: bool
    bytes: int


@dataclass(frozen=True)
class Allowance:
    """What reading one unit may take: processor seconds, seconds, and bytes of memory."""

    seconds: int
    wall_seconds: float
    memory: int


@dataclass(frozen=True)
class ReadingLimits:
    """What the user allows; ``seconds`` and ``megabytes`` hold for a small result and grow with it.

    ``workers``: how many read at the same time; 0: one for each core, from two, so that a slow unit
    stops no other, to four.
    """

    workers: int = 0
    seconds: float = 120.0
    megabytes: int = 1024

    @property
    def processes(self) -> int:
        """The number of processes that read."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self.workers or max(2, min(4, cores or 1))

    def of(self, unit: Unit) -> Allowance:
        """Return what reading this unit may take, by about how many bytes it has when unpacked."""
        try:
            files = unit.path.iterdir() if unit.is_drop else iter([unit.path])
            is_packed = any(path.suffix in (".gz", ".zst") for path in files)
        except OSError:
            is_packed = False
        # Packed files grow about tenfold, repeated texts a hundredfold.
        size = unit.bytes * (20 if is_packed else 1)
        # 1 MB is surely read in a second of processor time: a fortieth of what one core does.
        seconds = self.seconds + size / 1e6
        # A process may hold three times the size of what it reads, beside what any may.
        memory = self.megabytes * 1_000_000 + 3 * size
        return Allowance(int(seconds) + 1, max(_LEAST_S, seconds * _WAITING), memory)


@dataclass(frozen=True)
class IngestOptions:
    """What the user asked for: validated facts of ``--set``, what ``--facts`` tells of each result
    by its path, and what ``--columns`` says of a table of one row a run."""

    settings: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False
    replace: bool = False
    limits: ReadingLimits = field(default_factory=ReadingLimits)
    facts: "FactsFile | None" = None
    columns: "ColumnMap | None" = None


@dataclass(frozen=True)
class ReadResult:
    """A result, ready to be adopted: a draft, or one for each of a collection that is not known yet.

    ``former``: ids in whose place it stands; ``shorter``: those of files before they grew, often
    many; ``replaced``: hashes of main files in whose place it stands. ``beside``: how many files
    belong to it; None where none can.
    """

    drafts: tuple["Draft", ...]
    former: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    beside: int | None = None


@dataclass(frozen=True)
class ClaimsTable:
    """A published table that can be read; it is kept as it is."""

    name: str
    text: str


# --- What a format gets, and gives.


@dataclass(frozen=True)
class FileContent:
    """An opened file: its decompressed bytes (mapped where it was not compressed).

    ``sha256``: of ``data`` and of what lies beside it, as hex digits; computed beside the parsing,
    waits when called. ``beside``: files that belong to the same result, e.g. its request records.
    ``alone``: of ``data`` alone, where other files may belong to the result.
    """

    path: Path
    data: memoryview
    sha256: Callable[[], str]
    beside: tuple["FileContent", ...] = ()
    alone: Callable[[], str] | None = None


@dataclass(frozen=True)
class Context:
    """What is known beside the report: facts that override what it says, already validated, and
    whether texts are kept. ``source_id`` waits where the content is still being hashed."""

    source_id: Callable[[], str]
    facts: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False


@dataclass(frozen=True)
class Parsed:
    """A report that was recognised; ``cells`` streams, so that a large report never sits whole.

    ``report_config``: the report's own configuration, secrets removed. ``former``: hashes of the
    content that this file had before results were appended to it: it stands in place of what was
    read from it then. ``apart``: the same cells where each result of a collection is a source of its
    own, by the hash of what it says: it is known wherever it stands, collected or alone.
    """

    format: str
    report_config: dict[str, Any]
    cells: "Iterator[Cell]"
    former: tuple[str, ...] = ()
    apart: "tuple[tuple[str, Iterator[Cell]], ...]" = ()


class Format(Protocol):
    """What a module in ``ingest/formats`` provides: a ``NAME`` by which sources are listed, and a
    ``KIND``, what a person calls such a file, with its article: ``a GuideLLM report``; empty where it
    names files that cannot be read, in order to say what to give instead.

    More functions it may have. ``beside(path)``: the files that belong to the result at ``path`` by
    their names, there or not. ``is_by_product(path)``: whether a file in a folder is no result of
    its own, but belongs to one or repeats it. ``made_of(path)``: files any of which says, if it is
    there, all that the one at ``path`` says. ``stands_for(path)``: files in whose place the result
    at ``path`` stands, of whatever format it is, should they have been read before it.
    """

    NAME: str
    KIND: str

    def sniff(self, data: memoryview) -> bool:
        """Whether these bytes look like this format; must be cheap and never raise."""

    def parse(self, content: FileContent, context: Context) -> Parsed:
        """Read it. Raises InvalidInput, also while ``cells`` is iterated."""
