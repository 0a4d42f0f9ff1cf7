"""Ingest as a whole command, against json.load of the same file; memory beyond mapped pages."""

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
LOAD = "import json, sys; json.load(open(sys.argv[1]))"


def anonymous(pid: int) -> int:
    """Memory of a process beyond mapped file pages, bytes; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(1024 * int(n) for n in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status))


def watched(child: subprocess.Popen[str], with_itself: bool = True) -> Iterator[int]:
    """Memory of a running process and of each that it started, every five milliseconds."""
    while child.poll() is None:
        if with_itself:
            yield anonymous(child.pid)
        yield from map(anonymous, descendants(child.pid))
        time.sleep(0.005)


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


def ingest(place: Path, folder: Path) -> Run:
    """``draftboard ingest`` into an empty warehouse."""
    root = folder / "ingested"
    shutil.rmtree(root, ignore_errors=True)
    return command("-m", "draftboard", "ingest", str(place), "--warehouse", str(root))


def against_json(folder: Path, megabytes: int, most: float, repeats: int) -> Iterator[Result]:
    """The whole command against ``json.load`` of the same file in a process of its own, by turns."""
    report = synthesised(folder, megabytes)
    rounds = [(ingest(report, folder), command("-c", LOAD, str(report))) for _ in range(repeats)]
    ours, theirs = (statistics.median(x.seconds for x in xs) for xs in zip(*rounds, strict=True))
    told = f"{theirs / ours:.2f} x ({ours:.2f} s against {theirs:.2f} s)"
    name = f"ingest of a report of {megabytes} MB"
    yield Result(name, f">= {most:g} x json.load", told, theirs >= most * ours)
    memory = max(x.memory for x, _ in rounds) / MEGABYTE
    yield Result(
        f"{name}, memory of a reading process", "<= 150 MB", f"{memory:.0f} MB", memory <= 150
    )
    report.unlink()


def large(folder: Path, megabytes: int) -> Iterator[Result]:
    """The memory of one very large ingest."""
    report = synthesised(folder, megabytes)
    once = ingest(report, folder)
    memory = once.memory / MEGABYTE
    measured = f"{memory:.0f} MB ({once.seconds:.2f} s)"
    yield Result(f"ingest of a report of {megabytes} MB, memory of a reading process", "<= 400 MB",
                 measured, memory <= 400)  # fmt: skip
    report.unlink()


def many(folder: Path, count: int) -> Iterator[Result]:
    """Many small reports, then the same again."""
    progress(f"writing {count:,} small reports")
    place = folder / "small-reports"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write_report(place / "0.json", 60_000, levels=1)
    text = (place / "0.json").read_text(encoding="utf-8")
    for number in range(1, count):
        other = text.replace('"level-0"', f'"level-0-{number}"')
        (place / f"{number}.json").write_text(other, encoding="utf-8")
    first = ingest(place, folder)
    root = str(folder / "ingested")
    again = command("-m", "draftboard", "ingest", str(place), "--warehouse", root)
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
    for megabytes, most in ((60, 1.0),) if quick else ((150, 2.0), (300, 3.5)):
        yield from against_json(folder, megabytes, most, 1 if quick else 5)
    yield from many(folder, 100 if quick else 2000)
    if not quick:
        yield from large(folder, 1500)
    shutil.rmtree(folder / "ingested", ignore_errors=True)
