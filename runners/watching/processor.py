"""The processor during a load: its clock, what a hypervisor takes of it, what others do on it."""

import os
import time
from collections.abc import Callable, Mapping

import psutil

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
        found = _shares(self._before, now, _mine(self._ours, ours))
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


def _mine(before: Mapping[int, float], now: Mapping[int, float]) -> float:
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in now.items())
