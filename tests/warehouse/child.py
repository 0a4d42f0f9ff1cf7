"""A process of its own that writes, reads or holds a warehouse; the tests start and kill it."""

import json
import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warehouse import queries
from warehouse.filters import Filters
from warehouse.maintenance import collect_garbage
from warehouse.rows import Rejection
from warehouse.storage.cache import warehouse_path
from warehouse.storage.current import current_generation
from warehouse.store import Reader, open_writer

MADE = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))
CELLS = 2
#: Reads from which a test may conclude something.
ENOUGH = 5


def ingest(root: Path, count: int, named: str = "source") -> None:
    """Add ``count`` sources of two cells, each committed alone, and one rejection."""
    with open_writer(root) as writer:
        for number in range(count):
            source = MADE["_source"](f"{named} {number}")
            writer.add(source, (MADE["_cell"](source, i) for i in range(CELLS)))
            if number == count // 2:
                writer.reject(Rejection(f"broken {named}.json", "cut off"))
            writer.commit()


def read(root: Path, seconds: float) -> dict[str, Any]:
    """Read the newest generation again and again; what was read, and every contradiction.

    For so many seconds, and on a busy machine until there is something to judge by.
    """
    until, reads, newest, wrong = time.monotonic() + seconds, 0, 0, list[str]()
    with Reader(root) as reader:
        while time.monotonic() < until or reads <= ENOUGH or newest <= 1:
            reader.refresh()
            wrong += disagreements(reader)
            if reader.generation < newest:
                wrong.append(f"generation {reader.generation} after {newest}")
            newest, reads = reader.generation, reads + 1
    return {"reads": reads, "newest": newest, "wrong": wrong}


def disagreements(reader: Reader) -> Iterator[str]:
    """Where the tables of one generation do not agree about how much there is."""
    cells = queries.cells(reader, Filters())
    found = {
        "cells": cells.num_rows,
        "sources": CELLS * queries.sources(reader).num_rows,
        "measurements": queries.measurements(
            reader, Filters(), ["output_throughput"], ["mean"]
        ).num_rows,
        "of sources": sum(queries.sources(reader).column("cells").to_pylist()),
        "requests": sum(queries.sources(reader).column("requests").to_pylist()) // 20,
    }
    if len(set(found.values())) != 1:
        yield f"generation {reader.generation}: {found}"
    last = cells.column("cell_id")[-1].as_py()
    if queries.requests(reader, last, ["index"]).num_rows != 20:
        yield f"generation {reader.generation}: {last} has not all its requests"


def hold(root: Path) -> None:
    """Be the writer until the input ends."""
    with open_writer(root):
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        sys.stdin.readline()


def collect(root: Path) -> None:
    """Remove what nothing lists, without grace."""
    with open_writer(root):
        collect_garbage(root, current_generation(root) or 0, grace=0)


def main() -> None:
    """``child.py ingest ROOT COUNT``, ``read ROOT SECONDS``, ``collect ROOT`` or ``hold ROOT``."""
    what, root, *rest = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if what == "ingest":
        ingest(warehouse_path(root), int(rest[0]), *rest[1:])
    elif what == "collect":
        collect(warehouse_path(root))
    elif what == "read":
        sys.stdout.write(json.dumps(read(Path(root), float(rest[0]))))
    else:
        hold(Path(root))


if __name__ == "__main__":
    main()
