"""A console script, run again and again by its own Python: each time in a fork of a process that has
imported what a start of it takes longest for.

``python preload.py JOBS STATUS MODULE…`` reads lines ``{"argv": […], "env": {…}}`` from the named pipe ``JOBS``.
``argv[0]`` is the script; ``env`` is added to the environment. When it has ended, and what it started in
its session is gone, its exit status (negative: a signal) stands in the file ``STATUS``.
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: How long what a script leaves behind may take to end by itself, s.
_COURTESY_S = 1.0


def main(jobs: str, status: str, *modules: str) -> None:
    """Run scripts until nobody can send another; returns in the fork once it has run one."""
    # Not this file's folder: a script finds its own there.
    del sys.path[0]
    for name in modules:
        # What is not installed, or cannot be imported, the script itself will speak of.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with Path(jobs).open(encoding="utf-8") as lines:
        for line in lines:
            job = json.loads(line)
            child = os.fork()
            if child == 0:
                break
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            _end_session(child)
            # There at once or not at all.
            part = Path(f"{status}.part")
            part.write_text(str(code), encoding="ascii")
            part.replace(status)
        else:
            return
    _become(job)


def _become(job: Mapping[str, Any]) -> None:
    os.setsid()
    os.environ.update(job["env"])
    sys.argv[:] = job["argv"]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def _end_session(leader: int) -> None:
    until = time.monotonic() + _COURTESY_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(leader, 0)
            time.sleep(0.02)
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
