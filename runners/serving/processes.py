"""Commands that leave nothing behind: each one stands behind a guard of its own.

A guard (``runners/serving/guard.py``) ends the whole tree below it when it is asked to, when the command
ends, and when this process dies, even by SIGKILL.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from runners.serving import guard
from warehouse.errors import RunnerError

_GUARD = str(Path(guard.__file__).resolve())
#: Beyond the grace, how long a guard may take until the last process is gone.
_KILL_S = 30.0


class Guarded(contextlib.AbstractContextManager["Guarded"]):
    """A command in a session of its own, with all that it starts.

    ``pid`` is the command's own. What all of them print is appended to ``log``. Leaving the context
    stops it.
    """

    def __init__(self, process: subprocess.Popen[bytes], runner: socket.socket, pid: int) -> None:
        self._guard = process
        self._runner = runner
        self.pid = pid

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        cpus: Iterable[int] | None = None,
    ) -> Self:
        """Start ``argv`` with ``env`` as its whole environment, on ``cpus`` where the system can.

        RunnerError where it cannot be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        pinned = ",".join(str(cpu) for cpu in sorted(cpus or ()))
        with log.open("ab") as written, theirs:
            process = subprocess.Popen(
                # -I: nothing in the caller's folder or PYTHONPATH may shadow what it imports.
                [sys.executable, "-I", _GUARD, pinned, *argv],
                stdin=theirs.fileno(), stdout=written, stderr=written, env=dict(env),
                start_new_session=True,
            )  # fmt: skip
        with ours.makefile("rb") as said:
            answer = json.loads(said.readline() or b'{"error": "its guard did not start"}')
        if "error" in answer:
            ours.close()
            process.wait()
            raise RunnerError(f"{argv[0]} cannot be started: {answer['error']}")
        return cls(process, ours, answer["pid"])

    def poll(self) -> int | None:
        """Return the exit status once the command and all that it started are gone; negative: a
        signal."""
        status = self._guard.poll()
        if status is not None:
            self._runner.close()
        if status == -signal.SIGKILL:
            end_strays()  # It may have been the guard that was killed.
        return status

    def tree(self) -> list[psutil.Process]:
        """Return the command and its descendants, wherever they moved to."""
        try:
            return psutil.Process(self._guard.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def listens_on(self, port: int) -> bool:
        """Return whether one of the command's processes, and nobody else's, has the port."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                try:
                    sockets = process.net_connections("inet")
                except psutil.AccessDenied:
                    return True  # Where the system does not tell, an answer must do.
                if any(s.status == psutil.CONN_LISTEN and s.laddr.port == port for s in sockets):
                    return True
        return False

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask the command to end, and kill what is left after ``grace_s``. Returns when all are gone."""
        with contextlib.suppress(OSError):
            self._runner.sendall(f"{grace_s}\n".encode())
        try:
            self._guard.wait(grace_s + _KILL_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self.poll()

    def __exit__(self, *_: object) -> None:
        self.stop()


def end_strays() -> list[int]:
    """Kill what is left of guards that were killed themselves. Return the numbers of the killed
    processes.

    Only processes of this user are seen. Those of a guard that still lives are left alone, and so
    are those of a container, where processes have other numbers.
    """
    ended, ours = [], _numbering(os.getpid())
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _numbering(process.pid) != ours:
                continue
            mark = process.environ().get(guard.MARK)
            if mark and not _guards(int(mark)) and not guard.tidies_up(process):
                process.kill()
                ended.append(process.pid)
    return ended


def _numbering(pid: int) -> Path | None:
    """Return the namespace of a process in which processes are numbered; None where there are
    none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/pid").readlink()
    return None


def _guards(pid: int) -> bool:
    """Return whether a guard of that number lives; it may be one of another checkout."""
    try:
        return any(Path(word).name == Path(_GUARD).name for word in psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return False
