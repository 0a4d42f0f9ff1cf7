"""A generation: the list of the files that a reader reads. CURRENT names the newest one.

A list is a file too, and never changes. Old ones stay while a reader keeps them, and a few beyond.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, WarehouseDamaged, WarehouseMissing
from warehouse.storage.cache import copy_locked, first_line, is_copy, name_of
from warehouse.storage.files import (
    CURRENT,
    PRIVATE,
    REQUESTS,
    TABLES,
    pointer_here,
    remove_unpinned,
)

SCHEMA_VERSION = 4
#: Old generations that stay, for readers still at work.
KEPT_GENERATIONS = 2

_NAME = re.compile(r"generation-(\d+)-[0-9a-f]{16}\.json")
_OLD = re.compile(r"warehouse-(\d+)\.duckdb")
#: A list may be somebody else's: it must not name files elsewhere.
_FILE = re.compile(r"[a-z_]+-[0-9a-f]{64}\.parquet")


class File(msgspec.Struct, frozen=True):
    """One Parquet file of a table; its name holds the sha256 of its content."""

    file: str
    rows: int
    bytes: int

    @property
    def sha256(self) -> str:
        """The hash that the content of the file must have."""
        return self.file.removesuffix(".parquet").rpartition("-")[2]


class Segment(msgspec.Struct, frozen=True):
    """Rows of every table that belong together: whole sources. Tables without rows are left out."""

    cells: int
    tables: dict[str, File]


class Generation(msgspec.Struct, frozen=True):
    """What the warehouse holds at one moment."""

    number: int
    next_cell: int = 0
    segments: tuple[Segment, ...] = ()
    rejections: File | None = None
    schema_version: int = SCHEMA_VERSION

    def files(self) -> list[File]:
        """Return every file of a table."""
        parts = [file for segment in self.segments for file in segment.tables.values()]
        return parts if self.rejections is None else [*parts, self.rejections]

    def of(self, table: str) -> list[File]:
        """Return the files of one table."""
        if table == "rejections":
            return [] if self.rejections is None else [self.rejections]
        return [segment.tables[table] for segment in self.segments if table in segment.tables]

    def followed_by(self, segments: Iterable[Segment]) -> "Generation":
        """Return the next generation, which has these segments in place of its own."""
        return msgspec.structs.replace(self, number=self.number + 1, segments=tuple(segments))


def number_of(name: str | None) -> int | None:
    """Return the number in a generation's name; None where this is no such name."""
    match = _NAME.fullmatch(name or "") or _OLD.fullmatch(name or "")
    return int(match[1]) if match else None


def is_old(name: str) -> bool:
    """Return whether the generation is a database of schema version 3 or before."""
    return _OLD.fullmatch(name) is not None


def load(path: Path) -> Generation:
    """Read the generation whose list is at ``path``. Raises FileNotFoundError, WarehouseDamaged."""
    try:
        generation = msgspec.json.decode(path.read_bytes(), type=Generation)
    except msgspec.DecodeError as error:
        raise WarehouseDamaged(
            f"{name_of(path.parent)}/{path.name} cannot be read as a generation ({error}); "
            f"{how_to_mend(path.parent)}"
        ) from error
    for file in generation.files():
        if not _FILE.fullmatch(file.file):
            raise WarehouseDamaged(
                f"{name_of(path.parent)}/{path.name} lists {file.file!r}, which is no file of a warehouse."
            )
    return generation


def generations(root: Path) -> dict[str, int]:
    """Return name and number of every generation that is there, published or not, oldest first."""
    paths = [*root.glob("generation-*.json"), *root.glob("warehouse-*.duckdb")]
    there = {p.name: number for p in paths if (number := number_of(p.name)) is not None}
    return dict(sorted(there.items(), key=lambda item: item[1]))


def lists(root: Path) -> list[Generation]:
    """Return every list that is there: readers may be at work on an old one. Raises
    WarehouseDamaged."""
    return [load(root / name) for name in generations(root) if not is_old(name)]


