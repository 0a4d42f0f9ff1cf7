"""The store: immutable Parquet files; a generation is a list of them, and CURRENT names one.

Readers see one published generation as views over its files. There is one writer at a time, which publishes
what it collected whole or not at all.
"""

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import duckdb
import pyarrow as pa

from warehouse import annotations
from warehouse.errors import LostRace, WarehouseDamaged
from warehouse.rows import Cell, Rejection, Source
from warehouse.storage.cache import name_of
from warehouse.storage.current import (
    current_generation,
    have,
    placed,
    pull,
    require_current,
    start_writing,
    take_back,
)
from warehouse.storage.draft import BATCHES, REJECTIONS, Draft, write_draft
from warehouse.storage.files import (
    REQUESTS,
    TABLES,
    full_disk_explained,
    pin,
    refuse_bundle,
    remove_private,
)
from warehouse.storage.lists import Generation, load, number_of, unreadable
from warehouse.storage.lock import WriterLock, WritersLine
from warehouse.storage.tables import (
    Batch,
    attach_parts,
    confine,
    over_batch,
    publish_generation,
    read_base,
    require_our_schema,
    sql_text,
)

_EXCLUDED_COLUMNS = pa.schema([
    ("run_id", pa.string()), ("source_id", pa.string()), ("reason", pa.string()),
    ("author", pa.string()), ("excluded_at", pa.timestamp("us", "UTC")),
])  # fmt: skip
#: What values are made of: a reader, or whatever else holds one generation.
Held = TypeVar("Held")


@dataclass
class KeptAnswer(Generic[Held]):
    """A value under its key, how it is made, when it was last asked for (monotonic seconds), and the
    seconds of its thread that it took.
    """

    key: str
    make: Callable[[Held], Any]
    value: Future[Any] = field(default_factory=Future)
    at: float = 0.0
    took: float = 0.0


