"""A writer that commits without pause beside four readers: errors, torn reads, lost commits."""

import hashlib
import multiprocessing
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.large import cell, facts
from benchmarks.result import Result, progress
from warehouse import queries
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.rows import Source
from warehouse.store import Reader, open_writer

CELLS, REQUESTS, READERS = 2, 20, 4
METRICS, STATISTICS = ["output_throughput"], ["mean"]


@dataclass
class Seen:
    """What one reader saw."""

    reads: int = 0
    errors: int = 0
    torn: int = 0


def identity(number: int) -> str:
    """The name of the source that commit ``number`` adds."""
    return hashlib.sha256(f"commit:{number}".encode()).hexdigest()


def write(root: Path, until: float, results: Any) -> None:
    """Commit sources of two cells one after the other; reports how many were acknowledged."""
    said = next(iter(facts()))
    committed = 0
    with open_writer(root) as writer:
        while time.monotonic() < until:
            name = identity(committed)
            source = Source(name, f"{committed}.json", "guidellm", 0)
            writer.add(source, (cell(name, i, said, REQUESTS) for i in range(CELLS)))
            writer.commit()
            committed += 1
    results.put(committed)


def read(root: Path, until: float, results: Any) -> None:
    """Query the newest generation again and again; count errors and contradictions."""
    seen = Seen()
    with Reader(root) as reader:
        while time.monotonic() < until:
            try:
                reader.refresh()
                seen.torn += not whole(reader)
            except (DraftboardError, OSError):
                seen.errors += 1
            seen.reads += 1
    results.put(seen)


def whole(reader: Reader) -> bool:
    """Whether the tables of one generation and its newest request file agree with one another."""
    cells = queries.cells(reader, Filters()).column("cell_id").to_pylist()
    sources = queries.sources(reader).num_rows
    values = queries.measurements(reader, Filters(), METRICS, STATISTICS).num_rows
    files = reader.request_files(cells[-1:])
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    return bool(len(cells) == CELLS * sources == values and rows == CELLS * REQUESTS)


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Thirty seconds of it."""
    root, duration = folder / "concurrency", 5 if quick else 30
    shutil.rmtree(root, ignore_errors=True)
    context = multiprocessing.get_context("spawn")
    first, others = context.Queue(), context.Queue()
    write(root, time.monotonic() + 0.2, first)
    before = first.get()
    shutil.rmtree(root)
    seed(root)
    progress(
        f"one writer, {READERS} readers, {duration} s (a trial made {before} commits in 0.2 s)"
    )
    until = time.monotonic() + duration
    writer = context.Process(target=write, args=(root, until, first))
    readers = [context.Process(target=read, args=(root, until, others)) for _ in range(READERS)]
    for process in (writer, *readers):
        process.start()
    committed, seen = first.get(), [others.get() for _ in readers]
    for process in (writer, *readers):
        process.join()
    yield from judged(root, committed, seen)
    shutil.rmtree(root)


def seed(root: Path) -> None:
    """One commit, so that the readers find a warehouse."""
    name = hashlib.sha256(b"seed").hexdigest()
    with open_writer(root) as writer:
        source = Source(name, "seed.json", "guidellm", 0)
        writer.add(source, (cell(name, i, next(iter(facts())), REQUESTS) for i in range(CELLS)))
        writer.commit()


def judged(root: Path, committed: int, seen: list[Seen]) -> Iterator[Result]:
    """Errors, torn reads, and commits that were acknowledged and are not there."""
    reads, errors, torn = (sum(getattr(s, n) for s in seen) for n in ("reads", "errors", "torn"))
    with Reader(root) as reader:
        there = set(queries.sources(reader).column("source_id").to_pylist())
    lost = len({identity(n) for n in range(committed)} - there)
    yield Result("reader errors", "0", f"{errors} in {reads:,} reads", reads > 0 and errors == 0)
    yield Result("torn reads", "0", f"{torn} in {reads:,} reads", reads > 0 and torn == 0)
    yield Result("lost commits", "0", f"{lost} of {committed:,}", lost == 0)
