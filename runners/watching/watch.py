"""Everything that is looked at while a load runs, put together for one launch."""

import fcntl
import gzip
import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

import psutil

from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.watching.gpus import GpuWatch

#: Names of the series: busy cores that neither the runner nor its servers and loads used, MHz as a
#: mean over the cores, the share of its time that a hypervisor gave to others, runnable processes.
OTHERS, CLOCK = "cpu_cores_used_by_others", "cpu_mhz"
STEAL, LOAD = "cpu_steal_share", "load_average"
#: The clocks of two hundred cores are two hundred files.
_CLOCK_EVERY_S = 5.0


class Processor:
    """Tells at each call what the processor did since the call before.

    ``family`` gives our own processes. One of ours that ended in between counts as somebody else's
    for that moment.
    """

    def __init__(self, family: Callable[[], Mapping[int, psutil.Process]]) -> None:
        self._family = family
        self._before = psutil.cpu_times()
        self._ours = _seconds(family())
        self._clock_at = float("-inf")

    def __call__(self) -> dict[str, float]:
        """Return values by the names above, as far as the system tells them."""
        now, ours = psutil.cpu_times(), _seconds(self._family())
        mine = sum(seconds - self._ours.get(pid, 0.0) for pid, seconds in ours.items())
        found = _shares(self._before, now, mine) | {LOAD: os.getloadavg()[0]}
        self._before, self._ours = now, ours
        if time.monotonic() - self._clock_at >= _CLOCK_EVERY_S:
            self._clock_at = time.monotonic()
            clock = psutil.cpu_freq()
            if clock is not None and clock.current > 0:
                found[CLOCK] = clock.current
        return found


def _shares(before: object, now: object, mine: float) -> dict[str, float]:
    """Return the cores used by others, 0 to the number of cores, and the share stolen; none if no
    time passed."""

    def spent(*names: str) -> float:
        """Return the seconds of all cores together."""
        return sum(getattr(now, name, 0.0) - getattr(before, name, 0.0) for name in names)

    # Linux counts a guest's time twice, as its own and as user time: it is left out here.
    busy, stolen = spent("user", "nice", "system", "irq", "softirq"), spent("steal")
    passed = busy + spent("idle", "iowait") + stolen
    if passed <= 0:
        return {}
    each = passed / (psutil.cpu_count() or 1)
    return {OTHERS: max(0.0, busy - mine) / each, STEAL: stolen / passed}


def _seconds(processes: Mapping[int, psutil.Process]) -> dict[int, float]:
    found = {}
    for pid, process in processes.items():
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[pid] = times.user + times.system
    return found


class ProcessFamily:
    """The processes of this run: this process and all below it. A call returns those that live, by
    process id.

    A process whose parent ended stays one of ours. One that starts and leaves its parent between
    two looks is not seen.
    """

    def __init__(self) -> None:
        me = psutil.Process()
        self._seen = frozenset(psutil.pids())
        self._members = {each.pid: each for each in (me, *me.children(recursive=True))}

    def __call__(self) -> dict[int, psutil.Process]:
        """Look again, and return the processes that live, by process id."""
        now = frozenset(psutil.pids())
        self._members = {pid: process for pid, process in self._members.items() if pid in now}
        for pid in sorted(now - self._seen):
            with suppress(psutil.Error):  # It may be gone already.
                process = psutil.Process(pid)
                if process.ppid() in self._members:
                    self._members[pid] = process
        self._seen = now
        return self._members


# --- Launches that share a machine know of each other, whoever started them: Slurm, Ray, this program.
#
# Each keeps a small file locked under ``<results>/.nodes/<machine>/`` for as long as it runs. The
# machine is named by a hash of its boot: containers on it agree, and no host name is written.


#: Name of the series: other launches on this machine.
BESIDE = "launches_beside"
_BESIDE_EVERY_S = 5.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Neighbour:
    """Another launch on this machine."""

    study: str
    launch: str
    #: NVML indices, as far as it knows them.
    gpus: tuple[int, ...] = ()


@dataclass
class Beside:
    """The launches beside this one. ``folder`` None: they cannot be told on this machine."""

    folder: Path | None
    own: str
    #: All that were there since ``begin``.
    met: dict[str, Neighbour] = field(default_factory=dict)
    _count: float | None = None
    _looked_at: float = float("-inf")

    def begin(self) -> None:
        """Forget the launches that an earlier cell met."""
        self.met, self._count, self._looked_at = {}, None, float("-inf")

    def __call__(self) -> dict[str, float]:
        """Return ``{BESIDE: launches}``, looked up every few seconds; empty where it cannot be
        told."""
        if time.monotonic() - self._looked_at >= _BESIDE_EVERY_S:
            self._looked_at = time.monotonic()
            now = None if self.folder is None else _there(self.folder, self.own)
            self._count = None if now is None else float(len(now))
            self.met |= now or {}
        return {} if self._count is None else {BESIDE: self._count}

    def as_json(self) -> dict[str, Any]:
        """Return for a record's environment which launches this cell met; nothing where it cannot
        be told."""
        if self._count is None:
            return {}
        return {"neighbours": [asdict(one) for _, one in sorted(self.met.items())]}


