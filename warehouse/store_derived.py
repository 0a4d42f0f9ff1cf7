"""Facts that were derived from a study's cells, kept under the hash of what they follow from.

Whoever has other cells, exclusions or code looks under another name, so nothing here is ever stale;
a file that is missing or damaged is nothing but slower.
"""

import os
import time
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.store_files import DERIVED, PRIVATE, publish

#: Holds by which code facts were derived last, and when the last source had come then.
_UPTO = "upto"
#: Seconds for which facts that nobody asks for any more are kept: an exclusion may be taken back.
_GRACE = 7 * 24 * 3600.0


def kept(root: Path, basis: str) -> pa.Table | None:
    """Return the facts that follow from ``basis``; None where they are not there."""
    try:
        return pq.read_table(root / DERIVED / f"{basis}.parquet", page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid):
        return None


def keep(root: Path, basis: str, facts: pa.Table) -> None:
    """Keep the facts that follow from ``basis``. Only under the writer's lock."""
    folder = root / DERIVED
    folder.mkdir(exist_ok=True)
    private = folder / f"{PRIVATE}{os.getpid()}-{basis}.parquet"
    try:
        pq.write_table(facts, private, compression="zstd", write_page_checksum=True)
        publish(private, folder / f"{basis}.parquet")
    finally:
        private.unlink(missing_ok=True)


def is_kept(root: Path, basis: str) -> bool:
    """Return whether facts of this basis are there."""
    return (root / DERIVED / f"{basis}.parquet").exists()


def derived_upto(root: Path, code: str) -> datetime | None:
    """Return when the last source had come of which this code derived facts (UTC); None if nobody
    knows."""
    try:
        by, at = (root / DERIVED / _UPTO).read_text(encoding="ascii").split()
        return datetime.fromisoformat(at) if by == code else None
    except (OSError, ValueError):
        return None


def note_upto(root: Path, code: str, ingested_at: datetime) -> None:
    """Keep when the last source had come of which this code derived facts. Only under the writer's
    lock; half of it tells nobody anything."""
    folder = root / DERIVED
    folder.mkdir(exist_ok=True)
    (folder / _UPTO).write_text(f"{code} {ingested_at.isoformat()}", encoding="ascii")


def drop_others(root: Path, bases: Collection[str], grace: float = _GRACE) -> None:
    """Remove facts of other bases, once they are older than ``grace`` seconds. Only under the
    writer's lock."""
    oldest = time.time() - grace
    for path in (root / DERIVED).glob("*.parquet"):
        if path.stem not in bases and path.stat().st_mtime <= oldest:
            path.unlink()
