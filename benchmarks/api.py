"""Programs that ask the API: alone, client and server on a core each, and beside fifty sessions.

What is asked is the decision on the examples, each time under another of 200 filters and told whole: no
``If-None-Match`` is sent, and the server keeps answers as values, never as bytes. Warm: somebody has
asked the same before.
"""

import asyncio
import contextlib
import itertools
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks import browser, visitors
from benchmarks.result import Result, progress
from tests.dashboard.doors import flood, guarded, visiting

FILTERS, LIMIT_MS = 200, 50.0
RATE, BESIDE_RATE, LONG_S = 100, 20, 60.0
#: As many lines as one client may use at once (``dashboard.doors.quotas.Limits.calls``), less some.
LINES = 12
FLOOD, FLOOD_MB = 100, 50
#: What the examples hold; each filter is a choice of some of each.
CHOICES = {
    "model": ("lab-target", "lab-target-costly"),
    "dataset": ("code", "prose", "structured"),
    "arm": ("baseline", *(f"draft_model K={k}" for k in range(1, 6)), "ngram K=3"),
}
DECIDE, HEALTH = "/api/v1/decide", "/api/v1/health"
Query = tuple[tuple[str, str], ...]


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """One after the other on one server, then a flood on another one that has a login."""
    root = folder / "examples"
    if not root.exists():
        words = ["ingest", "examples", "--warehouse", str(root)]
        command = [sys.executable, "-m", "draftboard", *words]
        subprocess.run(command, check=True, cwd=browser.ROOT, capture_output=True)
    with apart(root) as server:
        asked = filters()[: 20 if quick else FILTERS]
        yield from _one_after_the_other(server, asked)
        yield from _minute(server, asked, 5 if quick else LONG_S)
        yield from _beside(server, asked, 10 if quick else LONG_S)
    yield _flooded(root, 10 if quick else FLOOD)


def filters() -> list[Query]:
    """So many different choices of filters, in an order that is the same in each run."""
    every = [
        tuple((name, value) for name, some in zip(CHOICES, chosen, strict=True) for value in some)
        for chosen in itertools.product(*map(_some, CHOICES.values()))
    ]
    random.Random(1).shuffle(every)
    return every[:FILTERS]


def _some(values: tuple[str, ...]) -> list[tuple[str, ...]]:
    sizes = range(len(values) + 1)
    return [chosen for size in sizes for chosen in itertools.combinations(values, size)]


@contextlib.contextmanager
def apart(root: Path) -> Iterator[browser.Server]:
    """A dashboard on the last core, and whoever asks it on the first; the same one where there is
    but one."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        with browser.serving(browser.ROOT / "dashboard" / "app.py", root) as server:
            os.sched_setaffinity(0, {min(cores)})
            yield server
    finally:
        os.sched_setaffinity(0, cores)


def _one_after_the_other(server: browser.Server, asked: list[Query]) -> Iterator[Result]:
    progress(f"decide over {len(asked)} filters, one after the other")
    with httpx.Client(base_url=server.address, timeout=60) as client:
        _answer(client, DECIDE, ())
        first = [_answer(client, DECIDE, query) for query in asked]
        again = [_answer(client, DECIDE, query) for query in asked]
        health = statistics.median(_answer(client, HEALTH, ()) for _ in asked)
    late = late_ms(again)
    yield Result(
        f"decide over {len(asked)} filters, warm, p95", f"<= {LIMIT_MS:.0f} ms",
        f"{_beside_health(again, health)}", late <= LIMIT_MS,
    )  # fmt: skip
    yield Result("the same, asked for the first time", "-", _beside_health(first, health), None)


def _answer(client: httpx.Client, path: str, query: Query) -> float:
    """Ask and read; returns seconds. Raises where the answer is none."""
    begin = time.perf_counter()
    answer = client.get(path, params=query)
    took = time.perf_counter() - begin
    answer.raise_for_status()
    return took


def late_ms(seconds: list[float]) -> float:
    """The 95th percentile, ms; of nothing it is infinite."""
    return 1000 * statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else math.inf


def _beside_health(seconds: list[float], health: float) -> str:
    late, half = late_ms(seconds), 1000 * statistics.median(seconds)
    told = f"{late:.1f} ms (median {half:.1f} ms, {half / 1000 / health:.1f} x a question about "
    return f"{told}health, {1000 * health:.1f} ms)"


@dataclass
class Load:
    """What a load met: seconds from when each question was due to its answer, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    took: float = 0.0

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.seconds) / self.took

    @property
    def told(self) -> str:
        """Rate, errors, and how late."""
        errors = f"{len(self.errors)} errors" + (f": {self.errors[0]}" if self.errors else "")
        return f"{self.rate:.1f}/s, {errors}, p95 {late_ms(self.seconds):.0f} ms"

    def reaches(self, rate: float) -> bool:
        """Whether it was answered as fast as it was asked, and without an error."""
        return not self.errors and self.rate >= 0.98 * rate


