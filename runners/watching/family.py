"""The processes of this run, told from everybody else's.

``psutil`` reads every process of the machine to find the children of one, 40 ms where there are two
thousand; here only processes that are new since the look before are read.
"""

import psutil


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
