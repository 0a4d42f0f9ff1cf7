"""How much reading one result may take: generous for a result, too little for a poison."""

import os
from dataclasses import dataclass

from ingest.discovery import Unit

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