async def loaded(address: str, asked: list[Query], rate: float, seconds: float) -> Load:
    """Questions in even steps, whatever becomes of those before."""
    load, due = Load(), time.perf_counter()
    lines = asyncio.Semaphore(LINES)
    begin = due
    async with httpx.AsyncClient(base_url=address, timeout=60) as client, asyncio.TaskGroup() as on:
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            await asyncio.sleep(due - time.perf_counter())
            on.create_task(_ask(client, lines, asked[number % len(asked)], (due, load)))
    load.took = time.perf_counter() - begin
    return load


async def _ask(
    client: httpx.AsyncClient, lines: asyncio.Semaphore, query: Query, of: tuple[float, Load]
) -> None:
    due, load = of
    async with lines:
        try:
            (await client.get(DECIDE, params=query)).raise_for_status()
        except httpx.HTTPError as error:
            load.errors.append(f"{error!r:.100}")
        else:
            load.seconds.append(time.perf_counter() - due)


def _minute(server: browser.Server, asked: list[Query], seconds: float) -> Iterator[Result]:
    progress(f"{RATE} questions a second for {seconds:.0f} s")
    before = _processor(server)
    load = asyncio.run(loaded(server.address, asked, RATE, seconds))
    busy = (_processor(server) - before) / load.took
    yield Result(
        f"{RATE} questions a second for {seconds:.0f} s", f">= {RATE}/s, 0 errors",
        f"{load.told}; the server's core {busy:.0%} busy", load.reaches(RATE),
    )  # fmt: skip


def _processor(server: browser.Server) -> float:
    used = server.process.cpu_times()
    return float(used.user + used.system)


def _beside(server: browser.Server, asked: list[Query], seconds: float) -> Iterator[Result]:
    """The API's load and clicking sessions on one server at once."""
    progress(f"{BESIDE_RATE} questions a second beside {visitors.VISITORS} sessions")
    load, seen = asyncio.run(_both(server.address, asked, seconds))
    yield Result(
        f"{BESIDE_RATE} questions a second beside {visitors.VISITORS} sessions",
        f">= {BESIDE_RATE}/s, 0 errors", load.told, load.reaches(BESIDE_RATE),
    )  # fmt: skip
    late = late_ms(seen.clicks) / 1000
    errors = f"{len(seen.errors)} errors" + (f": {seen.errors[0]}" if seen.errors else "")
    yield Result(
        "click of these sessions, p95", f"<= {visitors.MOST_S:.0f} s, 0 errors",
        f"{late:.1f} s ({len(seen.clicks)} clicks, {errors})",
        late <= visitors.MOST_S and not seen.errors,
    )  # fmt: skip


async def _both(address: str, asked: list[Query], seconds: float) -> tuple[Load, visitors.Seen]:
    pages, values = visitors.paths(), CHOICES["dataset"]
    await visitors.visits(address, pages, 0, len(pages), values)
    clicking = visitors.visits(address, pages, seconds, values=values)
    load, seen = await asyncio.gather(
        loaded(address, asked, BESIDE_RATE, seconds), clicking
    )  # fmt: skip
    return load, seen


def _flooded(root: Path, times: int) -> Result:
    """Resident memory of a server with a login, before and after nobody has sent it much."""
    progress(f"a flood of {times} uploads and sessions by nobody")
    with (
        tempfile.TemporaryDirectory() as place,
        guarded(Path(place), root) as (address, pid),
        visiting(address, None) as client,
    ):
        server: Any = psutil.Process(pid)
        flood(client, 2)
        before = server.memory_info().rss
        flood(client, times)
        after = server.memory_info().rss
    more = (after - before) / 1e6
    return Result(
        f"memory after {times} uploads of 4 MB and sessions by nobody",
        f"within {FLOOD_MB} MB of before",
        f"{more:+.1f} MB ({after / 1e6:.0f} MB, {before / 1e6:.0f} before)", more <= FLOOD_MB,
    )  # fmt: skip
