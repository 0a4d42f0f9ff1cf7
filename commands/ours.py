"""Another command of ours, run in a process of its own, and what it says."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warehouse.rows import Rejection

#: ``-P``: a folder of the user's called like one of our packages must not hide it.
PROGRAM = (sys.executable, "-P", "-m", "draftboard")


def asked(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, whatever its exit status, and return what it printed."""
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)


def rejected(done: "subprocess.CompletedProcess[str]") -> "tuple[Rejection, ...] | None":
    """Return what `draftboard ingest --json` rejected; None where it ended before it could say."""
    from warehouse.rows import Rejection

    try:
        told = json.loads(done.stdout)["rejected"]
        return tuple(Rejection(one["path"], one["reason"]) for one in told)
    except (ValueError, LookupError, TypeError):
        return None
