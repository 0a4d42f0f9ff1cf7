"""Looks over watched folders: two looks per known drop, whatever it holds and however large.

Polling, because a network file system tells nobody what another machine wrote.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ingest.belonging import may_belong
from ingest.discovery import is_wanted, unreadable
from ingest.formats.drop import RECORD

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
