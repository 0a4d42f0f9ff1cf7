"""A warehouse in a bucket that is 50 ms away, beside the same on this machine's disk.

The bucket is SeaweedFS on this machine behind a front that delays each request. Each machine has a home
of its own and reaches the bucket by a front of its own, so what it fetches is counted apart.
"""

import hashlib
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import browser, seaweed
from benchmarks.large import QUICK, Size, cell, facts, large_warehouse
from benchmarks.pages import CHOSEN, full_page, rerun
from benchmarks.result import Result, progress
from benchmarks.seaweed import BUCKET, DELAY_S, Machine, far_away, started
from warehouse import queries
from warehouse.rows import Source
from warehouse.storage.cache import warehouse_path
from warehouse.store import Reader, open_writer

LARGE, RACE = f"s3://{BUCKET}/large", f"s3://{BUCKET}/race"
WRITERS, INGESTS = 4, 50
#: Every so manieth report of a writer is the same as the others' of this number.
SHARED = 10
MOST_MB, SEEN_S = 3, 10.0
COLD, WARM, COLD_REQUESTS = 3.0, 1.2, 20
RETRY_S = 5.0
#: Of a writer among others that never pause.
LONGEST_S = 10.0
CONTEXT = multiprocessing.get_context("spawn")


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """A reader far from its bucket, then writers that race for it."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    place = folder / "bucket"
    shutil.rmtree(place, ignore_errors=True)
    with seaweed.seaweed(place / "store") as port:
        _push(root, Machine(place / "near", f"http://127.0.0.1:{port}"))
        with far_away(port) as front:
            reader = Machine(place / "reader", front.url)
            yield from _pages(root, reader, front)
            yield from _new_report(
                reader, front, Machine(place / "near", f"http://127.0.0.1:{port}")
            )
        with far_away(port) as front:
            yield from _race(place, front, 3 if quick else INGESTS)
    shutil.rmtree(place)


def _push(root: Path, near: Machine) -> None:
    """Bring the warehouse into the bucket by the short way: that is not what is measured."""
    progress("the large warehouse goes into the bucket")
    words = ["warehouse", "push", LARGE, "--warehouse", str(root)]
    with near.here():
        subprocess.run(
            [sys.executable, "-m", "draftboard", *words], check=True, cwd=browser.ROOT,
            capture_output=True,
        )  # fmt: skip


def show(warehouse: str, asked: Any) -> None:
    """Render pages as a fresh process does; told a number, answers with the times of that page."""
    begin = time.perf_counter()
    import os

    os.environ["DRAFTBOARD_WAREHOUSE"] = warehouse
    import dashboard.views  # noqa: F401  # A start imports all pages.

    imported = time.perf_counter() - begin
    while (number := asked.recv()) is not None:
        first, again, _ = rerun(full_page, number, CHOSEN)
        asked.send((imported + first, again))


class Showing:
    """A process that shows the pages of one warehouse."""

    def __init__(self, machine: Machine, warehouse: str) -> None:
        self._asked, there = CONTEXT.Pipe()
        self._process = started(CONTEXT, machine, show, warehouse, there)

    def page(self, number: int) -> tuple[float, float]:
        """Seconds of the first run with all imports, and of a later one."""
        self._asked.send(number)
        while not self._asked.poll(1):
            if not self._process.is_alive():
                raise RuntimeError(f"Page {number} could not be shown; what it said stands above.")
        first, again = self._asked.recv()
        return float(first), float(again)

    def end(self) -> None:
        """Let the process end."""
        self._asked.send(None)
        self._process.join()


def _pages(root: Path, reader: Machine, front: Any) -> Iterator[Result]:
    """Each page by turns from disk and from the bucket; the first of all is the start."""
    from dashboard.views import VIEWS

    progress("pages from the disk and from the bucket")
    near = Showing(Machine(reader.home, ""), str(root))
    disk = near.page(0)[0]
    far = Showing(reader, LARGE)
    yield _cold(disk, far.page(0)[0], len(front.requests))
    ratios = {}
    for number, view in enumerate(VIEWS):
        ours, theirs = far.page(number)[1], near.page(number)[1]
        ratios[view.TITLE] = (ours / theirs, ours, theirs)
    near.end()
    far.end()
    yield _warm(ratios)


def _cold(disk: float, cold: float, requests: int) -> Result:
    most = COLD * disk + COLD_REQUESTS * DELAY_S
    told = f"{cold:.2f} s, {cold / disk:.2f} x ({disk:.2f} s from disk), {requests} requests"
    return Result(
        "bucket: start to the first page, nothing here yet",
        f"<= {COLD:g} x local disk + {COLD_REQUESTS} requests' latency = {most:.2f} s", told,
        cold <= most,
    )  # fmt: skip


def _warm(ratios: dict[str, tuple[float, float, float]]) -> Result:
    worst = max(ratios, key=lambda title: ratios[title][0])
    ratio, ours, theirs = ratios[worst]
    middle = statistics.median(one for one, _, _ in ratios.values())
    told = (
        f"{ratio:.2f} x at worst ({worst}: {1000 * ours:.1f} ms against {1000 * theirs:.1f} ms); "
    )
    return Result(
        f"bucket: rerun of {len(ratios)} pages, warm", f"<= {WARM:g} x local disk",
        f"{told}median {middle:.2f} x", ratio <= WARM,
    )  # fmt: skip


def watch(told: Any) -> None:
    """Tell each new generation of the large warehouse when it is seen, until told to end."""
    with Reader(warehouse_path(LARGE)) as reader:
        told.send(reader.generation)
        while not told.poll(0.1):
            before = reader.generation
            reader.refresh()
            if reader.generation != before:
                told.send(reader.generation)


def _new_report(reader: Machine, front: Any, writer: Machine) -> Iterator[Result]:
    """What a reader fetches after one report, and how long after its commit it is seen."""
    progress("one new report")
    told, there = CONTEXT.Pipe()
    process = started(CONTEXT, reader, watch, there)
    told.recv()
    time.sleep(1)
    sent, requests = front.sent, len(front.requests)
    committed = CONTEXT.Queue()
    started(CONTEXT, writer, add, LARGE, "new report", committed)
    done = committed.get(timeout=120)
    if not told.poll(120):
        raise RuntimeError("The reader did not see the new report within two minutes.")
    took = time.time() - done
    megabytes, asked = (front.sent - sent) / 1e6, len(front.requests) - requests
    told.send(None)
    process.join()
    yield Result(
        "bucket: seen after its commit", f"<= {SEEN_S:g} s", f"{took:.1f} s", took <= SEEN_S
    )
    yield Result(
        "bucket: fetched after one new report", f"<= {MOST_MB} MB",
        f"{megabytes:.2f} MB in {asked} requests", megabytes <= MOST_MB,
    )  # fmt: skip


def add(url: str, name: str, committed: Any) -> None:
    """Take one small report in; tell when it was published (s since 1970)."""
    with open_writer(warehouse_path(url)) as writer:
        _take_in(writer, name)
        writer.commit()
        committed.put(time.time())


def _take_in(writer: Any, name: str) -> None:
    identity = _identity(name)
    source = Source(identity, f"{name}.json", "guidellm", 0)
    writer.add(source, iter([cell(identity, 0, next(iter(facts())), 20)]))


def _identity(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


@dataclass
class Raced:
    """What one writer met: seconds of each ingest, and from each lost race to the end of the next
    attempt."""

    ingests: list[float] = field(default_factory=list)
    retries: list[float] = field(default_factory=list)


def reports_of(number: int, count: int) -> list[str]:
    """The names of what a writer takes in; some are the same for all writers."""
    return [
        f"shared {n}" if n % SHARED == 0 else f"writer {number} report {n}" for n in range(count)
    ]


def race(number: int, count: int, done: Any) -> None:
    """Take in report after report, each by a writer that opens the warehouse anew."""
    raced = Raced()
    _note_lost_races(raced)
    for name in reports_of(number, count):
        begin = time.perf_counter()
        with open_writer(warehouse_path(RACE)) as writer:
            _take_in(writer, name)
            writer.commit()
        raced.ingests.append(time.perf_counter() - begin)
    done.put(raced)


def _note_lost_races(raced: Raced) -> None:
    """Stand around every attempt to publish."""
    from warehouse import store as store_write
    from warehouse.errors import LostRace

    publish = store_write.publish_generation
    lost: list[float] = []

    def noted(*arguments: Any) -> Any:
        after = []
        try:
            return publish(*arguments)
        except LostRace:
            after = [time.perf_counter()]
            raise
        finally:
            raced.retries.extend(time.perf_counter() - one for one in lost)
            lost[:] = after

    vars(store_write)["publish_generation"] = noted


def _race(place: Path, front: Any, count: int) -> Iterator[Result]:
    progress(f"{WRITERS} writers with {count} ingests each, at once")
    done, begin = CONTEXT.Queue(), time.perf_counter()
    machines = [Machine(place / f"writer-{n}", front.url) for n in range(WRITERS)]
    processes = [started(CONTEXT, one, race, n, count, done) for n, one in enumerate(machines)]
    raced = [_heard(done, processes) for _ in processes]
    took = time.perf_counter() - begin
    wanted = {_identity(name) for n in range(WRITERS) for name in reports_of(n, count)}
    with Machine(place / "after", front.url).here(), Reader(warehouse_path(RACE)) as reader:
        there = queries.sources(reader).column("source_id").to_pylist()
    yield from judged(raced, took, there, wanted)


def _heard(done: Any, processes: list[Any]) -> Raced:
    """What one of the writers tells. Raises RuntimeError where one has failed."""
    import queue

    while True:
        try:
            found: Raced = done.get(timeout=5)
            return found
        except queue.Empty:
            if any(one.exitcode for one in processes):
                raise RuntimeError("A writer failed; what it said stands above.") from None


def judged(raced: list[Raced], took: float, there: list[str], wanted: set[str]) -> Iterator[Result]:
    """What was lost, what is there twice, and how long a writer that lost its race took."""
    ingests = [seconds for one in raced for seconds in one.ingests]
    lost, twice = len(wanted - {*there}), len(there) - len({*there})
    name = f"bucket: {len(raced)} writers, {len(ingests)} ingests"
    yield Result(f"{name}, lost", "0", f"{lost} of {len(wanted)} ({took:.0f} s)", lost == 0)
    yield Result(f"{name}, twice", "0", f"{twice}", twice == 0)
    retries = [seconds for one in raced for seconds in one.retries]
    told = "no race was lost"
    if retries:
        told = f"{max(retries):.1f} s at most, median {statistics.median(retries):.1f} s, {len(retries)} lost races"
    longest = f"{max(ingests):.1f} s (median {statistics.median(ingests):.1f} s)"
    yield Result(f"{name}, the longest", f"<= {LONGEST_S:g} s", longest, max(ingests) <= LONGEST_S)
    yield Result(
        "bucket: a lost race, tried again", f"<= {RETRY_S:g} s", told,
        bool(retries) and max(retries) <= RETRY_S,
    )  # fmt: skip
