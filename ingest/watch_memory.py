"""What became of every path that a watcher saw.

What is settled is kept in memory only and learnt again after a restart: the warehouse knows every
content that it holds, so what was taken in before is a duplicate and changes nothing. What was
rejected is remembered (``watch_recall``): reading it may have taken all that a unit may take.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ingest.belonging import may_belong
from ingest.clean import clean_text
from ingest.discovery import is_wanted, unreadable
from ingest.exchange import Options
from ingest.formats.drop import RECORD
from warehouse import queries
from warehouse.errors import DraftboardError
from warehouse.store import Reader

# --- Looks over watched folders: two looks per known drop, whatever it holds and however large.
#
# Polling, because a network file system tells nobody what another machine wrote.


#: When a file was last written (ns) and how long it is (bytes). No inode: some network file
#: systems hand out a new one with every look.
Mark = tuple[int, int]
#: The names and marks of everything that a unit consists of.
Fingerprint = tuple[tuple[str, Mark], ...]

_UNREADABLE: Mark = (-1, -1)


@dataclass(frozen=True)
class Sighting:
    """A drop or a report as it lay there: its path, the mark of its record or its file, and the
    marks of the files that belong to a report."""

    path: Path
    is_drop: bool
    mark: Mark
    beside: Fingerprint = ()

    @property
    def marks(self) -> Fingerprint:
        """The marks by which it is known once it was read: of a drop only that of its record."""
        return (("", self.mark), *self.beside)

    def fingerprint(self) -> Fingerprint:
        """Return the marks of all files of a sighting, the hidden ones of a drop too: ``rsync``
        writes under hidden names."""
        if not self.is_drop:
            return self.marks
        try:
            with os.scandir(self.path) as members:
                return tuple(sorted((member.name, _mark(member)) for member in members))
        except OSError:
            return ()


class Scan:
    """One pass over the folders; ``problems`` fills up while ``sightings`` is read."""

    def __init__(self, folders: Iterable[Path], left_out: Path) -> None:
        self.problems: list[str] = []
        self._folders = tuple(folders)
        # Folders met: a second name or a loop of links is not followed, and the warehouse itself,
        # which holds JSON of its own, is never watched.
        self._met: set[tuple[int, int]] = set()
        with suppress(OSError):
            self._was_met(left_out)

    def sightings(self) -> Iterator[Sighting]:
        """Yield every drop and report under the folders, by name; the rules are those of
        ``find_units``."""
        for folder in self._folders:
            yield from self._folder(folder)

    def _folder(self, path: Path) -> Iterator[Sighting]:
        try:
            if self._was_met(path):
                return
            record = _record(path)
            members = _members(path) if record is None else []
        except OSError as error:
            # Below the watched folders a name may go while we look: cells are renamed.
            if path in self._folders or not isinstance(error, FileNotFoundError):
                self.problems.append(f"{path}: {unreadable(error)}")
            return
        if record is not None:
            yield Sighting(path, True, record)
        there = {member.name: member for member in members}
        for member in members:
            yield from self._member(member, there)

    def _member(
        self, member: os.DirEntry[str], there: Mapping[str, os.DirEntry[str]]
    ) -> Iterator[Sighting]:
        path = Path(member.path)
        if _is_folder(member):
            yield from self._folder(path)
        elif is_wanted(path):
            # By the names that the folder lists: what is not there costs no look.
            names = {one.name for one in may_belong(path)} & there.keys() - {path.name}
            beside = tuple((name, _mark(there[name])) for name in sorted(names))
            yield Sighting(path, False, _mark(member), beside)

    def _was_met(self, path: Path) -> bool:
        identity = _identity(path.stat())
        if identity in self._met:
            return True
        self._met.add(identity)
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _record(folder: Path) -> Mark | None:
    """Return the mark of the record that makes a folder a drop; None where there is none."""
    record = folder / RECORD
    try:
        status = record.stat()
    except OSError as error:
        if record.is_symlink():
            return _UNREADABLE
        if isinstance(error, FileNotFoundError):
            return None
        raise
    return status.st_mtime_ns, status.st_size


def _members(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        shown = [member for member in found if not member.name.startswith(".")]
    return sorted(shown, key=lambda member: member.name)


def _is_folder(member: os.DirEntry[str]) -> bool:
    try:
        return member.is_dir()
    except OSError:
        return False


def _mark(member: os.DirEntry[str]) -> Mark:
    try:
        status = member.stat()
    except OSError:
        return _UNREADABLE
    return status.st_mtime_ns, status.st_size


# --- ``watch-rejected.json`` in the warehouse's folder: what a watcher rejected, for the next one.
#
# A path is in it with the marks of its files. It holds for as long as they stay the same, for the
# code that rejected them, and for what the user asked of it: a better reader, or higher limits, try
# again.


NAME = "watch-rejected.json"
_PRIVATE = ".watch-rejected.json.new"
_HOME = Path(__file__).parents[1]
_READS = ("ingest", "analysis", "warehouse")


def keep(root: Path, options: Options, rejected: dict[str, Fingerprint]) -> None:
    """Write down which paths are rejected, in place of what was written before."""
    private = root / _PRIVATE
    # ASCII: a name that is no UTF-8 cannot be written otherwise.
    private.write_text(json.dumps({"by": _by(options), "rejected": rejected}), encoding="ascii")
    private.replace(root / NAME)


def recall(root: Path, options: Options) -> dict[str, Fingerprint]:
    """Return what was rejected for reasons that still hold, and is listed as rejected in the
    warehouse."""
    with suppress(OSError, ValueError, TypeError, KeyError, DraftboardError):
        kept = json.loads((root / NAME).read_bytes())
        if kept["by"] == _by(options):
            listed = _listed(root)
            return {
                path: tuple((str(name), (int(at), int(size))) for name, (at, size) in marks)
                for path, marks in kept["rejected"].items()
                if clean_text(path) in listed
            }
    return {}


def _listed(root: Path) -> set[str]:
    with Reader(root) as reader:
        return set(queries.rejections(reader).column("path").to_pylist())


def _by(options: Options) -> str:
    """Return a hash of our code and of what was asked: with another hash, rejected files are read
    again."""
    return hashlib.sha256(f"{_code()} {options}".encode()).hexdigest()


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for folder in _READS:
        for path in sorted((_HOME / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


# --- What became of every path that a watcher saw.


class Memory:
    """Paths that are settled (in the warehouse), rejected, or not yet read."""

    def __init__(self) -> None:
        self._settled: dict[str, Fingerprint] = {}
        self._rejected: dict[str, Fingerprint] = {}
        self._waiting: dict[str, Fingerprint] = {}
        self.news = False
        """Whether the last look saw something that the one before it did not."""

    @property
    def waiting(self) -> int:
        """How many paths were seen and are not settled."""
        return len(self._waiting)

    @property
    def rejected(self) -> int:
        """How many paths were rejected and are unchanged since."""
        return len(self._rejected)

    def rejections(self) -> dict[str, Fingerprint]:
        """Return the rejected paths that are still there, each as it was when it was read."""
        return dict(self._rejected)

    def recall(self, rejected: dict[str, Fingerprint]) -> None:
        """Take over what an earlier watcher rejected."""
        self._rejected |= rejected

    def ready(self, seen: Iterable[Sighting], complete: Callable[[], bool]) -> list[Sighting]:
        """Return what is new and has been still since the last look.

        Anything may have been written in place or copied file by file, so it is read when two looks
        in a row saw the same. What is gone is forgotten, unless the look was not ``complete``,
        which is known at its end: a folder could not be read.
        """
        self.news = False
        there: set[str] = set()
        found = []
        for sighting in seen:
            there.add(str(sighting.path))
            if self._is_still(sighting):
                found.append(sighting)
        if complete():
            self._keep(there)
        return found

    def settle(self, sighting: Sighting, rejected: bool) -> None:
        """Note that a sighting was read, so that it is looked at again only when it changes."""
        path = str(sighting.path)
        fingerprint = self._waiting.pop(path, None)
        if rejected and fingerprint is not None:
            self._rejected[path] = fingerprint
        else:
            self._settled[path] = sighting.marks
            self._rejected.pop(path, None)

    def forget(self) -> None:
        """Forget all paths, so that everything counts as new again."""
        for memory in (self._settled, self._rejected, self._waiting):
            memory.clear()

    def _is_still(self, sighting: Sighting) -> bool:
        path = str(sighting.path)
        if self._settled.get(path) == sighting.marks:
            return False
        fingerprint = sighting.fingerprint()
        if self._rejected.get(path) == fingerprint:
            return False
        if self._waiting.get(path) == fingerprint:
            return True
        self._waiting[path] = fingerprint
        self.news = True
        return False

    def _keep(self, there: set[str]) -> None:
        gone = (self._settled.keys() | self._rejected.keys() | self._waiting.keys()) - there
        for path in gone:
            for memory in (self._settled, self._rejected, self._waiting):
                memory.pop(path, None)
