"""The quality gate of a search: a command of the user's that looks at what an arm answered.

It is given the folder of the arm's drops as its last word, once for each arm; a status other than 0 puts
the arm out. What it said lies in that folder, so that it is not asked again after an interruption.
"""

import json
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import InvalidInput

if TYPE_CHECKING:
    from answers.search.values import Out

#: Hidden, so that no ingest takes it for a result.
_NAME = ".check.json"
_TEXT = 300


def check(folder: Path, command: str) -> None:
    """Look at the arm whose drops lie in ``folder``, unless this command did. Raises InvalidInput where
    the command cannot be started."""
    if not folder.is_dir() or _said(folder).get("command") == command:
        return
    try:
        done = subprocess.run(
            [*shlex.split(command), str(folder)], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--check: {command!r} cannot be started ({error}); give a command that takes the folder of "
            "an arm's drops as its last word and ends with status 0 where the arm may be taken."
        ) from None
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"status {done.returncode}"]
    said = {"command": command, "status": done.returncode, "said": lines[-1][:_TEXT]}
    (folder / _NAME).write_text(json.dumps(said), encoding="utf-8")


def refused(drops: Path, command: str) -> "tuple[Out, ...]":
    """Return the arms that the command puts out, by what it said of them."""
    from answers.search.values import Out

    told = {path.parent.name: _said(path.parent) for path in sorted(drops.glob(f"*/{_NAME}"))}
    return tuple(
        Out(arm, f"{command} refuses its answers: {said['said']}")
        for arm, said in told.items()
        if said.get("command") == command and said["status"]
    )


def _said(folder: Path) -> dict[str, Any]:
    """What was said of an arm; nothing where nobody looked, or the file was cut short."""
    try:
        found = json.loads((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
