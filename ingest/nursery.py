"""A process that has imported what reading needs, and forks one that reads whenever it is asked.

Forking this one is quick and safe: it has no threads, no database and no files of ours. It lives as
long as the command; whatever ends the command, it sees the end of its socket and takes its children
with it.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from warehouse.errors import DraftboardError

_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from ingest.nursery import main; main()"
_FORK, _REAP = b"F", b"R"
_NUMBER = 8
_GONE = (
    "The process that starts those which read has gone, perhaps for want of memory: what was "
    "published stays; run the same command again."
)


class Nursery:
    """The command's side of the process that forks readers: it starts it, asks it, ends it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._guard = threading.Lock()
        self._socket, theirs = socket.socketpair()
        # No threads for sums of a few thousand numbers, no search of all that is installed for plugins.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "1"}
        # Ctrl-C goes to all processes of a terminal's group; only the command is to hear it.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, str(Path(__file__).parents[1]),
                 str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0,
                pass_fds=(theirs.fileno(),), env=environment,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process id of the nursery."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether the process runs, so that it can be asked."""
        return self._process.poll() is None

    def fork(self) -> tuple[Connection, int]:
        """Fork a process that reads; return the connection to it, and its process id."""
        ours, theirs = socket.socketpair()
        with theirs, self._asking():
            socket.send_fds(self._socket, [_FORK], [theirs.fileno()])
            pid = self._answer()
        return Connection(ours.detach()), pid

    def reap(self, pid: int) -> int:
        """Return the exit status of a reader that has ended, or will soon; negative: the signal's
        number."""
        with self._asking():
            self._socket.sendall(_REAP + pid.to_bytes(_NUMBER, "big"))
            return self._answer()

    def close(self) -> None:
        """End the process; only its owner can."""
        if self.owner != os.getpid():
            return
        self._socket.close()
        self._process.kill()
        self._process.wait()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Hold the socket for one question and its answer; if one of them is cut off, end the
        nursery."""
        try:
            with self._guard:
                yield
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise DraftboardError(_GONE) from None
            raise

    def _answer(self) -> int:
        got = b""
        while len(got) < _NUMBER:
            piece = self._socket.recv(_NUMBER - len(got))
            if not piece:
                raise ConnectionError
            got += piece
        return int.from_bytes(got, "big", signed=True)


_running: list[Nursery] = []


def nursery() -> Nursery:
    """Return the nursery of this process, started if it is not there; it ends with this process."""
    if not _running or _running[-1].owner != os.getpid() or not _running[-1].lives:
        _running[:] = [Nursery()]
        atexit.register(_running[-1].close)
    return _running[-1]


def main() -> None:
    """Run the process itself: ``sys.argv`` holds where our code is, and the number of the
    socket."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    from ingest.worker import prepare

    prepare()
    # What breaks below is told in a result; a library's last words are for nobody.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with socket.socket(fileno=int(sys.argv[2])) as control:
        children: set[int] = set()
        with suppress(ConnectionError):
            _serve(control, children)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    # No exit handlers: nothing of ours is open.
    os._exit(0)


def _serve(control: socket.socket, children: set[int]) -> None:
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not asked:
            return
        if asked == _FORK:
            pid = _forked(control, descriptors[0])
            children.add(pid)
            control.sendall(pid.to_bytes(_NUMBER, "big", signed=True))
        else:
            pid = int.from_bytes(control.recv(_NUMBER, socket.MSG_WAITALL), "big")
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            children.discard(pid)
            control.sendall(status.to_bytes(_NUMBER, "big", signed=True))


def _forked(control: socket.socket, descriptor: int) -> int:
    from ingest.worker import serve

    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    control.close()
    try:
        serve(Connection(descriptor))
    finally:
        os._exit(0)