class Kept(Generic[Held]):
    """What was made of one generation, each thing once for everybody who asks: values by key; beyond
    ``most`` the ones that nobody asked for longest go.

    Who asks for what is just being made waits for it. An error is told to all who wait, and is not
    kept.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._entries: OrderedDict[str, KeptAnswer[Held]] = OrderedDict()

    def get(self, key: str, make: Callable[[Held], Any], source: Held) -> Any:
        """Return the value under ``key``, made of ``source`` where nobody has asked for it yet."""
        with self._guard:
            is_new = key not in self._entries
            entry = self._entries.setdefault(key, KeptAnswer(key, make))
            entry.at = time.monotonic()
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        if is_new:
            began = time.thread_time()
            try:
                value = make(source)
            except BaseException as error:  # noqa: BLE001  # Others wait: they are told, whatever it is.
                with self._guard:
                    self._entries.pop(key, None)
                entry.value.set_exception(error)
            else:
                entry.took = time.thread_time() - began
                entry.value.set_result(value)
        return entry.value.result()

    def recent(self, seconds: float) -> list[KeptAnswer[Held]]:
        """Return what was made and asked for in the last ``seconds``, the latest first."""
        since = time.monotonic() - seconds
        with self._guard:
            entries = list(reversed(self._entries.values()))
        return [entry for entry in entries if entry.at >= since and entry.value.done()]


@dataclass(frozen=True)
class Opened(AbstractContextManager["Opened"]):
    """One generation with all its tables as ``store``; its files stay until this is let go of."""

    generation: Generation
    connection: duckdb.DuckDBPyConnection

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def open_newest(root: Path) -> Opened:
    """Open the published generation. Raises as ``Reader`` does."""
    name = ""
    # A writer may retire the generation between the look at CURRENT and the pin.
    for _ in range(5):
        name = require_current(root)
        require_our_schema(root, name)
        try:
            pinned = pin(root / name)
        except FileNotFoundError:
            continue
        try:
            connection = attach_parts(root, generation := load(root / name))
            connection.execute("use memory")
        except BaseException:
            os.close(pinned)
            raise
        opened = Opened(generation, connection)
        weakref.finalize(opened, os.close, pinned)
        return opened
    raise WarehouseDamaged(
        f"{name_of(root)}/{name}, which CURRENT names, is missing; "
        f"run draftboard warehouse check --warehouse {name_of(root)}."
    )


def excluded_table(root: Path) -> pa.Table:
    """Return the runs that are excluded by name: run_id, source_id, reason, author, excluded_at
    (UTC)."""
    rows = [
        {
            "run_id": target.run_id, "source_id": target.source_id, "reason": event.text,
            "author": event.author, "excluded_at": event.at,
        }
        for target, event in annotations.excluded_runs(root).items()
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_EXCLUDED_COLUMNS)


def leave_out(connection: duckdb.DuckDBPyConnection, root: Path, everything: bool = False) -> None:
    """Tell a connection with an attached ``store`` of our schema which runs are excluded by name.

    It gets the table ``excluded_runs``, the table ``left_out`` of their cells, which stays empty
    for ``everything``, and the macro ``chosen``, by which every filtered query leaves them out.
    """
    connection.execute(sql_text("chosen"))
    # Only where there is something to say: Arrow imports pandas to make a table of rows.
    if not annotations.excluded_runs(root):
        return
    insert = "insert into excluded_runs by name select * from batch"
    over_batch(connection, excluded_table(root), insert)
    if not everything:
        connection.execute(
            "insert into left_out "
            "select cell from store.cells semi join excluded_runs using (run_id, source_id)"
        )


class Reader(AbstractContextManager["Reader"]):
    """One generation of a warehouse, safe to share between threads; ``everything``: with the runs
    that are excluded by name, which nobody else sees. ``kept`` holds what was made of it.

    Raises WarehouseMissing, WarehouseOutdated or WarehouseDamaged when it cannot be read.
    """

    def __init__(self, root: Path, everything: bool = False) -> None:
        self.root = Path(root)
        self._everything = everything
        self._annotated = ""
        self._guard = threading.Lock()
        self.kept: Kept[Reader] = Kept(most=8)
        self._opened = self._open_current()

    @property
    def generation(self) -> int:
        """The number of the generation that is read."""
        return self._opened.generation.number

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files that the reader keeps."""
        with self._guard:
            self._opened.connection.close()

    def refresh(self) -> bool:
        """Follow CURRENT and the exclusions; return True if one of them moved.

        Queries under way finish on what they began with.
        """
        if not self._is_behind():
            return False
        with self._guard:
            moved = self._is_behind()
            if moved:
                self._opened, self.kept = self._open_current(), Kept(most=8)
            return moved

    def query(self, name: str, **parameters: Any) -> pa.Table:
        """Return the rows of ``warehouse/sql/<name>.sql``, on a cursor of its own.

        Raises WarehouseDamaged where a request file that it needs is missing or unreadable.
        """
        with self._guard:
            opened = self._opened  # Held, and its files with it, until the rows are here.
            cursor = opened.connection.cursor()
        try:
            cursor.execute("set search_path = 'memory.main,store.main'")
            return cursor.sql(sql_text(name), params=parameters or None).to_arrow_table()
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise unreadable(self.root, error) from error
        finally:
            cursor.close()

    def request_files(self, cell_ids: Iterable[str]) -> list[Path]:
        """Return the Parquet files that hold the requests of these cells, each once."""
        rows = self.query("request_files", cell_ids=list(cell_ids))
        names = dict.fromkeys(rows.column("file").to_pylist())
        have(self.root, names)
        return [self.root.absolute() / REQUESTS / Path(name).name for name in names]

    def _is_behind(self) -> bool:
        return (
            current_generation(self.root) != self.generation
            or annotations.exclusions_version(self.root) != self._annotated
        )

    def _open_current(self) -> Opened:
        opened = open_newest(self.root)
        # Read before they are applied: whoever adds one in between makes this reader look again.
        self._annotated = annotations.exclusions_version(self.root)
        leave_out(opened.connection, self.root, self._everything)
        confine(opened.connection, [self.root / TABLES, self.root / REQUESTS])
        return opened


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
        remove_private(self.root)
        name = start_writing(self.root, self._rebuild)
        take_back(self.root)
        self._number, self._from = number_of(name) or 0, Generation(0)
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

    def holds(self, source_id: str) -> bool:
        """Return whether this content is in the warehouse already, or waits for the commit."""
        return source_id in self._pending or self._is_held(source_id)

    def forget(self, source_id: str) -> None:
        """Drop a source, so that it can be added anew; takes effect with the commit."""
        if (waiting := self._pending.pop(source_id, None)) is not None:
            waiting.discard()
        if source_id in self._base.sources:
            self._forgotten.add(source_id)

    def add(self, source: Source, cells: Iterable[Cell]) -> int:
        """Take a source in, cell by cell; returns the number of cells (0 if it is known).

        An exception while reading ``cells`` propagates and leaves nothing behind; a source that
        was forgotten for it then stays as it was.
        """
        if self.holds(source.source_id):
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
        if self.holds(draft.source_id):
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

    def commit(self) -> int:
        """Publish what was collected; where another machine published first, on top of what it did.
        Return the generation number (0: there is still no warehouse)."""
        with full_disk_explained(self.root), WritersLine(self.root) as line:
            while (
                self._pending
                or self._forgotten
                or self._rebuild
                or self._rejections != self._base.rejections
            ):
                if line.wait() and self._number and not self._rebuild:
                    self._go_on_from_newest()
                    continue
                private = {
                    draft.requests: draft.tables["request_files"].column("file")[0].as_py()
                    for draft in self._pending.values()
                    if draft.requests is not None
                }
                try:
                    with placed(self.root, private):
                        self._from = publish_generation(
                            self.root, self._from, self._number + 1, self._batch()
                        )
                except LostRace:
                    if self._rebuild:
                        raise
                    line.join()
                    self._go_on_from_newest()
                    continue
                self._number, self._rebuild = self._from.number, False
                self._base = read_base(self.root, self._from)
                self._next_cell = self._from.next_cell
                self._pending, self._forgotten = {}, set()
        return self._number

    def _go_on_from_newest(self) -> None:
        pull(self.root)
        name = require_current(self.root)
        require_our_schema(self.root, name)
        self._number, self._from = number_of(name) or 0, load(self.root / name)
        before, ours = self._base.rejections, self._rejections
        self._base = read_base(self.root, self._from)
        # Theirs, with what we changed since.
        self._rejections = {
            path: why
            for path, why in self._base.rejections.items()
            if path in ours or path not in before
        } | {path: why for path, why in ours.items() if before.get(path) != why}
        self._forgotten &= self._base.sources
        drafts = [d for d in self._pending.values() if not self._is_held(d.source_id)]
        self._pending, self._next_cell = {}, self._from.next_cell
        for draft in drafts:
            self._pending[draft.source_id] = draft.numbered(self._next_cell)
            self._next_cell += draft.cells

    def _is_held(self, source_id: str) -> bool:
        return source_id in self._base.sources and source_id not in self._forgotten

    def _batch(self) -> Batch:
        tables = {
            name: pa.concat_tables(parts)
            for name in BATCHES
            if (parts := [d.tables[name] for d in self._pending.values() if name in d.tables])
        }
        rejections, before, now = None, self._base, datetime.now(UTC)
        if self._rejections != before.rejections:
            # Those that say the same as before keep their time.
            rows = [
                {
                    "path": path, "reason": reason,
                    "rejected_at": before.rejected_at[path]
                    if before.rejections.get(path) == reason else now,
                }
                for path, reason in self._rejections.items()
            ]  # fmt: skip
            rejections = pa.Table.from_pylist(rows, schema=REJECTIONS)
        return Batch(tables, sorted(self._forgotten), rejections)
