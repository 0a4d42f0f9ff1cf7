"""Ingest of a large report against json.load and sha256 over the same file; memory beyond mapped pages."""

import re
import resource
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


def watched(child: subprocess.Popen[str], with_itself: bool = True) -> Iterator[int]:
    """Memory of a running process and of each that it started, every five milliseconds."""
    while child.poll() is None:
        if with_itself:
            yield anonymous(child.pid)
        yield from map(anonymous, descendants(child.pid))
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


@dataclass(frozen=True)
class Run:
    """What a whole command took: seconds, processor seconds of all its processes, and the most
    memory that one of them held beyond mapped files, bytes."""

    seconds: float
    processor: float
    memory: int


def command(*words: str) -> Run:
    """Run a command from its start to its end, imports and all."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as child:
        peak = max(watched(child, with_itself=False), default=0)
    if child.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(time.perf_counter() - start, used, peak)


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that these have."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in map(int, children):
        yield child
        yield from descendants(child)


def isolated(place: Path, folder: Path, *more: str) -> Run:
    """``draftboard ingest`` into an empty warehouse."""
    root = folder / "isolated"
    shutil.rmtree(root, ignore_errors=True)
    return command("-m", "draftboard", "ingest", str(place), "--warehouse", str(root), *more)


def not_isolated(place: Path, folder: Path) -> Run:
    """The same, reading in the process of the command itself."""
    root = folder / "not-isolated"
    shutil.rmtree(root, ignore_errors=True)
    return command("-m", "benchmarks.child", "inside", str(place), str(root))


def isolation(folder: Path, name: str, place: Path, repeats: int) -> Iterator[Result]:
    """What processes of their own cost, by turns with reading inside."""
    progress(f"isolation, {name}")
    least = 0.03 if place.is_file() else 0.10
    rounds = [
        (not_isolated(place, folder), isolated(place, folder, "--workers", "1"),
         isolated(place, folder))
        for _ in range(repeats)
    ]  # fmt: skip
    inside, one, some = (
        statistics.median(x.seconds for x in xs) for xs in zip(*rounds, strict=True)
    )
    used = [statistics.median(x.processor for x in xs) for xs in zip(*rounds, strict=True)]
    yield Result(
        f"{name}: reading in one other process / in the same", f"<= {1 + least:.2f}",
        f"{one / inside:.3f} ({one:.2f} s against {inside:.2f} s; processor {used[1] / used[0]:.2f})",
        one / inside <= 1 + least,
    )  # fmt: skip
    yield Result(
        f"{name}: as it is used, one process for each core", "-",
        f"{some / inside:.3f} ({some:.2f} s; processor {used[2] / used[0]:.2f})", None,
    )  # fmt: skip
    memory = max(x.memory for _, *xs in rounds for x in xs) / MEGABYTE
    yield Result(f"{name}: memory of a reading process", "<= 200 MB", f"{memory:.0f} MB",
                 memory <= 200)  # fmt: skip


def many(folder: Path, count: int) -> Iterator[Result]:
    """Many small reports, then the same again; and what isolation costs with them."""
    progress(f"writing {count:,} small reports")
    place = folder / "small-reports"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write_report(place / "0.json", 60_000, levels=1)
    text = (place / "0.json").read_text(encoding="utf-8")
    for number in range(1, count):
        other = text.replace('"level-0"', f'"level-0-{number}"')
        (place / f"{number}.json").write_text(other, encoding="utf-8")
    yield from isolation(folder, f"{count:,} small reports", place, 1)
    root = str(folder / "isolated")
    again = command("-m", "draftboard", "ingest", str(place), "--warehouse", root)
    first = isolated(place, folder)
    yield Result(
        f"{count:,} small reports", "<= 40 s", f"{first.seconds:.1f} s", first.seconds <= 40
    )
    yield Result("the same again", "<= 3 s", f"{again.seconds:.1f} s", again.seconds <= 3)
    shutil.rmtree(place)


def synthesised(folder: Path, megabytes: int) -> Path:
    """A report of that size."""
    progress(f"writing a report of {megabytes} MB")
    report = folder / f"report-{megabytes}.json"
    write_report(report, megabytes * MEGABYTE)
    return report


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Everything about ingest."""
    yield from ratios(folder, 60 if quick else 300, 1 if quick else 3)
    report = synthesised(folder, 60 if quick else 300)
    yield from isolation(
        folder, f"one report of {60 if quick else 300} MB", report, 1 if quick else 5
    )
    report.unlink()
    yield from many(folder, 100 if quick else 2000)
    if not quick:
        yield from large(folder, 1500)
    for name in ("ingest-warehouse", "isolated", "not-isolated"):
        shutil.rmtree(folder / name, ignore_errors=True)
