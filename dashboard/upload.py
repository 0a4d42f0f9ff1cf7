"""Reports that a reader drops on a page: read in a private warehouse that is gone when they are,
unless an editor asks to keep them.

They go through ``draftboard ingest`` in a process of its own, so the same files are refused for the
same reasons, and a file that is made to hurt ends that process and nothing else.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import InvalidInput

if TYPE_CHECKING:
    # What was read is looked at where the page is drawn; the process that takes in needs none of it.
    from answers.compare.answer import UploadedCell, UploadedResults

#: What may be dropped at once: MB a file, files, MB of all. A GuideLLM report has about 5 MB per 1,000
#: requests; three launches of three arms at five loads are 45 files.
MOST_MB, MOST_FILES, MOST_MB_OF_ALL = 50, 64, 400
ENDINGS = (".json", ".json.gz", ".json.zst")
#: Where, in a warehouse, the files lie that somebody asked to keep.
KEPT = "uploads"
_SECONDS = 60
_LIMITS = {
    resource.RLIMIT_AS: 6 << 30,
    resource.RLIMIT_FSIZE: 2 << 30,
    resource.RLIMIT_CPU: _SECONDS,
}
_WRONG_USAGE, _SAID = 2, b"draftboard: "
_TOO_MUCH = (
    "Reading took too much time or memory; take it in on the machine of the warehouse with: "
    "draftboard ingest PATH"
)
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Report:
    """A dropped file; ``facts``: what it does not say, as ``key=value`` (those of ``--set``)."""

    name: str
    data: bytes
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Uploaded:
    """What was read of dropped files. ``held``: what the reports hold, None where none of them
    holds a result; ``rejections``: file and reason."""

    held: "UploadedResults | None"
    rejections: tuple[tuple[str, str], ...]


def place(read: "UploadedCell") -> int:
    """Return which of the dropped files a cell was read from, from 0."""
    return int(Path(read.file).parent.name) - 1


def take_in(reports: Sequence[Report]) -> Uploaded:
    """Read the reports in a temporary warehouse of their own, which is removed before this returns.

    Raises InvalidInput where there are too many, one is too large, or a fact is not in the contract.
    """
    from answers.compare.answer import hold
    from warehouse.storage.current import current_generation
    from warehouse.store import Reader

    _check(reports)
    with tempfile.TemporaryDirectory(prefix="draftboard-upload-") as name:
        folder = Path(name)
        files = {_written(folder, str(at), one): one for at, one in enumerate(reports, 1)}
        refused = _ingested(folder / "warehouse", files, folder)
        if current_generation(folder / "warehouse") is None:
            return Uploaded(None, refused)
        with Reader(folder / "warehouse") as reader:
            held = hold(reader)
        return Uploaded(held if held.read else None, refused)


def keep(reports: Sequence[Report], root: Path) -> tuple[tuple[str, str], ...]:
    """Take the reports into the warehouse at ``root``; returns what was refused and why.

    The files themselves stay beside it, so that it can be read again from them. Raises InvalidInput
    as ``take_in`` does, and where nothing may be written there.
    """
    _check(reports)
    try:
        files = {
            _written(root / KEPT, sha256(one.data).hexdigest()[:16], one): one for one in reports
        }
    except OSError as error:
        raise InvalidInput(f"The warehouse takes nothing in: {error.strerror}.") from None
    with tempfile.TemporaryDirectory(prefix="draftboard-keep-") as folder:
        return _ingested(root, files, Path(folder))


def _ingested(
    warehouse: Path, files: Mapping[Path, Report], folder: Path
) -> tuple[tuple[str, str], ...]:
    """Take in files, those with the same facts together; returns what was refused and why. Raises
    InvalidInput with the sentence of a command for a wrong fact, or where it cannot write."""
    commands = []
    for facts in dict.fromkeys(report.facts for report in files.values()):
        mine = [str(path) for path, one in files.items() if one.facts == facts]
        stated = [f"--set={fact}" for fact in facts]
        commands.append(["ingest", *mine, "--json", "--warehouse", str(warehouse), *stated])
    # An environment of its own: what is unpacked goes into the folder that is removed.
    environment = {
        "PATH": os.defpath,
        "TMPDIR": str(folder),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    refused_by_each: list[list[dict[str, str]]] = []
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.upload", json.dumps(commands)],
            cwd=_ROOT, env=environment, capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode == _WRONG_USAGE or (not done.stdout and done.stderr.startswith(_SAID)):
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            sentence = (last or ["The facts are not understood."])[0]
            raise InvalidInput(sentence.removeprefix("Error: ").removeprefix(_SAID.decode()))
        rest, decoder = done.stdout.decode().strip(), json.JSONDecoder()
        # One that says nothing was ended by a limit.
        while rest or not refused_by_each:
            answer, end = decoder.raw_decode(rest)
            rest = rest[end:].strip()
            refused_by_each.append(answer["rejected"])
    except (subprocess.TimeoutExpired, ValueError):
        # A limit ended them.
        return tuple((one.name, _TOO_MUCH) for one in files.values())
    return tuple(
        (files[Path(row["path"])].name, row["reason"].replace(row["path"], "This file"))
        for refused in refused_by_each
        for row in refused
    )


def _written(folder: Path, name: str, report: Report) -> Path:
    """Write a report below a folder, under a name that keeps its ending and can name nothing else."""
    ending = next((e for e in reversed(ENDINGS) if report.name.lower().endswith(e)), ".json")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", report.name[: -len(ending)])[:60].strip("-")
    file = folder / name / f"{stem or 'report'}{ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(report.data)
    return file


def _check(reports: Sequence[Report]) -> None:
    megabytes = sum(len(report.data) for report in reports) >> 20
    if len(reports) > MOST_FILES or megabytes > MOST_MB_OF_ALL:
        raise InvalidInput(
            f"{len(reports)} files of {megabytes} MB are too much at once; drop at most {MOST_FILES} "
            f"of {MOST_MB_OF_ALL} MB in all, or take them in with: draftboard ingest PATHS"
        )
    for report in reports:
        if len(report.data) > MOST_MB << 20:
            raise InvalidInput(
                f"{report.name} is larger than {MOST_MB} MB; take it in on the machine of the "
                "warehouse with: draftboard ingest PATH"
            )


# --- The process that takes them in: within limits, then as a person would by commands.


def confined(commands: list[list[str]]) -> None:
    """Run commands of ``draftboard`` one after the other, within limits that end all of them."""
    from draftboard import main

    for kind, most in _LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    for words in commands:
        try:
            main(words)
        except SystemExit as end:
            # One that refuses files ends so too, and has said which.
            if end.code not in (0, 1):
                raise


if __name__ == "__main__":
    confined(json.loads(sys.argv[1]))
