"""A generation: the list of the files that a reader reads. CURRENT names the newest one.

A list is a file too, and never changes. Old ones stay while a reader keeps them, and a few beyond.
"""

import re
from pathlib import Path

import msgspec

from warehouse.errors import DraftboardError, WarehouseDamaged, WarehouseMissing
from warehouse.store_cache import is_copy, name_of
from warehouse.store_files import CURRENT, pointer

SCHEMA_VERSION = 4

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


def number_of(name: str) -> int | None:
    """Return the number in a generation's name; None where this is no such name."""
    found = _NAME.fullmatch(name) or _OLD.fullmatch(name)
    return int(found[1]) if found else None


def is_old(name: str) -> bool:
    """Return whether the generation is a database of schema version 3 or before."""
    return _OLD.fullmatch(name) is not None


def current_name(root: Path) -> str | None:
    """Return the name of the published generation; None where there is no warehouse.

    Raises WarehouseDamaged where CURRENT says something else.
    """
    name = pointer(root)
    if name is not None and number_of(name) is None:
        raise WarehouseDamaged(
            f"{name_of(root)}/{CURRENT} does not name a generation; {_mend(root)}"
        )
    return name


def current_generation(root: Path) -> int | None:
    """Return the number of the published generation; None where there is no warehouse. Reads one
    small file. Raises WarehouseDamaged where CURRENT says something else."""
    name = current_name(root)
    return None if name is None else number_of(name)


def load(path: Path) -> Generation:
    """Read the generation whose list is at ``path``. Raises FileNotFoundError, WarehouseDamaged."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Generation)
    except msgspec.DecodeError as error:
        raise WarehouseDamaged(
            f"{name_of(path.parent)}/{path.name} cannot be read as a generation ({error}); "
            f"{_mend(path.parent)}"
        ) from error
    strange = [one.file for one in found.files() if not _FILE.fullmatch(one.file)]
    if strange:
        raise WarehouseDamaged(
            f"{name_of(path.parent)}/{path.name} lists {strange[0]!r}, which is no file of a warehouse."
        )
    return found


def cells_held(root: Path) -> int:
    """Return how many cells the published generation holds; 0 where there is none of our
    version."""
    name = current_name(root)
    if name is None or is_old(name):
        return 0
    return sum(segment.cells for segment in load(root / name).segments)


def generations(root: Path) -> dict[str, int]:
    """Return name and number of every generation that is there, published or not, oldest first."""
    names = (
        path.name for path in [*root.glob("generation-*.json"), *root.glob("warehouse-*.duckdb")]
    )
    found = {name: number for name in names if (number := number_of(name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def lists(root: Path) -> list[Generation]:
    """Return every list that is there: readers may be at work on an old one. Raises
    WarehouseDamaged."""
    return [load(root / name) for name in generations(root) if not is_old(name)]


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
    return WarehouseDamaged(f"{what} (newest generation there: {newest}); {_mend(root)}")


def _mend(root: Path) -> str:
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