def listed_requests(root: Path, generations: Iterable[Generation]) -> set[str]:
    """Return the request files that some generations list."""
    tables = {file.file for one in generations for file in one.of("request_files")}
    return {name for table in tables for name in requests_named(root, table)}


def requests_named(root: Path, table: str) -> set[str]:
    """Return the request files that one file of the table ``request_files`` names. Raises
    WarehouseDamaged."""
    try:
        rows = pq.read_table(root / TABLES / table, columns=["file"])
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(root, error) from error
    return set(rows.column("file").to_pylist())


def unreadable(root: Path, error: Exception) -> WarehouseDamaged:
    """Return what is said where a file of a warehouse cannot be read."""
    return WarehouseDamaged(
        f"The warehouse {name_of(root)} cannot be read ({first_line(root, error)}); "
        f"run draftboard warehouse check --warehouse {name_of(root)}."
    )


def no_current(root: Path) -> DraftboardError:
    """Return the error to raise where CURRENT is not there: no warehouse yet, or one that has lost
    it.

    A first commit that is under way, or was killed, has a generation 1 and no CURRENT yet.
    """
    there = generations(root)
    if set(there.values()) <= {1}:
        return WarehouseMissing(
            f"There is no warehouse at {name_of(root)} yet; make one with: "
            f"draftboard ingest PATHS --warehouse {name_of(root)}"
        )
    return lost(root, f"{name_of(root)}/{CURRENT} is missing", there)


def lost(root: Path, what: str, there: dict[str, int]) -> WarehouseDamaged:
    """Return the error to raise where ``what`` is missing from a warehouse that has these
    generations."""
    newest = list(there)[-1] if there else "none"
    return WarehouseDamaged(f"{what} (newest generation there: {newest}); {how_to_mend(root)}")


def how_to_mend(root: Path) -> str:
    """Say how a warehouse whose pointer leads nowhere is mended."""
    place = name_of(root)
    if is_copy(root):
        return (
            "bring a generation back with: draftboard warehouse restore GENERATION "
            f"--warehouse {place}"
        )
    return (
        f"write the name of the newest whole generation into {root / CURRENT}, or start anew with: "
        f"draftboard ingest PATHS --rebuild --warehouse {place}"
    )


def retire(root: Path, current: int) -> list[str]:
    """Remove what nobody can need: old generations beyond the kept that no reader keeps,
    unpublished ones, and files of tables that none of the others lists.

    Only under the writer's lock. Returns the names of what was removed.
    """
    with copy_locked(root):
        # A copy may have followed another machine meanwhile.
        current = max(current, number_of(pointer_here(root)) or 0)
        there = generations(root)
        old = sorted(number for number in set(there.values()) if number < current)
        kept = {current, *old[-KEPT_GENERATIONS:]}
        going = [name for name, number in there.items() if number not in kept]
        _count_age_anew(root, going, there.keys() - set(going))
        removed = [name for name in going if remove_unpinned(root / name)]
        try:
            listed = {file.file for generation in lists(root) for file in generation.files()}
        except WarehouseDamaged:
            return (
                removed  # What a list that cannot be read holds is not known, so all of it stays.
            )
        for path in sorted((root / TABLES).glob("*.parquet")):
            if path.name not in listed and not path.name.startswith(PRIVATE):
                path.unlink()
                removed.append(path.name)
        return removed


def _count_age_anew(root: Path, going: Iterable[str], staying: Iterable[str]) -> None:
    """Let the age of request files count from now on, where no list will name them any more.
    Somebody may be at work on a path that an older generation gave him; ``gc`` leaves young
    files.
    What cannot be read keeps its age: the list, or a file of it, is damaged.
    """
    with suppress(WarehouseDamaged, OSError):
        left = _request_tables(root, staying)
        gone = _request_tables(root, going) - left
        others = {name for table in left if gone for name in requests_named(root, table)}
        for table in gone:
            for name in requests_named(root, table) - others:
                os.utime(root / REQUESTS / name)


def _request_tables(root: Path, names: Iterable[str]) -> set[str]:
    kept = [load(root / name) for name in names if not is_old(name)]
    return {file.file for generation in kept for file in generation.of("request_files")}
