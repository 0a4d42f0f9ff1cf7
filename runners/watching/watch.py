"""Everything that is looked at while a load runs, put together for one launch."""

import fcntl
import gzip
import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Self, TextIO

import psutil

from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.surroundings.machine import NoNvml, ask, initialised

# --- What GPUs do during a load: clocks, power, heat, memory, throttling, and who else computes there.


#: Series of each GPU. Throttle reasons are NVML's bits (nvmlClocksEventReasons); processes of
#: others are told where one of our own is seen there, which a container may hide.
POWER, GPU_CLOCK, MEMORY_CLOCK = "gpu_power_watts", "gpu_sm_clock_mhz", "gpu_memory_clock_mhz"
HEAT, MEMORY, REASONS = "gpu_temperature_celsius", "gpu_memory_used_bytes", "gpu_throttle_reasons"
GPU_OTHERS = "gpu_processes_of_others"
#: Who computes on a GPU costs the driver more than all else together.
_PROCESSES_EVERY_S = 5.0
#: So many looks in a row without any answer, and a GPU is gone.
_SILENT_LOOKS = 3


class GpuWatch:
    """Reads GPUs from ``with`` on; empty where NVML is missing, and ``reason`` says why.

    ``gpus`` are NVML indices, None means all; ``ours`` gives the numbers of our own processes.
    """

    def __init__(self, gpus: Iterable[int] | None, ours: Callable[[], Collection[int]]) -> None:
        self.reason: str | None = None
        self._wanted = None if gpus is None else frozenset(gpus)
        self._ours = ours
        self._handles: dict[int, Any] = {}
        self._nvml: ModuleType | None = None
        self._silent: dict[int, int] = {}
        self._processes_at = float("-inf")

    def __enter__(self) -> Self:
        if self._wanted == frozenset():
            return self
        try:
            self._nvml = nvml = initialised()
        except NoNvml as error:
            self.reason = str(error)
            return self
        for index in range(ask(nvml, nvml.nvmlDeviceGetCount) or 0):
            if self._wanted is None or index in self._wanted:
                self._handles[index] = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
        self._nvml, self._handles = None, {}

    def __call__(self) -> dict[str, float]:
        """Return values by series and GPU: ``gpu_power_watts{gpu="0"}``."""
        if self._nvml is None:
            return {}
        with_processes = time.monotonic() - self._processes_at >= _PROCESSES_EVERY_S
        if with_processes:
            self._processes_at = time.monotonic()
        found: dict[str, float] = {}
        for index, handle in self._handles.items():
            values = dict(_read(self._nvml, handle))
            if values:
                self._silent[index] = 0
            elif index in self._silent:
                self._silent[index] += 1
            if with_processes:
                # Count the compute processes that are not ours; nothing where none can be told from
                # another.
                running = ask(self._nvml, self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
                ours = self._ours()
                there = {process.pid for process in running or ()}
                mine = there.intersection(ours)
                values |= {GPU_OTHERS: float(len(there - mine))} if mine else {}
            found |= {f'{name}{{gpu="{index}"}}': value for name, value in values.items()}
        return found

    def ask_again(self) -> None:
        """Look as often as it takes to know that a GPU is gone."""
        for _ in range(_SILENT_LOOKS):
            self()

    def lost(self) -> tuple[int, ...]:
        """Return the GPUs that answered once and do not any more, e.g. because they fell off the
        bus."""
        return tuple(index for index, looks in self._silent.items() if looks >= _SILENT_LOOKS)


def _read(nvml: ModuleType, handle: Any) -> Iterator[tuple[str, float]]:
    """Yield everything that this card tells, in the units of the names."""
    if (milliwatts := ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)) is not None:
        yield POWER, milliwatts / 1000
    plain: tuple[tuple[str, Callable[..., Any], tuple[int, ...]], ...] = (
        (GPU_CLOCK, nvml.nvmlDeviceGetClockInfo, (nvml.NVML_CLOCK_SM,)),
        (MEMORY_CLOCK, nvml.nvmlDeviceGetClockInfo, (nvml.NVML_CLOCK_MEM,)),
        (HEAT, nvml.nvmlDeviceGetTemperature, (nvml.NVML_TEMPERATURE_GPU,)),
        # The driver's older name, which every release of the last ten years knows.
        (REASONS, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, ()),
    )
    for name, question, more in plain:
        if (value := ask(nvml, question, handle, *more)) is not None:
            yield name, float(value)
    if (memory := ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)) is not None:
        yield MEMORY, float(memory.used)


# --- The processor, and which processes are ours.


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
    # The cores used by others, 0 to the number of cores, and the share stolen; none if no
    # time passed.

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


@dataclass
class Beside:
    """The launches beside this one. ``folder`` None: they cannot be told on this machine."""

    folder: Path | None
    own: str
    #: All that were there since ``begin``: study, launch and NVML indices, as far as it knows them.
    met: dict[str, dict[str, Any]] = field(default_factory=dict)
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

    def as_json(self) -> dict[str, object]:
        """Return for a record's environment which launches this cell met; nothing where it cannot
        be told."""
        if self._count is None:
            return {}
        return {"neighbours": [self.met[name] for name in sorted(self.met)]}


@contextmanager
def present(nodes: Path, study: str, launch: str, gpus: Sequence[int]) -> Iterator[Beside]:
    """Make this launch known on its machine for the block. Where files cannot be locked nobody is
    known, and nothing fails.
    """
    folder = nodes / machine()
    name = f"{study}--{launch}.json"
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / name).open("a", encoding="utf-8"))
            # Whoever looks at this very moment holds it for an instant.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(json.dumps({"study": study, "launch": launch, "gpus": [*gpus]}))
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


def _there(folder: Path, own: str) -> dict[str, dict[str, Any]] | None:
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
                        there[path.name] = {
                            "study": str(held["study"]),
                            "launch": str(held["launch"]),
                            "gpus": tuple(held["gpus"]),
                        }
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

    def notes(self) -> dict[str, object]:
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


class MachineSampler:
    """Writes what ``look`` says from ``with`` on, in a thread of its own, until the block is left.

    ``spent_s``: seconds of computing that it took, the driver's own included.
    """

    def __init__(
        self, path: Path, look: Callable[[], Mapping[str, float]], every_s: float = _EVERY_S
    ) -> None:
        self.spent_s = 0.0
        self._path, self._look, self._every_s = path, look, every_s
        self._names: tuple[str, ...] = ()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
                    # The seconds until the next look, at a cost of COST_SHARE of a core or less.
                    affordable = (self.spent_s - _FREE_S) / COST_SHARE - (time.monotonic() - began)
                    self._left.wait(max(self._every_s, affordable))
        except OSError:
            return  # A full disk is noticed by the cell itself; without this file it is still good.

    def _write(self, file: TextIO) -> None:
        at = time.time()
        found = self._look()
        if new := [name for name in found if name not in self._names]:
            self._names += tuple(new)
            file.write(json.dumps(["at", *self._names]) + "\n")
        values: list[float | None] = [
            None if v is None else (int(v) if v == int(v) else float(f"{v:.6g}"))
            for v in map(found.get, self._names)
        ]
        file.write(json.dumps([round(at, 3), *values]) + "\n")
        self.spent_s = time.thread_time()
