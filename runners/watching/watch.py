"""Everything that is looked at while a load runs, put together for one launch."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from runners.measuring.layout import Layout
from runners.serving.diagnosis import GPU_LOST, Diagnosis
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
