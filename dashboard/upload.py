"""Reports that a reader drops on a page: read in a private warehouse that is gone when they are.

They go through ``draftboard ingest`` in a process of its own, so the same files are refused for the
same reasons, and a file that is made to hurt ends that process and nothing else.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answers.compare.uploaded import Held, hold
from warehouse.errors import InvalidInput
from warehouse.store import Reader, current_generation

#: What may be dropped at once: MB a file, files. A GuideLLM report has about 5 MB per 1,000 requests.
MOST_MB, MOST_FILES = 50, 8
ENDINGS = (".json", ".json.gz", ".json.zst")
_SECONDS = 60
_BYTES_MEMORY, _BYTES_FILE = 6 << 30, 2 << 30
#: Limits first, then the command as a person would give it.
_CONFINED = f"""
import resource, sys
for kind, most in ((resource.RLIMIT_AS, {_BYTES_MEMORY}), (resource.RLIMIT_FSIZE, {_BYTES_FILE}),
                   (resource.RLIMIT_CPU, {_SECONDS})):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
from draftboard import main
main(sys.argv[1:])
"""
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Report:
    """A dropped file; ``facts``: what it does not say, as ``key=value`` (those of ``--set``)."""

    name: str
    data: bytes
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Uploaded:
    """``held``: what the reports hold, None where none of them holds a result; ``rejections``: file
    and reason."""

    held: Held | None
    rejections: tuple[tuple[str, str], ...]


def take_in(reports: Sequence[Report]) -> Uploaded:
    """Read the reports in a temporary warehouse of their own, which is removed before this returns.

    Raises InvalidInput where there are too many, one is too large, or a fact is not in the contract.
    """
    _check(reports)
    with tempfile.TemporaryDirectory(prefix="draftboard-upload-") as name:
        folder = Path(name)
        files = {_written(folder, number, one): one for number, one in enumerate(reports, 1)}
        refused: list[tuple[str, str]] = []
        for facts in dict.fromkeys(report.facts for report in reports):
            mine = {path: one.name for path, one in files.items() if one.facts == facts}
            refused += _ingest(folder, mine, facts)
        return Uploaded(_read(folder / "warehouse"), tuple(refused))


def _written(folder: Path, number: int, report: Report) -> Path:
    place = folder / str(number)
    place.mkdir()
    file = place / _safe(report.name)
    file.write_bytes(report.data)
    return file


def _check(reports: Sequence[Report]) -> None:
    if len(reports) > MOST_FILES:
        raise InvalidInput(
            f"{len(reports)} files are too many at once; drop at most {MOST_FILES}, or take all of "
            "them in with: draftboard ingest PATHS"
        )
    for report in reports:
        if len(report.data) > MOST_MB << 20:
            raise InvalidInput(
                f"{report.name} is larger than {MOST_MB} MB; take it in on the machine of the "
                "warehouse with: draftboard ingest PATH"
            )


def _ingest(
    folder: Path, files: Mapping[Path, str], facts: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Take in the files that share their facts (path -> name); returns what was refused and why."""
    words = ["ingest", *map(str, files), "--json", "--warehouse", str(folder / "warehouse")]
    done = _answered([*words, *(f"--set={fact}" for fact in facts)], folder)
    if done is None:
        why = (
            "Reading took too much time or memory; take it in on the machine of the warehouse "
            "with: draftboard ingest PATH"
        )
        return [(name, why) for name in files.values()]
    return [
        (files[Path(row["path"])], str(row["reason"]).replace(row["path"], "This file"))
        for row in done["rejected"]
    ]


def _answered(words: list[str], place: Path) -> dict[str, Any] | None:
    """The object that the command prints; None where a limit ended it.

    Raises InvalidInput with the command's own sentence for a wrong fact.
    """
    # An environment of its own: what is unpacked goes into the folder that is removed.
    environment = {"PATH": os.defpath, "TMPDIR": str(place), "HOME": str(place), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CONFINED, *words],
            cwd=_ROOT, env=environment, capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == _WRONG_USAGE:
        raise InvalidInput(_last_sentence(done.stderr))
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return told


_WRONG_USAGE = 2


def _last_sentence(said: bytes) -> str:
    last = said.decode(errors="replace").strip().splitlines()[-1:]
    return (last or ["The facts are not understood."])[0].removeprefix("Error: ")


def _safe(name: str) -> str:
    """A file name that keeps its ending and can name nothing else."""
    ending = next((e for e in reversed(ENDINGS) if name.lower().endswith(e)), ".json")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name[: -len(ending)])[:60].strip("-")
    return f"{stem or 'report'}{ending}"


def _read(root: Path) -> Held | None:
    if current_generation(root) is None:
        return None
    with Reader(root) as reader:
        held = hold(reader)
    return held if held.cells else None
