"""A stage as a process: a session of its own, its words in a log, ended with this one.

The child writes into the log itself and this process reads it from there. So nothing of the log is
lost when this process is killed; the child is then asked to end by the system.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from nightly.place import Child

#: How long a stage may take to end when it is asked to; `run` ends its servers in that time.
GRACE_S = 180.0
#: Seldom enough not to disturb what is measured beside it.
_STEP_S = 0.5
_BEAT_S = 15.0
#: prctl(2): the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """A command of a stage. ``answer``: the file that gets stdout, else the log; ``environment``:
    all of it."""

    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    answer: Path | None = None


@dataclass(frozen=True)
class Watching:
    """What is called while a command runs. ``began`` is told the child at once, ``beat`` the
    seconds so far every few seconds; after ``allowed_s`` (None: no limit) the child is interrupted.
    ``echo`` gets what it says."""

    began: Callable[[Child], None]
    beat: Callable[[float], None]
    echo: Callable[[str], None]
    allowed_s: float | None = None


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``status``: exit status, negative for a signal; ``in_time``: False where
    it was stopped."""

    status: int
    seconds: float
    in_time: bool


def follow(command: Command, watching: Watching) -> Ended:
    """Run a command to its end; an exception here (Ctrl-C) ends the child before it goes on."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    start = command.log.stat().st_size if command.log.exists() else 0
    began = time.monotonic()
    with contextlib.ExitStack() as open_files:
        log = open_files.enter_context(command.log.open("ab"))
        out: IO[bytes] = log
        if command.answer is not None:
            out = open_files.enter_context(command.answer.open("wb"))
        process = subprocess.Popen(
            command.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
            env=dict(command.environment), start_new_session=True, preexec_fn=_end_with_parent,
        )  # fmt: skip
    try:
        watching.began(Child(pid=process.pid, began=psutil.Process(process.pid).create_time()))
        with command.log.open("rb") as said:
            said.seek(start)
            in_time = _watched(process, said, watching)
    finally:
        end(process)
    return Ended(process.returncode, time.monotonic() - began, in_time)


def _end_with_parent() -> None:
    """Ask the system, in the child, for SIGTERM when the parent dies, however it dies."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _watched(process: "subprocess.Popen[bytes]", said: IO[bytes], watching: Watching) -> bool:
    """Wait for the end and pass the child's words on. Return whether it ended before it was
    stopped."""
    began = beaten = time.monotonic()
    while process.poll() is None:
        watching.echo(said.read().decode("utf-8", "replace"))
        now = time.monotonic()
        if now - beaten >= _BEAT_S:
            watching.beat(now - began)
            beaten = now
        if watching.allowed_s is not None and now - began >= watching.allowed_s:
            end(process)
            watching.echo(said.read().decode("utf-8", "replace"))
            return False
        time.sleep(_STEP_S)
    watching.echo(said.read().decode("utf-8", "replace"))
    return True


def end(process: "subprocess.Popen[bytes]", grace_s: float = GRACE_S) -> None:
    """Interrupt a stage as Ctrl-C does, and kill its whole group if it does not end."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_left_over(child: Child, grace_s: float = GRACE_S) -> None:
    """Wait until the stage of a call that was killed has ended; kill it if it does not.

    On Linux it was asked to when its parent died, and to ask twice would disturb its tidying up.
    """
    try:
        process = psutil.Process(child.pid)
        if abs(process.create_time() - child.began) > 1:
            return  # The number is somebody else's by now.
        if _LIBC is None:
            process.terminate()
        process.wait(grace_s)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
