"""What passes between the command and the processes that read: a task there, one result back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.columns import ColumnMap
from ingest.discovery import Unit
from ingest.facts_file import FactsFile
from ingest.limits import Allowed, Limits
from warehouse.store_draft import Draft


@dataclass(frozen=True)
class Options:
    """What the user asked for; ``settings`` are validated facts of ``--set``."""

    settings: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False
    replace: bool = False
    limits: Limits = field(default_factory=Limits)
    facts: FactsFile | None = None
    """What ``--facts`` tells of each result by its path."""
    columns: ColumnMap | None = None
    """What ``--columns`` says of a table of one row a run."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a process share: the warehouse, and the folder that paths start from."""

    root: Path
    folder: Path


@dataclass(frozen=True)
class Task:
    """One unit to read, its place in the order of the units, and what reading it may take."""

    number: int
    unit: Unit
    options: Options
    allowed: Allowed


@dataclass(frozen=True)
class Question:
    """A reading process asks whether the warehouse holds this content already; the answer is a
    bool."""

    source_id: str


@dataclass(frozen=True)
class Read:
    """A result, ready to be adopted: a draft, or one for each of a collection that is not known yet.
    ``former``: ids in whose place it stands; ``shorter``: those of files before they grew, often
    many; ``replaced``: hashes of main files in whose place it stands. ``beside``: how many files
    belong to it; None where none can."""

    drafts: tuple[Draft, ...]
    former: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    beside: int | None = None


@dataclass(frozen=True)
class Known:
    """The answer of a reading process that the warehouse holds the content already."""


@dataclass(frozen=True)
class Table:
    """A published table that can be read; it is kept as it is."""

    name: str
    text: str


@dataclass(frozen=True)
class Refused:
    """The answer of a reading process that a unit is no result; one sentence says why."""

    reason: str


@dataclass(frozen=True)
class NotWritten:
    """The answer of a reading process that the warehouse cannot be written; that is no fault of the
    unit."""

    sentence: str


Result = Read | Known | Table | Refused | NotWritten