@contextmanager
def present(nodes: Path, study: str, launch: str, gpus: Sequence[int]) -> Iterator[Beside]:
    """Make this launch known on its machine for the block. Where files cannot be locked nobody is
    known, and nothing fails."""
    folder = nodes / machine()
    name = f"{study}--{launch}.json"
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / name).open("a", encoding="utf-8"))
            # Whoever looks at this very moment holds it for an instant.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(json.dumps(asdict(Neighbour(study, launch, tuple(gpus)))))
            file.flush()
        except OSError:
            yield Beside(None, name)
        else:
            yield Beside(folder, name)


def machine() -> str:
    """Return a short name of this machine until its next boot, without a word about its owner."""
    try:
        boot = _BOOT.read_text(encoding="ascii")
    except OSError:
        boot = platform.node()
    return hashlib.sha256(boot.strip().encode()).hexdigest()[:12]


def _there(folder: Path, own: str) -> dict[str, Neighbour] | None:
    """Return the launches whose file is locked now, by the file's name; None where that cannot be
    told. Looking locks a file in a way that others may share."""
    there = {}
    try:
        for path in sorted(folder.glob("*.json")):
            if path.name == own:
                continue
            with path.open(encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    with suppress(ValueError, KeyError, TypeError):  # Being written at this moment.
                        held = json.loads(file.read())
                        there[path.name] = Neighbour(
                            str(held["study"]), str(held["launch"]), tuple(held["gpus"])
                        )
    except OSError:
        return None
    return there


# --- Everything that is looked at while a load runs, put together for one launch.


@dataclass(frozen=True)
class Watch:
    """The machine of one launch; ``GpuWatch`` is open."""

    family: ProcessFamily
    gpus: GpuWatch
    beside: Beside

    def look(self) -> Callable[[], dict[str, float]]:
        """Return a function to be called every second of one cell, which looks at GPUs, processor and
        other launches once and returns values by series."""
        self.beside.begin()
        processor = Processor(self.family)

        def look() -> dict[str, float]:
            return processor() | self.beside() | self.gpus()

        return look

    def problem(self) -> Diagnosis | None:
        """Say why going on makes no sense, where a GPU is gone; None else."""
        lost = self.gpus.lost()
        if not lost:
            return None
        return Diagnosis(
            GPU_LOST,
            f"GPU {', '.join(map(str, lost))} does not answer its driver any more (dmesg tells the Xid); reset it or "
            "restart the machine, then run the same command again: what was good is kept.",
        )

    def notes(self) -> dict[str, Any]:
        """Return for a record's environment which launches the cell met, and why no GPU was
        read."""
        unread = {} if self.gpus.reason is None else {"gpus_unread": self.gpus.reason}
        return self.beside.as_json() | unread


@contextmanager
def watching(nodes: Path, study: str, launch: str, gpus: Sequence[int] | None) -> Iterator[Watch]:
    """Open what a launch is watched with. ``nodes``: where launches know of each other; ``gpus``: NVML indices that its server uses, none for a
    server on a CPU or elsewhere; None: all, since it is not known."""
    family = ProcessFamily()
    with present(nodes, study, launch, gpus or ()) as beside, GpuWatch(gpus, family) as read:
        yield Watch(family, read, beside)


# --- The machine, second by second, as a small file beside a cell: ``machine-samples.jsonl.gz``.
#
# A line of names (``["at", "gpu_power_watts{gpu=\"0\"}", …]``) begins the file and stands again
# where the names change; every other line holds unix seconds and a value for each name, null where
# it was not read.


#: Of one core, so much may go into looking; beyond it looks become rarer. The first seconds are
#: free, since a single look may take longer than a hundredth of the time so far.
COST_SHARE, _FREE_S = 0.01, 0.1
_EVERY_S = 1.0
#: A look that hangs, in a driver or on a remote disk, is not waited for.
_LEAVE_S = 5.0

Values = Callable[[], Mapping[str, float]]


class MachineSampler:
    """Writes what ``look`` says from ``with`` on, in a thread of its own, until the block is left.

    ``spent_s``: seconds of computing that it took, the driver's own included.
    """

    def __init__(self, path: Path, look: Values, every_s: float = _EVERY_S) -> None:
        self.spent_s = 0.0
        self._path, self._look, self._every_s = path, look, every_s
        self._names: tuple[str, ...] = ()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine", daemon=True)

    def __enter__(self) -> Self:
        """Begin to write samples."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take a last look and close the file."""
        self._left.set()
        self._thread.join(_LEAVE_S)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            with gzip.open(self._path, "wt", encoding="utf-8") as file:
                while True:
                    leaving = self._left.is_set()
                    self._write(file)
                    if leaving:
                        return
                    self._left.wait(self._pause(time.monotonic() - began))
        except OSError:
            return  # A full disk is noticed by the cell itself; without this file it is still good.

    def _pause(self, passed: float) -> float:
        """Return the seconds until the next look, at a cost of COST_SHARE of a core or less."""
        affordable = (self.spent_s - _FREE_S) / COST_SHARE - passed
        return max(self._every_s, affordable)

    def _write(self, file: TextIO) -> None:
        at = time.time()
        found = self._look()
        if new := [name for name in found if name not in self._names]:
            self._names += tuple(new)
            file.write(json.dumps(["at", *self._names]) + "\n")
        values: list[float | None] = [
            None if v is None else _short(v) for v in map(found.get, self._names)
        ]
        file.write(json.dumps([round(at, 3), *values]) + "\n")
        self.spent_s = time.thread_time()


def _short(value: float) -> float:
    """Round a value to six digits, which tell all that a sensor knows; whole numbers stay whole."""
    return int(value) if value == int(value) else float(f"{value:.6g}")
