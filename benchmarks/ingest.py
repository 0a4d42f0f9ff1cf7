"""Ingest of a large report against json.load and sha256 over the same file; memory beyond mapped pages."""

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.result import Result, progress
from benchmarks.synth import write_report

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Spent:
    """What one process spent: seconds of work, peak anonymous memory in bytes."""

    seconds: float
    memory: int


def anonymous(pid: int) -> int:
    """Memory of a process beyond mapped file pages, bytes; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(1024 * int(n) for n in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status))


def spent(kind: str, *arguments: Path) -> Spent:
    """Run one piece of work of ``benchmarks.child`` in a fresh process, watched from outside."""
    command = [sys.executable, "-m", "benchmarks.child", kind, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        peak = max(watched(child), default=0)
        assert child.stdout is not None
        output = child.stdout.read()
    found = re.search(r"^seconds (\S+)$", output, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"The work {kind!r} did not end well: {output[-300:]}")
    return Spent(float(found[1]), peak)


def watched(child: subprocess.Popen[str]) -> Iterator[int]:
    """Memory of a running process, every five milliseconds."""
    while child.poll() is None:
        yield anonymous(child.pid)
        time.sleep(0.005)


def ingested(report: Path, folder: Path) -> Spent:
    """Ingest into an empty warehouse."""
    warehouse = folder / "ingest-warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    return spent("ingest", report, warehouse)


def ratios(folder: Path, megabytes: int, repeats: int) -> Iterator[Result]:
    """The time of an ingest against json.load's and sha256's, interleaved, and its memory."""
    report = synthesised(folder, megabytes)
    rounds = [
        (ingested(report, folder), spent("json", report), spent("sha256", report))
        for _ in range(repeats)
    ]
    ours, json_load, sha256 = (
        statistics.median(x.seconds for x in xs) for xs in zip(*rounds, strict=True)
    )
    memory = max(ingest.memory for ingest, _, _ in rounds) / MEGABYTE
    name = f"ingest {megabytes} MB"
    times = f"{ours:.2f} s against "
    faster, hashes = json_load / ours, ours / sha256
    yield Result(f"{name}, speed", ">= 4 x json.load", f"{faster:.2f} x ({times}{json_load:.2f} s)",
                 faster >= 4)  # fmt: skip
    yield Result(f"{name}, time", "<= 4 x sha256", f"{hashes:.2f} x ({times}{sha256:.2f} s)",
                 hashes <= 4)  # fmt: skip
    yield Result(f"{name}, memory", "<= 150 MB", f"{memory:.0f} MB", memory <= 150)
    report.unlink()


def large(folder: Path, megabytes: int) -> Iterator[Result]:
    """The memory of one very large ingest."""
    report = synthesised(folder, megabytes)
    once = ingested(report, folder)
    memory = once.memory / MEGABYTE
    measured = f"{memory:.0f} MB ({once.seconds:.2f} s)"
    yield Result(f"ingest {megabytes} MB, memory", "<= 400 MB", measured, memory <= 400)
    report.unlink()


def synthesised(folder: Path, megabytes: int) -> Path:
    """A report of that size."""
    progress(f"writing a report of {megabytes} MB")
    report = folder / f"report-{megabytes}.json"
    write_report(report, megabytes * MEGABYTE)
    return report


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Everything about ingest."""
    yield from ratios(folder, 60 if quick else 300, 1 if quick else 3)
    if not quick:
        yield from large(folder, 1500)
    shutil.rmtree(folder / "ingest-warehouse", ignore_errors=True)
