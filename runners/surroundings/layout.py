"""Where a study's results lie.

``<results>/<study>/<arm>/tp<n>/<dataset>/<load>-r<repeat>@<software>/`` is a good cell:
another load, and another version of engine or load generator, is another cell. Cells from before the
software stood in the path have none there. Beside it: ``.<leaf>.partial`` while it is measured (hidden, so that a reader passes it over) and
``<leaf>.failed-<n>`` for each failed attempt. ``logs/`` and ``prompts/`` belong to the study; what
a changed study no longer stands for goes to ``.superseded/``.
"""

import errno
import glob
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.contract import failed_name, failed_of
from warehouse.errors import RunnerError
from warehouse.storage.files import sync


@contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """Make an empty folder, which is gone at the end unless it was put in place."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def rename_durably(folder: Path, final: Path) -> None:
    """Rename a folder: from here on it exists with all its files, also after a loss of power."""
    for path in (*folder.iterdir(), folder):
        sync(path)
    folder.rename(final)
    sync(final.parent)


def require_room(folder: Path, needed: int) -> None:
    """Raise OSError where the disk has less than ``needed`` bytes: better before an hour of load
    than after."""
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


RECORD, REPORT = "record.json", "guidellm.json"
BEFORE, AFTER, SAMPLES = "metrics-before.prom", "metrics-after.prom", "metrics-samples.jsonl"
MACHINE = "machine-samples.jsonl.gz"
#: What a cell is measured again from (``keepsakes``). The study lies in the study's folder, too.
STUDY, PROMPTS, ENGINE, SERVER_LOG = "study.yaml", "prompts.json", "engine.json", "server.log.gz"
_REPLACED = ".replaced"


@dataclass(frozen=True)
class Layout:
    """The folders of one study; nothing is created here."""

    results: Path
    study: str

    @property
    def root(self) -> Path:
        """The study's own folder."""
        return self.results / self.study

    def cell(self, key: str, software: str = "") -> Path:
        """Return where a good cell lies, measured with this software."""
        return self.root / (f"{key}@{software}" if software else key)

    def cells(self, key: str) -> list[Path]:
        """Return the folders that hold this cell, one for each software that measured it."""
        plain = self.cell(key)
        found = [plain] if plain.exists() else []
        named = plain.parent.glob(f"{glob.escape(plain.name)}@*")
        return found + sorted(path for path in named if failed_of(path.name) is None)

    def partial(self, key: str) -> Path:
        """Return where a cell is measured."""
        final = self.cell(key)
        return final.with_name(f".{final.name}.partial")

    def failed(self, key: str, attempt: int) -> Path:
        """Return where a failed attempt is kept."""
        final = self.cell(key)
        return final.with_name(failed_name(final.name, attempt))

    def attempts(self, key: str) -> int:
        """Return the highest number of a failed attempt; 0 where none failed."""
        final = self.cell(key)
        tried = final.parent.glob(f"{glob.escape(final.name)}.failed-*")
        found = (failed_of(path.name) for path in tried)
        return max((attempt for _, attempt in filter(None, found)), default=0)

    def superseded(self, folder: Path, replaced: bool = False) -> Path:
        """Return a free name for a result that no longer counts; ``replaced``: it never shall
        again."""
        base = self.root / ".superseded" / folder.relative_to(self.root)
        name, number = base.name + (_REPLACED if replaced else ""), 1
        while (path := base.with_name(f"{name}.{number}")).exists():
            number += 1
        return path

    def set_aside(self, key: str) -> list[Path]:
        """Return what was set aside of a cell and may come back, the newest first."""
        base = self.root / ".superseded" / key
        found = base.parent.glob(f"{glob.escape(base.name)}[.@]*")
        kept = [path for path in found if _REPLACED not in path.name]
        return sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)

    def log(self, launch_id: str, of: str = "") -> Path:
        """Return the file with what a launch's server prints, all its starts one after the other; with
        ``of`` what GuideLLM prints for its cells ("guidellm"), or what the launch itself does where it
        runs side by side with others ("run") or on a cluster ("slurm" …)."""
        return self.root / "logs" / f"{launch_id}.{of and f'{of}.'}log"

    @property
    def nodes(self) -> Path:
        """The folder that says which launches, of this study or another, run on which machine."""
        return self.results / ".nodes"

    def lock(self, launch_id: str) -> Path:
        """Return the file that is locked while a launch runs, so that two commands never measure
        the same cells."""
        return self.root / "logs" / f"{launch_id}.lock"

    def prompts(self, dataset: str, level: str) -> Path:
        """Return the file with the prompts of one level, by its short name; the same file for every
        arm."""
        return self.root / "prompts" / f"{dataset}-{level}.jsonl"


def json_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def part(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member of a JSON object that is an object itself; an empty one where it is none."""
    member = content.get(name)
    return member if isinstance(member, dict) else {}


def records_under(root: Path) -> Iterator[Path]:
    """Yield every record below a folder, also while others write there and rename.

    ``Path.rglob`` of Python 3.11 ends with an error where a folder goes away under it.
    """
    for folder, _, names in os.walk(root):
        if RECORD in names:
            yield Path(folder) / RECORD


@contextmanager
def results_writable(layout: Layout) -> Iterator[None]:
    """Turn what fails on this machine's side of the results, a full disk above all, into one
    sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunnerError(
                f"The disk that holds {layout.root} is full; nothing good was lost. Make room and "
                "run the same command again, it goes on where it stopped."
            ) from None
        raise RunnerError(f"The results in {layout.root} cannot be written: {error}.") from None
