"""A process that reads units, one after the other, within limits; its death costs one unit."""

import gc
import math
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from ingest.exchange import Allowed, Job, NotWritten, Question, Refused, Result, Task
from ingest.reading import read_unit
from ingest.unreadable import sentence
from warehouse.errors import DraftboardError, InvalidInput

_TOO_MUCH = (
    "Reading this takes more memory than a result of its size may ({:,.0f} MB); if it is one, allow "
    "more with --unit-memory."
)


def serve(connection: Connection) -> None:
    """Answer tasks until the other end is closed."""
    # A core file of a poison would be as large as the poison.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, OSError):
        job: Job = connection.recv()
        os.chdir(job.folder)
        while True:
            task: Task = connection.recv()
            limit(task.allowed)
            connection.send(answer(task, job.root, connection))


def answer(task: Task, root: Path, connection: Connection) -> Result:
    """Read what a task names and return the result; whatever reading raises concerns this unit
    alone."""

    def is_known(source_id: str) -> bool:
        try:
            connection.send(Question(source_id))
            return bool(connection.recv())
        except (EOFError, OSError):
            # Nobody is there any more who would take the result.
            raise SystemExit from None

    try:
        return read_unit(task.unit, task.options, root, is_known)
    except MemoryError:
        return Refused(_TOO_MUCH.format(task.allowed.memory / 1e6))
    except InvalidInput as error:
        return Refused(str(error))
    except DraftboardError as error:
        return NotWritten(str(error))
    except Exception as error:  # noqa: BLE001  # One that no reader foresaw is a rejection too.
        return Refused(sentence(error))


def limit(allowed: Allowed) -> None:
    """Let the system end this process where the next unit takes more than it may.

    RLIMIT_DATA, because a mapped report is no part of it: RLIMIT_AS would count its pages, and the
    resident size would have to be looked at from outside, after the fact.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + allowed.seconds))
    # Elsewhere than on Linux such a limit does not reach most of what is allocated.
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        _lower(resource.RLIMIT_DATA, pages * resource.getpagesize() + allowed.memory)


def _lower(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class _WithoutPandas:
    """Keeps Arrow from importing pandas at its first array, which takes a third of a second and 40
    MB for nothing."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("reading needs no pandas", name=name)
        return None


def prepare() -> None:
    """Bring into memory what every reading process needs, before the first is forked."""
    import pyarrow as pa
    import pyarrow.parquet  # noqa: F401

    sys.meta_path.insert(0, _WithoutPandas)
    pa.array([{}])
    # Arrow asks once. A format of your own may use pandas.
    sys.meta_path.remove(_WithoutPandas)
    gc.collect()
    gc.freeze()
