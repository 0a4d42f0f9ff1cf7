"""What others do on this machine while a cell is measured: neighbours disturb a measurement."""

import psutil

#: Series name in the samples: busy cores that neither the runner nor its servers and loads used.
OTHERS = "draftboard:cpu_cores_used_by_others"


class Neighbours:
    """Called every few seconds: the cores that others kept busy since the call before.

    A process of ours that ended in between counts as somebody else's for that moment.
    """

    def __init__(self) -> None:
        self._machine = _machine_s()
        self._ours = _ours_s()

    def __call__(self) -> dict[str, float]:
        """``{OTHERS: cores}``, 0 to the number of cores; empty where no time has passed."""
        machine, ours = _machine_s(), _ours_s()
        busy, idle = (now - before for now, before in zip(machine, self._machine, strict=True))
        mine = sum(seconds - self._ours.get(process, 0.0) for process, seconds in ours.items())
        self._machine, self._ours = machine, ours
        passed = (busy + idle) / (psutil.cpu_count() or 1)
        return {OTHERS: max(0.0, busy - mine) / passed} if passed > 0 else {}


def _machine_s() -> tuple[float, float]:
    """Busy and idle seconds of all cores together, since boot."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts a guest's time twice: as its own and as user time.
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - idle - guest, idle


def _ours_s() -> dict[psutil.Process, float]:
    """Seconds of each process below this one, and its own."""
    me = psutil.Process()
    found = {}
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        found[process] = times.user + times.system
    return found
