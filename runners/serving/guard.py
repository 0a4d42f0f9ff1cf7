"""The guard: a small process between the runner and what it started, which outlives neither.

Run as a script: ``guard.py CPUS ARGV…`` (``CPUS`` like ``0,1``, or empty for all), with a socket to
the runner as standard input, over which it says one JSON line: ``{"pid": 123}`` or
``{"error": "…"}``. It is the subreaper of everything below it: a worker that left its group, its
session or its parent is still its descendant, and none can be missed. It ends the whole tree

* when the runner asks (a line with the seconds of grace), or by SIGTERM,
* when the runner is gone, by whatever signal: the socket closes,
* when the command itself has ended and left somebody behind,

and then ends as the command did, with the same status or by the same signal. If the guard itself
is killed, the command dies with it (parent-death signal); what remains carries ``MARK``.

It imports nothing of the project: it must start fast, and anywhere.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

#: Environment variable that everything below a guard carries: the number of the guard.
MARK = "DRAFTBOARD_GUARD"
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
#: Grace for a command whose runner is gone: time to unlink its shared memory.
_ORPHAN_GRACE_S = 5.0
#: Grace for helpers that end by themselves once those whom they serve have ended.
_COURTESY_S = 1.0
#: How often to look whether the runner still lives, should a fork of it hold the socket open.
_LOOK_S = 2.0
#: For a command that ends by itself: what it held is known from this long ago.
_LOOK_AT_MEMORY_S = 20.0
_ENDING = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}


class Guard:
    """One command, its descendants, and the socket to the runner."""

    def __init__(self, runner: socket.socket, wake: socket.socket) -> None:
        self.runner = runner
        self.wake = wake
        self.parent = os.getppid()
        self.status: int | None = None
        self.pid = 0
        self.command: subprocess.Popen[bytes] | None = None
        self.shared: set[str] = set()
        self.looked = 0.0

    def start(self, argv: list[str]) -> None:
        """Start the command. OSError where it cannot be started."""
        # SPT_NOENV: setproctitle, which vLLM uses, would write its title over the mark.
        marks = {MARK: str(os.getpid()), "SPT_NOENV": "1"}
        # Kept: a Popen that is let go of reaps its child, and an end at once would never be seen.
        self.command = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **marks},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self.pid = self.command.pid

    def reap(self) -> None:
        """Reap children that have ended; the command's own status is kept."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self.pid:
                    self.status = os.waitstatus_to_exitcode(found[1])

    def watch(self) -> float:
        """Wait until the command ends or somebody wants its end. Return the seconds of grace for
        it."""
        while self.status is None:
            ready, _, _ = select.select([self.wake, self.runner], [], [], _LOOK_S)
            if self.runner in ready:
                return _seconds_granted(self.runner)
            if self.wake in ready and _ENDING & set(self.wake.recv(64)):
                return _ORPHAN_GRACE_S
            if os.getppid() != self.parent:
                return _ORPHAN_GRACE_S
            self.reap()
            if time.monotonic() - self.looked > _LOOK_AT_MEMORY_S:
                self.note_shared()
        return 0.0

    def note_shared(self) -> None:
        """Remember the shared memory that the tree holds: who is killed cannot give it back."""
        self.looked = time.monotonic()
        self.shared |= {name for process in _descendants() for name in _shared_by(process.pid)}

    def end(self, grace_s: float) -> None:
        """Ask the command to end, wait, kill everything that is left, give shared memory back."""
        self.note_shared()
        if self.status is None and grace_s > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self._wait(grace_s)
        if self.status is not None:
            psutil.wait_procs(_descendants(), timeout=_COURTESY_S)
        _kill([process for process in _descendants() if not tidies_up(process)])
        psutil.wait_procs(_descendants(), timeout=_COURTESY_S)
        while left := _descendants():
            _kill(left)
            psutil.wait_procs(left, timeout=_COURTESY_S)
        # vLLM's own end kills the resource trackers too, and then nobody else tidies up.
        for name in self.shared:
            with contextlib.suppress(OSError):
                Path(name).unlink()

    def _wait(self, seconds: float) -> None:
        """Wait until the command has ended, at most ``seconds``."""
        until = time.monotonic() + seconds
        while self.status is None and (left := until - time.monotonic()) > 0:
            if select.select([self.wake], [], [], left)[0]:
                self.wake.recv(64)
            self.reap()


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _shared_by(pid: int) -> set[str]:
    """Return the files of multiprocessing's shared memory that a process has mapped."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as maps:
            lines = [line for line in maps if b" /dev/shm/psm_" in line]
    except OSError:
        return set()
    paths = (line[line.index(b"/dev/shm/") :].strip().decode("utf-8", "replace") for line in lines)
    return {path for path in paths if not path.endswith("(deleted)")}


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def tidies_up(process: psutil.Process) -> bool:
    """Return whether a process is multiprocessing's resource tracker.

    It ends by itself once all that it serves are gone, and then removes what they left in shared
    memory: hundreds of megabytes for a vLLM that was killed.
    """
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _seconds_granted(runner: socket.socket) -> float:
    """Return the grace that the runner grants, or an orphan's if it is gone."""
    try:
        said = runner.recv(64)
    except ConnectionError:
        said = b""
    return float(said) if said else _ORPHAN_GRACE_S


def _child_of_mine() -> Callable[[], object]:
    """Return what the child calls before it becomes the command. Loaded here: after a fork it is
    late."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


_die_with_parent = _child_of_mine()


def _become_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _signals() -> socket.socket:
    """Return a socket that becomes readable when a child ends or somebody wants this process to
    end."""
    read, write = socket.socketpair()
    write.setblocking(False)
    signal.set_wakeup_fd(write.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, lambda *_: None)
    return read


def _run_on(cpus: str) -> None:
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})


def _end_as(status: int | None) -> None:
    """End with the command's status or by its signal; SIGKILL where it had to be killed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if status is None or status < 0:
        number = signal.SIGKILL if status is None else -status
        with contextlib.suppress(OSError):  # SIGKILL has no handler that could be restored
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(status or 0)


def main(cpus: str, argv: list[str]) -> None:
    """Guard one command from its start to the end of its last descendant."""
    _become_subreaper()
    runner = socket.socket(fileno=os.dup(0))
    guard = Guard(runner, _signals())
    try:
        _run_on(cpus)
        guard.start(argv)
    except OSError as error:
        runner.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        os._exit(127)
    with contextlib.suppress(OSError):  # the runner may be gone already: watch() will tell
        runner.sendall(json.dumps({"pid": guard.pid}).encode() + b"\n")
    guard.end(guard.watch())
    _end_as(guard.status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
