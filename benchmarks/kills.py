"""SIGKILLs at random moments of an ingest; afterwards the warehouse must equal a clean one."""

import hashlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from benchmarks.result import Result, progress
from benchmarks.synth import write_report
from warehouse.storage.draft import BATCHES
from warehouse.store import Reader, open_newest

REPORTS, REPORT_BYTES, KILLS_EACH = 12, 700_000, 10
#: Columns that tell when, not what; and the number by which rows are joined, which depends on order.
PASSING = ("ingested_at", "rejected_at")


def start(reports: Path, root: Path) -> subprocess.Popen[str]:
    """An ingest in a process of its own, returned when its imports are done."""
    command = [sys.executable, "-m", "benchmarks.child", str(reports), str(root)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def clean(reports: Path, root: Path) -> float:
    """Let one ingest end; returns the seconds it took after its imports. Raises if it failed."""
    child = start(reports, root)
    begin = time.perf_counter()
    child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"An ingest into {root} that nobody killed failed.")
    return time.perf_counter() - begin


def killed(reports: Path, root: Path, after: float) -> bool:
    """Start an ingest and kill it; False if it was faster."""
    child = start(reports, root)
    time.sleep(after)
    child.kill()
    child.communicate()
    return child.returncode == -9


def fingerprint(root: Path) -> dict[str, str]:
    """A hash of the content of every table and of all requests, independent of the order of rows."""
    with Reader(root) as reader:
        listed = reader.query("listed_files").column("file").to_pylist()
    with open_newest(root) as opened:
        connection = opened.connection
        connection.execute("use store")
        content = {name: digest(rows(connection, name)) for name in (*BATCHES, "rejections")}
    content["requests"] = digest(requests(root, listed))
    return content


def rows(connection: duckdb.DuckDBPyConnection, table: str) -> list[Any]:
    """The rows of a table; the short number of a cell is replaced by its identity."""
    columns = [row[0] for row in connection.execute(f"describe {table}").fetchall()]
    kept = ", ".join(f't."{c}"' for c in columns if c not in (*PASSING, "cell"))
    if "cell" in columns and table != "cells":
        kept, joined = f"cells.cell_id, {kept}", "join cells using (cell)"
    else:
        joined = ""
    # The names come from the database itself.
    table_rows = connection.sql(f"select {kept} from {table} t {joined}").to_arrow_table()
    return [tuple(row.values()) for row in table_rows.to_pylist()]


def requests(root: Path, files: list[str]) -> list[Any]:
    """Every row of the listed request files."""
    tables = (pq.read_table(root / "requests" / file) for file in files)
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def digest(found: list[Any]) -> str:
    """sha256 over sorted rows."""
    return hashlib.sha256("\n".join(sorted(map(repr, found))).encode()).hexdigest()


def differences(root: Path, expected: dict[str, str]) -> list[str]:
    """The tables in which a warehouse differs from a clean one."""
    found = fingerprint(root)
    return sorted(name for name in expected.keys() | found if expected.get(name) != found.get(name))


def trial(reports: Path, root: Path, longest: float, kills: int) -> int:
    """A fresh warehouse, ``kills`` kills (fewer if the ingest wins), then one ingest that ends."""
    shutil.rmtree(root, ignore_errors=True)
    done = 0
    while done < kills and killed(reports, root, random.uniform(0, longest)):
        done += 1
    clean(reports, root)
    return done


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Two hundred of them."""
    wanted = 20 if quick else 200
    reports, root = folder / "kill-reports", folder / "kill-warehouse"
    reports.mkdir(exist_ok=True)
    for number in range(REPORTS):
        # A request or two more in each: reports of one content would be one source, under any name.
        write_report(reports / f"{number}.json", REPORT_BYTES + number * 15_000, levels=2)
    shutil.rmtree(root, ignore_errors=True)
    longest = clean(reports, root)
    expected, done, wrong = fingerprint(root), 0, set[str]()
    while done < wanted:
        done += trial(reports, root, longest, min(KILLS_EACH, wanted - done))
        wrong.update(differences(root, expected))
        progress(f"{done} of {wanted} kills, differing tables so far: {sorted(wrong) or 'none'}")
    same = f"{done} kills, differing: {', '.join(sorted(wrong)) or 'nothing'}"
    yield Result("state after SIGKILLs", "equals a clean ingest", same, not wrong)
    for left in (reports, root):
        shutil.rmtree(left)
