"""Everything that is looked at while a load runs, put together for one launch."""

import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import psutil

from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.surroundings.layout import Layout
from runners.watching.gpus import GpuWatch
from runners.watching.node import Beside, present

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
        found = _shares(
            self._before,
            now,
            sum(seconds - self._ours.get(pid, 0.0) for pid, seconds in ours.items()),
        )
        self._before, self._ours = now, ours
        return found | {LOAD: os.getloadavg()[0]} | self._clock()

    def _clock(self) -> dict[str, float]:
        if time.monotonic() - self._clock_at < _CLOCK_EVERY_S:
            return {}
        self._clock_at = time.monotonic()
        clock = psutil.cpu_freq()
        return {CLOCK: clock.current} if clock is not None and clock.current > 0 else {}


def _shares(before: object, now: object, mine: float) -> dict[str, float]:
    """Return the cores used by others, 0 to the number of cores, and the share stolen; none if no
    time passed."""
    (busy, idle, stolen), (busy0, idle0, stolen0) = _spent(now), _spent(before)
    passed = busy + idle + stolen - busy0 - idle0 - stolen0
    if passed <= 0:
        return {}
    each = passed / (psutil.cpu_count() or 1)
    return {OTHERS: max(0.0, busy - busy0 - mine) / each, STEAL: (stolen - stolen0) / passed}


def _spent(times: object) -> tuple[float, float, float]:
    """Return busy, idle and stolen seconds of all cores together, since boot."""

    def of(*names: str) -> float:
        return sum(getattr(times, name, 0.0) for name in names)

    # Linux counts a guest's time twice, as its own and as user time: it is left out here.
    return of("user", "nice", "system", "irq", "softirq"), of("idle", "iowait"), of("steal")


def _seconds(processes: Mapping[int, psutil.Process]) -> dict[int, float]:
    """Return the seconds of computing of each process so far."""
    found = {}
    for pid, process in processes.items():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        found[pid] = times.user + times.system
    return found


class Family:
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
        self._members = {pid: one for pid, one in self._members.items() if pid in now}
        for pid in sorted(now - self._seen):
            self._adopt(pid)
        self._seen = now
        return self._members

    def _adopt(self, pid: int) -> None:
        try:
            process = psutil.Process(pid)
            if process.ppid() in self._members:
                self._members[pid] = process
        except psutil.Error:
            return  # It is gone already.


@dataclass(frozen=True)
class Watch:
    """The machine of one launch; ``GpuWatch`` is open."""

    family: Family
    gpus: GpuWatch
    beside: Beside

    def look(self) -> "Look":
        """Return a function to be called every second of one cell, which returns what it saw."""
        self.beside.begin()
        return Look(self, Processor(self.family))

    def problem(self) -> Diagnosis | None:
        """Say why going on makes no sense, where a GPU is gone; None else."""
        lost = self.gpus.lost()
        if not lost:
            return None
        named = ", ".join(str(index) for index in lost)
        return Diagnosis(
            GPU_LOST,
            f"GPU {named} does not answer its driver any more (dmesg tells the Xid); reset it or "
            "restart the machine, then run the same command again: what was good is kept.",
        )

    def notes(self) -> dict[str, Any]:
        """Return for a record's environment which launches the cell met, and why no GPU was
        read."""
        unread = {} if self.gpus.reason is None else {"gpus_unread": self.gpus.reason}
        return self.beside.as_json() | unread


@dataclass(frozen=True)
class Look:
    """What is looked at during one cell: a call returns values by series, of GPUs, processor and
    other launches."""

    watch: Watch
    processor: Processor

    def __call__(self) -> dict[str, float]:
        """Look at everything once, and return values by series."""
        return self.processor() | self.watch.beside() | self.watch.gpus()


@contextmanager
def watching(layout: Layout, launch: str, gpus: Sequence[int] | None) -> Iterator[Watch]:
    """Open what a launch is watched with. ``gpus``: NVML indices that its server uses, none for a
    server on a CPU or elsewhere; None: all, since it is not known."""
    family, here = Family(), present(layout, launch, gpus or ())
    with here as beside, GpuWatch(gpus, family) as read:
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
        values = [_short(found.get(name)) for name in self._names]
        file.write(json.dumps([round(at, 3), *values]) + "\n")
        self.spent_s = time.thread_time()


def _short(value: float | None) -> float | int | None:
    """Round a value to six digits, which tell all that a sensor knows; whole numbers stay whole."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.6g}")
