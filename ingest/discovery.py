"""Finds what there is to ingest: result files and drops, each once, whatever links say."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ingest.belonging import bytes_beside, is_by_product
from ingest.formats.drop import is_drop
from ingest.sniff import is_report
from warehouse.published import is_table
from warehouse.rows import Rejection

_PACKED = ("", ".gz", ".zst")
SUFFIXES = tuple(f".json{packed}" for packed in _PACKED)
#: Much else is written in these: such a file counts where a format recognises what it holds.
MAYBE = tuple(
    f"{kind}{packed}" for kind in (".jsonl", ".yaml", ".yml", ".csv") for packed in _PACKED
)
_NAMED = 3
#: What a run keeps beside its results, in the folder of its study.
_STUDY, _KEPT_BY_A_RUN = "study.yaml", ("study.yaml", "prompts", "logs")


@dataclass(frozen=True)
class Unit:
    """One thing to ingest: a report's file, or the folder of a drop."""

    path: Path
    is_drop: bool
    bytes: int
    """As stored, with the files that belong to it; for the progress bar, and for what reading it
    may take."""


def find_units(paths: Iterable[Path]) -> Iterator[Unit | Rejection]:
    """Yield every unit under the given files and folders, in the order of their names.

    A file named by the user is taken whatever its name; in folders only what ``is_wanted`` says
    counts. Hidden names are passed over. Something that cannot be looked at becomes a Rejection,
    and so does a named folder that holds files which may be results, and none that is.
    """
    search = _Search()
    for path in paths:
        found, search.passed_over = 0, []
        for one in search.visit(path, named=True):
            found += 1
            yield one
        if not found and search.passed_over:
            yield Rejection(str(path), _nothing(search.passed_over))


def is_wanted(path: Path) -> bool:
    """Return whether a file that lies in a folder is taken as a result."""
    if is_table(path):
        return True
    if path.name.endswith(SUFFIXES):
        return not is_by_product(path)
    return path.name.endswith(MAYBE) and not is_by_product(path) and is_report(path)


@dataclass
class _Search:
    """One search for results. ``passed_over`` fills up with files that may have been a result and
    are none."""

    passed_over: list[Path] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def visit(self, path: Path, named: bool) -> Iterator[Unit | Rejection]:
        try:
            status = path.stat()
        except OSError as error:
            if named or path.name.endswith(SUFFIXES):
                yield Rejection(str(path), unreadable(error))
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path, status)
        elif named or is_wanted(path):
            yield from self._file(path, status)
        elif path.name.endswith(MAYBE):
            self.passed_over.append(path)

    def _folder(self, path: Path, status: os.stat_result) -> Iterator[Unit | Rejection]:
        # A folder met twice is a loop of links or a second name for the same results.
        if self._met(status):
            return
        if is_drop(path):
            yield Unit(path, True, sum(p.stat().st_size for p in path.iterdir() if p.is_file()))
            return
        try:
            members = sorted(p for p in path.iterdir() if not p.name.startswith("."))
        except OSError as error:
            yield Rejection(str(path), unreadable(error))
            return
        if any(member.name == _STUDY for member in members):
            members = [member for member in members if member.name not in _KEPT_BY_A_RUN]
        for member in members:
            yield from self.visit(member, named=False)

    def _file(self, path: Path, status: os.stat_result) -> Iterator[Unit | Rejection]:
        if not stat.S_ISREG(status.st_mode):
            yield Rejection(str(path), "This is not a regular file; name a report or a folder.")
        elif path.name == "record.json":
            yield from self.visit(path.parent, named=True)
        elif not self._met(status):
            yield Unit(path, False, status.st_size + bytes_beside(path))

    def _met(self, status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False


def _nothing(looked_at: list[Path]) -> str:
    named = ", ".join(path.name for path in looked_at[:_NAMED])
    more = f" and {len(looked_at) - _NAMED} more" if len(looked_at) > _NAMED else ""
    return (
        f"Nothing in this folder is a result that can be read ({named}{more}): give the files that "
        "the load generator wrote, or name one of these to see what it lacks."
    )


def unreadable(error: OSError) -> str:
    """Say in one sentence why the system does not let us read a file."""
    said = error.strerror or type(error).__name__
    return f"This cannot be read ({said}); check the path, its links and its permissions."
