"""What passes between the command and the processes that read, and how much reading one result may take."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.discovery import Unit
from ingest.settings import FactsFile
from ingest.table import ColumnMap
from warehouse.store_draft import Draft

# --- How much reading one result may take: generous for a result, too little for a poison.


#: Of one file or folder a process may hold this many times its size, beside what any may.
_TIMES_ITS_SIZE = 3
#: Packed files grow about tenfold, repeated texts a hundredfold.
_UNPACKED = 20
_PACKED = (".gz", ".zst")
#: Bytes that are surely read in a second of processor time: a fortieth of what one core does.
_SLOWEST = 1e6
#: A disk or a busy machine may make a unit take so many times its processor time, and this at least.
_WAITING, _LEAST_S = 10, 60.0
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Allowed:
    """What reading one unit may take: processor seconds, seconds, and bytes of memory."""

    seconds: int
    wall_seconds: float
    memory: int


def _processes() -> int:
    """Return how many processes read: one for each core, up to four; two on a single core, so that
    a slow unit stops no other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(2, min(4, cores or 1))


@dataclass(frozen=True)
class Limits:
    """What the user allows; ``seconds`` and ``megabytes`` hold for a small result and grow with it."""

    workers: int = 0
    """How many read at the same time; 0: one for each core, from two to four."""
    seconds: float = 120.0
    megabytes: int = 1024

    @property
    def processes(self) -> int:
        """The number of processes that read."""
        return self.workers or _processes()

    def of(self, unit: Unit) -> Allowed:
        """Return what reading this unit may take."""
        seconds = self.seconds + weight(unit) / _SLOWEST
        memory = self.megabytes * _MEGABYTE + _TIMES_ITS_SIZE * weight(unit)
        return Allowed(int(seconds) + 1, max(_LEAST_S, seconds * _WAITING), memory)


def weight(unit: Unit) -> int:
    """Return about how many bytes a unit has when it is unpacked."""
    return unit.bytes * (_UNPACKED if _is_packed(unit) else 1)


def _is_packed(unit: Unit) -> bool:
    if not unit.is_drop:
        return unit.path.suffix in _PACKED
    try:
        return any(path.suffix in _PACKED for path in unit.path.iterdir())
    except OSError:
        return False


# --- What passes between the command and the processes that read: a task there, one result back.


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
