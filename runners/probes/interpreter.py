"""Asking the environment of an executable: vLLM and GuideLLM each live in one of their own."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.errors import RunnerError

_IN_SHELL = re.compile(rb"^'''exec'\s+\"?([^\"\n]+?)\"?\s+\"\$0\"", re.MULTILINE)


def python_of(executable: Path) -> Path | None:
    """Return the Python that a console script runs with: of its first line, else of its folder.

    None where there is none, e.g. for a wrapper around a container.
    """
    named = named_in(executable)
    beside = [executable.parent / name for name in ("python3", "python")]
    for python in ([named] if named is not None else []) + beside:
        if python.is_file() and os.access(python, os.X_OK):
            return python
    return None


def named_in(script: Path) -> Path | None:
    """Return the Python that a script names. pip writes it into the first line or, where that is
    too long, behind an exec."""
    try:
        with script.open("rb") as file:
            head = file.read(2048)
    except OSError:
        return None
    first = head.partition(b"\n")[0].decode("utf-8", "replace")
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and "python" in Path(words[0]).name:
        return Path(words[0])
    if len(words) > 1 and Path(words[0]).name == "env":
        found = shutil.which(words[1])
        return Path(found) if found is not None and "python" in words[1] else None
    inside = _IN_SHELL.search(head)
    return None if inside is None else Path(inside[1].decode("utf-8", "replace"))


def printed_version(executable: Path) -> str | None:
    """Return the version that ``--version`` prints, e.g. of a wrapper around a container; None
    without."""
    try:
        done = subprocess.run(
            [str(executable), "--version"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    found = re.search(r"\b\d+\.\d+\.\d+\S*", done.stdout)
    # llama.cpp counts its builds, and says so where errors go.
    counted = found or re.search(r"(?<=version: )\S+", done.stdout + done.stderr)
    return None if counted is None else counted[0]


def ask(
    python: Path, probe: str, question: Mapping[str, Any], env: Mapping[str, str], timeout_s: float
) -> dict[str, Any]:
    """Return what the function ``probe`` of ``runners/probes/probe.py`` answers under ``python``.

    ``env`` is added to the environment of this process. Raises RunnerError, with the last line that
    the script wrote, when it fails or is not done in time.
    """
    try:
        done = subprocess.run(
            [str(python), str(Path(__file__).with_name("probe.py")), probe],
            input=json.dumps(dict(question)) + "\n",
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunnerError(f"{python} did not answer within {timeout_s:.0f} s.") from None
    except OSError as error:
        raise RunnerError(f"{python} cannot be started: {error.strerror}.") from None
    lines = done.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines and done.returncode == 0 else None
    except json.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        said = _error(done.stderr) or f"exit status {done.returncode}"
        raise RunnerError(f"{python} could not be asked: {said[:300].rstrip('.')}.")
    return answer


def _error(stderr: str) -> str | None:
    """Return the first line of the error that a traceback ends with; of other output the last
    line."""
    lines = stderr.strip().splitlines()
    indented = [place for place, line in enumerate(lines[:-1]) if line.startswith("  ")]
    return lines[indented[-1] + 1 if indented else -1] if lines else None
