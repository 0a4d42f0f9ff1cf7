"""What a Ray worker does for one launch. Standard library only: the task travels by value.

The node needs the submitting environment's Python at the same path, not in Ray's own environment.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h
_GRACE_S = 60.0
_LINES = 20


def run_command(command: list[str], log: str, marks: dict[str, str]) -> tuple[int, str, str]:
    """Run a launch to its end. Return its exit status, the name of the node, and the last lines of
    what it printed.

    A cancelled task asks the launch to end and waits for its server to be gone.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    start = path.stat().st_size if path.exists() else 0
    with path.open("ab") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
            env={**os.environ, **marks}, start_new_session=True,
            preexec_fn=_end_with_worker(),
        )  # fmt: skip
        try:
            process.wait()
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            if process.poll() is None:
                process.kill()
                process.wait()
            raise
    with path.open("rb") as printed:
        printed.seek(start)
        lines = printed.read().decode("utf-8", "replace").splitlines()
    return process.returncode, os.uname().nodename, "\n".join(lines[-_LINES:])


def _end_with_worker() -> Callable[[], None] | None:
    """Return what a child calls at its start, so that the system asks the launch to end if the
    worker is killed. None where the system cannot."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)

    return ask
