"""Where the warehouse's files are, and how one is published: private name, fsync, rename."""

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warehouse.errors import DraftboardError, InvalidInput, WarehouseDamaged, WarehouseMissing

SCHEMA_VERSION = 3
CURRENT = "CURRENT"
REQUESTS = "requests"
LOCK = "lock"
BUNDLE = "bundle.json"
"""Where this lies is a bundle, which somebody shared: it is read, and never changed."""
PRIVATE = "tmp-"
"""Every file under construction starts so; the next writer removes what a kill left behind."""

KEPT_GENERATIONS = 2
"""Old generations that stay for readers still at work."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_GENERATION = re.compile(r"warehouse-(\d+)\.duckdb")


def warehouse_path(given: str | Path | None) -> Path:
    """The warehouse to use: the given one, else ``DRAFTBOARD_WAREHOUSE``, else data/warehouse."""
    return Path(given or os.environ.get("DRAFTBOARD_WAREHOUSE") or "data/warehouse")


def refuse_bundle(root: Path) -> None:
    """Raises InvalidInput where the folder is a bundle."""
    if (root / BUNDLE).exists():
        raise InvalidInput(
            f"{root} is a shared bundle and is never changed: name another --warehouse."
        )


def generation_name(generation: int) -> str:
    """The file name of a generation."""
    return f"warehouse-{generation}.duckdb"


def current_generation(root: Path) -> int | None:
    """The published generation; None where there is no warehouse. Reads one small file.

    Raises WarehouseDamaged where CURRENT says something else.
    """
    try:
        text = (root / CURRENT).read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = _GENERATION.fullmatch(text)
    if found is None:
        raise WarehouseDamaged(
            f"{root / CURRENT} does not name a generation; write the name of the newest "
            f"warehouse-<n>.duckdb into it, or ingest again into a new --warehouse."
        )
    return int(found[1])


def generations(root: Path) -> dict[int, Path]:
    """Every generation file that is there, published or not."""
    found = ((_GENERATION.fullmatch(p.name), p) for p in root.glob("warehouse-*.duckdb"))
    return {int(match[1]): path for match, path in found if match}


def no_current(root: Path) -> DraftboardError:
    """What to say where CURRENT is not there: no warehouse yet, or one that has lost it.

    A first commit that is under way, or was killed, has a generation 1 and no CURRENT yet.
    """
    there = generations(root)
    if set(there) <= {1}:
        return WarehouseMissing(
            f"There is no warehouse at {root} yet; make one with: "
            f"draftboard ingest PATHS --warehouse {root}"
        )
    return _lost(root, f"{root / CURRENT} is missing", there)


def start_writing(root: Path, rebuild: bool) -> int | None:
    """The generation that a writer goes on from, once what a killed one left is out of the way.

    None where there is no warehouse. Nothing is removed before it is certain what is published;
    raises WarehouseDamaged where that cannot be said, unless ``rebuild`` starts from nothing.
    """
    there = generations(root)
    try:
        current = current_generation(root)
        if current is None and not set(there) <= {1}:
            raise no_current(root)
        if current is not None and current not in there:
            raise _lost(root, f"{root / generation_name(current)}, which CURRENT names, is missing",
                        there)  # fmt: skip
    except WarehouseDamaged:
        if not rebuild:
            raise
        return max(there, default=None)
    if current is None and there:
        # Killed between the two last steps of the first commit: generation 1 is whole.
        point_current(root, 1)
        return 1
    remove_generations(root, current or 0)
    return current


def _lost(root: Path, what: str, there: dict[int, Path]) -> WarehouseDamaged:
    newest = there[max(there)].name if there else "none"
    return WarehouseDamaged(
        f"{what} (newest generation there: {newest}); write the name of the newest into "
        f"{root / CURRENT}, or start anew with: draftboard ingest PATHS --rebuild --warehouse {root}"
    )


def publish(private: Path, final: Path) -> None:
    """Make a finished private file visible under its final name, durably."""
    sync(private)
    private.replace(final)
    sync(final.parent)


def point_current(root: Path, generation: int) -> None:
    """Point CURRENT to a generation that is already in place."""
    private = root / f"{PRIVATE}{CURRENT}"
    private.write_text(generation_name(generation) + "\n", encoding="utf-8")
    publish(private, root / CURRENT)


def sync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """sha256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_private(root: Path) -> None:
    """Remove what a killed writer left half made. Only under the writer's lock."""
    for folder in (root, root / REQUESTS):
        for path in folder.glob(f"{PRIVATE}*"):
            path.unlink(missing_ok=True)


def remove_generations(root: Path, current: int) -> list[Path]:
    """Remove generations that nobody can need: old ones beyond the kept, and unpublished ones."""
    gone = [
        path
        for number, path in generations(root).items()
        if not current - KEPT_GENERATIONS <= number <= current
    ]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone


@contextmanager
def full_disk_explained(root: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that may not be written, into a sentence."""
    try:
        yield
    except OSError as error:
        raise _explained(error, root) from error


def database_explained(error: Exception, root: Path) -> Exception:
    """What to raise for an error of the database while it writes into ``root``."""
    text = str(error).splitlines()[0]
    full = _explained(OSError(text), root)
    if isinstance(full, DraftboardError):
        return full
    return DraftboardError(
        f"The database in {root} could not be written ({text}): nothing was published and what "
        f"was there before is untouched; run draftboard warehouse check, then try again."
    )


def _explained(error: OSError, root: Path) -> Exception:
    if error.errno in _FULL or any(os.strerror(number) in str(error) for number in _FULL):
        return DraftboardError(
            f"The disk of {root} is full: nothing was published and what was there before is "
            f"untouched; free some space and run the same command again."
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return DraftboardError(
            f"{error.filename or root} may not be written; choose another --warehouse or change "
            f"its permissions."
        )
    return error
