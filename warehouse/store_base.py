"""What a writer needs to know of the generation that it goes on from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from warehouse.store_list import Generation
from warehouse.store_tables import attach_parts


@dataclass
class Base:
    """The sources of a generation by their ids, and its rejections by their paths."""

    sources: set[str] = field(default_factory=set)
    rejections: dict[str, str] = field(default_factory=dict)
    rejected_at: dict[str, datetime] = field(default_factory=dict)


def read_base(root: Path, generation: Generation) -> Base:
    """Return what a generation holds."""
    with attach_parts(root, generation) as connection:
        known = connection.sql("select source_id from sources").to_arrow_table()
        rejected = connection.sql("from rejections").to_arrow_table().to_pylist()
    return Base(
        sources=set(known.column("source_id").to_pylist()),
        rejections={row["path"]: row["reason"] for row in rejected},
        rejected_at={row["path"]: row["rejected_at"] for row in rejected},
    )


def moved(before: Base, ours: Mapping[str, str], now: Base) -> dict[str, str]:
    """Return the rejections where another machine changed them too: theirs, with what we changed
    since ``before``."""
    old = before.rejections
    left = {path: why for path, why in now.rejections.items() if path in ours or path not in old}
    return left | {path: why for path, why in ours.items() if old.get(path) != why}
