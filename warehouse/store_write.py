"""Writing the warehouse: one writer at a time, batches, published whole or not at all."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from warehouse import published
from warehouse.errors import LostRace, WarehouseDamaged
from warehouse.rows import Cell, Rejection, Source
from warehouse.store_draft import Draft, write_draft
from warehouse.store_files import (
    PRIVATE,
    REQUESTS,
    database_explained,
    full_disk_explained,
    refuse_bundle,
    remove_private,
    sync,
)
from warehouse.store_list import (
    Generation,
    Segment,
    current_name,
    is_old,
    load,
    no_current,
    number_of,
)
from warehouse.store_lock import WriterLock
from warehouse.store_old import CONVERTIBLE, old_tables, require_our_schema, schema_version
from warehouse.store_read import listed_files
from warehouse.store_remote import pull
from warehouse.store_rows import BATCHES, REJECTIONS
from warehouse.store_tables import (
    merged,
    moved,
    read_base,
    without,
    write_rejections,
    write_segment,
)
from warehouse.store_turnover import save, start_writing

# --- One new generation: the last one's files, those of what came, and nothing copied.


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


# --- Request files get their names with the list that names them; what a kill in between left goes.
#
# A request file is private until its generation is published. Before it gets its name, that name is
# noted in a journal; whoever finds the journal later removes those of them that no list holds.


_JOURNAL = "placing.json"


@contextmanager
def placed(root: Path, files: Mapping[Path, str]) -> Iterator[None]:
    """Give private request files their names; the caller publishes the list that holds them.

    Only under the writer's lock. Where that fails, ``take_back`` removes them.
    """
    if not files:
        yield
        return
    folder = root / REQUESTS
    private = root / f"{PRIVATE}{_JOURNAL}"
    private.write_text(json.dumps(sorted(files.values())), encoding="utf-8")
    private.replace(root / _JOURNAL)
    for path, name in files.items():
        # After a lost race it has its name.
        if path.exists() or not (folder / name).exists():
            path.replace(folder / name)
    sync(folder)
    yield
    (root / _JOURNAL).unlink()


def take_back(root: Path) -> None:
    """Remove the request files of a publication that did not come to its end.

    Only under the writer's lock. Where it cannot be said what is listed, nothing is removed.
    """
    journal = root / _JOURNAL
    try:
        names = json.loads(journal.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        names = []
    with suppress(WarehouseDamaged):
        for name in set(names) - listed_files(root):
            (root / REQUESTS / Path(name).name).unlink(missing_ok=True)
        journal.unlink()


# --- A warehouse of schema version 3 becomes one of ours, without its raw files.


#: Tables that are read, and the generation that is written.
STEPS = len(BATCHES) + 2


def convert(root: Path, advance: Callable[[int], None] = lambda done: None) -> Generation | None:
    """Publish what the warehouse holds as the next generation; None where it is ours already.

    Only under the writer's lock. The old database stays until ``gc``; killed before the end, the
    warehouse is what it was. ``advance`` gets 1 for each of ``STEPS``. Raises WarehouseMissing, and WarehouseOutdated for versions below 3.
    """
    remove_private(root)
    name = start_writing(root, rebuild=False)
    take_back(root)
    if name is None:
        raise no_current(root)
    if not is_old(name):
        return None
    if schema_version(root, name) != CONVERTIBLE:
        require_our_schema(root, name)
    tables, rejections = old_tables(root / name, advance)
    with full_disk_explained(root):
        batch = Batch(tables, rejections=rejections)
        made = publish_generation(root, Generation(0), (number_of(name) or 0) + 1, batch)
    advance(1)
    return made


# --- Writing the warehouse: one writer at a time, batches, published whole or not at all.


@contextmanager
def open_writer(
    root: Path,
    wait: bool = True,
    on_wait: Callable[[str], None] | None = None,
    rebuild: bool = False,
    while_waiting: Callable[[], None] = lambda: None,
) -> Iterator["Writer"]:
    """Open the only writer of the warehouse at ``root``, made if it is not there.

    ``on_wait`` gets one sentence if another process is writing; ``while_waiting`` is then called
    again and again, and what it raises ends the waiting. ``rebuild`` starts from nothing and
    replaces, at the first commit, what was there. What was not committed is dropped. Raises
    WarehouseBusy (with ``wait=False``), WarehouseOutdated and WarehouseDamaged.
    """
    root = Path(root)
    refuse_bundle(root)
    with full_disk_explained(root):
        (root / REQUESTS).mkdir(parents=True, exist_ok=True)
        lock = WriterLock(root, while_waiting)
        with lock.held(wait, on_wait):
            try:
                yield Writer(root, lock, rebuild)
            finally:
                if lock.is_held:
                    remove_private(root)
                    take_back(root)


class Writer:
    """Collects sources and rejections; ``commit`` publishes them as a new generation."""

    def __init__(self, root: Path, lock: WriterLock, rebuild: bool) -> None:
        self.root = root
        self._lock = lock
        self._rebuild = rebuild
        self._begin()

    def _begin(self) -> None:
        """Start from what is published now, what a killed writer left removed."""
        remove_private(self.root)
        name = start_writing(self.root, self._rebuild)
        take_back(self.root)
        self._number = 0 if name is None else number_of(name) or 0
        self._from = Generation(0)
        if name is not None and not self._rebuild:
            require_our_schema(self.root, name)
            self._from = load(self.root / name)
        self._base = read_base(self.root, self._from)
        self._rejections = dict(self._base.rejections)
        self._forgotten: set[str] = set()
        self._pending: dict[str, Draft] = {}
        self._next_cell = self._from.next_cell

    @property
    def is_awaited(self) -> bool:
        """Whether another process stands in line to write."""
        return self._lock.is_awaited

    def give_way(self) -> None:
        """Publish what was collected, let who stands in line write, and go on from what is there.

        What others have not adopted yet must not be under way: its private files are removed.
        Raises what ``while_waiting`` raises; nothing more can be written then.
        """
        self.commit()
        self._lock.give_way()
        self._begin()

    @property
    def sources(self) -> frozenset[str]:
        """The ids of all content that is in the warehouse, or waits for the commit."""
        return frozenset(self._base.sources - self._forgotten | self._pending.keys())

    def known(self, source_id: str) -> bool:
        """Return whether this content is in the warehouse already, or waits for the commit."""
        if source_id in self._pending:
            return True
        return self._is_held(source_id)

    def forget(self, source_id: str) -> None:
        """Drop a source, so that it can be added anew; takes effect with the commit."""
        waiting = self._pending.pop(source_id, None)
        if waiting is not None:
            waiting.discard()
        if source_id in self._base.sources:
            self._forgotten.add(source_id)

    def add(self, source: Source, cells: Iterable[Cell]) -> int:
        """Take a source in, cell by cell; returns the number of cells (0 if it is known).

        An exception while reading ``cells`` propagates and leaves nothing behind; a source that
        was forgotten for it then stays as it was.
        """
        if self.known(source.source_id):
            return 0
        try:
            with full_disk_explained(self.root):
                draft = write_draft(self.root, source, cells)
        except BaseException:
            self._forgotten.discard(source.source_id)
            raise
        return self.adopt(draft)

    def adopt(self, draft: Draft) -> int:
        """Take in what was read elsewhere; returns the number of cells (0 if it is known)."""
        if self.known(draft.source_id):
            draft.discard()
            return 0
        self._pending[draft.source_id] = draft.numbered(self._next_cell)
        self._next_cell += draft.cells
        self._rejections.pop(draft.path, None)
        return draft.cells

    def reject(self, rejection: Rejection) -> None:
        """Remember that a file was not taken in; saying the same twice changes nothing."""
        self._rejections[rejection.path] = rejection.reason

    def unreject(self, path: str) -> None:
        """Forget a rejection: the file at that path is taken in now, perhaps from elsewhere."""
        self._rejections.pop(path, None)

    def keep_table(self, name: str, text: str) -> bool:
        """Keep a published table; False where it is there already. It waits for no commit."""
        return published.keep(self.root, name, text)

    def commit(self) -> int:
        """Publish what was collected. Return the generation number (0: there is still no
        warehouse)."""
        if not self._changed():
            return self._number
        with full_disk_explained(self.root):
            while not self._published():
                self._go_on_from_newest()
                if not self._changed():
                    return self._number
        self._number, self._rebuild = self._from.number, False
        self._base = read_base(self.root, self._from)
        self._next_cell = self._from.next_cell
        self._pending, self._forgotten = {}, set()
        return self._number

    def _published(self) -> bool:
        """Publish what was collected; return False where another machine published first."""
        try:
            with placed(self.root, self._files()):
                self._from = publish_generation(
                    self.root, self._from, self._number + 1, self._batch()
                )
        except LostRace:
            if self._rebuild:
                raise
            return False
        return True

    def _go_on_from_newest(self) -> None:
        """Put what was collected on top of what another machine published."""
        pull(self.root)
        name = current_name(self.root)
        assert name is not None
        require_our_schema(self.root, name)
        self._number, self._from = number_of(name) or 0, load(self.root / name)
        before, self._base = self._base, read_base(self.root, self._from)
        self._rejections = moved(before, self._rejections, self._base)
        self._forgotten &= self._base.sources
        drafts = [d for d in self._pending.values() if not self._is_held(d.source_id)]
        self._pending, self._next_cell = {}, self._from.next_cell
        for draft in drafts:
            self._pending[draft.source_id] = draft.numbered(self._next_cell - draft.first)
            self._next_cell += draft.cells

    def _is_held(self, source_id: str) -> bool:
        return source_id in self._base.sources and source_id not in self._forgotten

    def _changed(self) -> bool:
        return bool(
            self._pending
            or self._forgotten
            or self._rebuild
            or self._rejections != self._base.rejections
        )

    def _batch(self) -> Batch:
        now, drafts = datetime.now(UTC), self._pending.values()
        return Batch(
            tables={
                name: pa.concat_tables([one.tables[name] for one in drafts if name in one.tables])
                for name in BATCHES
                if any(name in one.tables for one in drafts)
            },
            forgotten=sorted(self._forgotten),
            rejections=None if self._rejections == self._base.rejections else self._rejected(now),
        )

    def _rejected(self, now: datetime) -> pa.Table:
        """Return every rejection; those that say the same as before keep their time."""
        before = self._base
        rows = [
            {
                "path": path, "reason": reason,
                "rejected_at": before.rejected_at[path]
                if before.rejections.get(path) == reason else now,
            }
            for path, reason in self._rejections.items()
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=REJECTIONS)

    def _files(self) -> dict[Path, str]:
        """Return the private request files that wait, and the names that they get."""
        return {
            draft.requests: draft.tables["request_files"].column("file")[0].as_py()
            for draft in self._pending.values()
            if draft.requests is not None
        }
