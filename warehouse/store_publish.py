"""One new generation: the last one's files, those of what came, and nothing copied."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.store_files import database_explained
from warehouse.store_list import Generation, Segment
from warehouse.store_tables import merged, without, write_rejections, write_segment
from warehouse.store_turnover import save

#: So many segments of like size become one, so that a reader opens few files and a row is written
#: again only a few times: 8 segments of up to 7 cells, of up to 63, and so on.
CROWD = 8
#: Segments of more cells are left alone.
LARGE = 8192


@dataclass(frozen=True)
class Batch:
    """Everything that one commit changes; ``rejections``: all of them, None where they stay."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    forgotten: Sequence[str] = ()
    rejections: pa.Table | None = None


def publish_generation(root: Path, base: Generation, number: int, batch: Batch) -> Generation:
    """Publish generation ``number``: ``base`` changed by ``batch``."""
    try:
        found = _changed(root, base, number, batch)
    except duckdb.Error as error:
        raise database_explained(error, root) from error
    save(root, found)
    return found


def _changed(root: Path, base: Generation, number: int, batch: Batch) -> Generation:
    segments, next_cell = list(base.segments), base.next_cell
    if batch.forgotten:
        left = [without(root, segment, batch.forgotten) for segment in segments]
        segments = [segment for segment in left if segment is not None]
    if batch.tables:
        segments.append(write_segment(root, batch.tables))
        next_cell = max(next_cell, _highest(batch.tables["cells"]) + 1)
    rejections = base.rejections
    if batch.rejections is not None:
        rejections = write_rejections(root, batch.rejections)
    return Generation(number, next_cell, tuple(settled(root, segments)), rejections)


def _highest(cells: pa.Table) -> int:
    found = pc.max(cells.column("cell")).as_py()
    return -1 if found is None else int(found)


def settled(root: Path, segments: list[Segment]) -> list[Segment]:
    """Merge segments of like size until there are few; return them, with the same rows."""
    while True:
        tiers: dict[int, list[Segment]] = {}
        for segment in segments:
            if segment.cells < LARGE:
                tiers.setdefault(_tier(segment.cells), []).append(segment)
        crowd = next((alike for alike in tiers.values() if len(alike) >= CROWD), None)
        if crowd is None:
            return segments
        segments = [*(one for one in segments if one not in crowd), merged(root, crowd)]


def _tier(cells: int) -> int:
    tier = 0
    while cells >= CROWD:
        cells, tier = cells // CROWD, tier + 1
    return tier
