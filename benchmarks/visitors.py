"""Fifty visitors who click every ten seconds beside a writer: how long they wait, errors, memory.

A visitor speaks Streamlit's own protocol over a websocket, as a browser does: it opens a page, then
adds or takes away a value of a filter. A wait ends when the server says that the script has ended; what
a browser draws afterwards is in ``pages``.
"""

import asyncio
import hashlib
import math
import multiprocessing
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks import browser
from benchmarks.large import QUICK, Size, cell, facts, large_warehouse
from benchmarks.result import Result, progress
from warehouse.rows import Source
from warehouse.store import open_writer

VISITORS, EVERY_S, LONG_S = 50, 10.0, 180.0
#: A commit of one small report so often.
WRITES_EVERY_S = 10.0
#: What is added and taken away; both are values of the large warehouse.
LABEL, VALUES = "Dataset", ("humaneval", "math", "chat")
MOST_S, LEFT = 3.0, 0.10
#: Streamlit keeps a session for two minutes, should its visitor come back.
FORGOTTEN_S = 150


@dataclass
class Seen:
    """What all visitors met: seconds of each wait, and what went wrong."""

    first: list[float] = field(default_factory=list)
    clicks: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Visitor:
    """One session: a page, and the one filter that it changes."""

    def __init__(self, socket: Any, page: str) -> None:
        self.socket, self.page = socket, page
        self.widget = self.script = ""

    async def open(self) -> float:
        """Ask for the page; returns the seconds until it was there."""
        return await self._asked(())

    async def click(self, values: tuple[str, ...]) -> float:
        """Choose ``values`` in the filter; returns the seconds until the page was there."""
        return await self._asked(values)

    async def _asked(self, values: tuple[str, ...]) -> float:
        from streamlit.proto.BackMsg_pb2 import BackMsg

        asked = BackMsg()
        asked.rerun_script.page_script_hash = self.script
        asked.rerun_script.page_name = self.page
        if self.widget:
            state = asked.rerun_script.widget_states.widgets.add()
            state.id = self.widget
            state.string_array_value.data.extend(values)
        begin = time.perf_counter()
        await self.socket.send(asked.SerializeToString())
        while not self._ended(await self.socket.recv()):
            pass
        return time.perf_counter() - begin

    def _ended(self, received: bytes) -> bool:
        """Whether a message says that the script has ended; the others tell what can be clicked."""
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        message = ForwardMsg.FromString(received)
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.script = message.new_session.page_script_hash
        if kind == "delta":
            element = message.delta.new_element
            if element.WhichOneof("type") == "exception":
                raise RuntimeError(element.exception.message)
            if element.WhichOneof("type") == "multiselect" and element.multiselect.label == LABEL:
                self.widget = element.multiselect.id
        early = ForwardMsg.FINISHED_EARLY_FOR_RERUN
        return kind == "script_finished" and message.script_finished != early


@dataclass(frozen=True)
class Visited:
    """Where visitors go, until when (monotonic s), and the values that they add and take away."""

    address: str
    until: float
    values: tuple[str, ...] = VALUES


async def visit(place: Visited, page: str, number: int, seen: Seen) -> None:
    """One visitor from the first page to the last click; what fails is counted, and ends the visit."""
    from websockets.asyncio.client import connect

    chance = random.Random(number)
    await asyncio.sleep(EVERY_S * number / VISITORS)
    try:
        url = f"{place.address.replace('http', 'ws', 1)}/_stcore/stream"
        async with connect(url, subprotocols=["streamlit"], max_size=None) as socket:  # type: ignore[list-item]
            visitor = Visitor(socket, page)
            seen.first.append(await visitor.open())
            while time.monotonic() < place.until:
                await asyncio.sleep(chance.uniform(0.5, 1.5) * EVERY_S)
                chosen = (chance.choice(place.values),) if chance.random() < 0.7 else ()
                seen.clicks.append(await visitor.click(chosen))
    except Exception as error:  # noqa: BLE001  # Whatever it is, a visitor met an error.
        seen.errors.append(f"{page or 'first page'}: {error!r:.200}")


async def visits(
    address: str, pages: list[str], seconds: float, visitors: int = VISITORS,
    values: tuple[str, ...] = VALUES,
) -> Seen:  # fmt: skip
    """All visitors at once, by turns on every page."""
    seen, place = Seen(), Visited(address, time.monotonic() + seconds, values)
    each = (visit(place, pages[n % len(pages)], n, seen) for n in range(visitors))
    await asyncio.gather(*each)
    return seen


def write(root: Path, done: Event) -> None:
    """Commit a small report now and then, until told to stop."""
    said = next(iter(facts()))
    number = 0
    while not done.wait(WRITES_EVERY_S):
        name = hashlib.sha256(f"visited:{time.time_ns()}".encode()).hexdigest()
        with open_writer(root) as writer:
            source = Source(name, f"{number}.json", "guidellm", 0)
            writer.add(source, iter([cell(name, 0, said, 20)]))
            writer.commit()
        number += 1


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Three minutes of it, on a copy of the large warehouse."""
    whole = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    root = folder / "visited"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(whole, root)
    progress(f"{VISITORS} visitors, a click each every {EVERY_S:.0f} s, beside a writer")
    done = multiprocessing.get_context("spawn").Event()
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(root, done))
    with browser.serving(browser.ROOT / "dashboard" / "app.py", root) as dashboard:
        # A server that has shown each page has imported all that pages need.
        asyncio.run(visits(dashboard.address, paths(), 0, visitors=len(paths())))
        before = dashboard.megabytes
        writer.start()
        seen = asyncio.run(visits(dashboard.address, paths(), 20 if quick else LONG_S))
        during = dashboard.megabytes
        done.set()
        writer.join()
        after = _settled(dashboard, 3 if quick else FORGOTTEN_S)
    yield from judged(seen, (before, during, after))
    shutil.rmtree(root)


def paths() -> list[str]:
    """The page that stands at the address itself, and the addresses of the others."""
    from dashboard.views import VIEWS

    return ["", *(view.URL_PATH for view in VIEWS[1:])]


def _settled(dashboard: browser.Server, seconds: int) -> float:
    """Return the memory once sessions without a visitor are forgotten: the least of a while, MB."""
    least = math.inf
    for _ in range(seconds):
        time.sleep(1)
        least = min(least, dashboard.megabytes)
    return least


def judged(seen: Seen, memory: tuple[float, float, float]) -> Iterator[Result]:
    """Waits, errors, memory before, with and after the visitors."""
    before, during, after = memory
    late = statistics.quantiles(seen.clicks, n=20)[-1] if len(seen.clicks) > 1 else math.inf
    half = statistics.median(seen.clicks or [math.inf])
    opened = statistics.median(seen.first or [math.inf])
    yield Result(
        f"click of {VISITORS} visitors beside a writer, p95", f"<= {MOST_S:.0f} s",
        f"{late:.1f} s (median {half:.1f} s, {len(seen.clicks)} clicks; first page {opened:.1f} s)",
        late <= MOST_S,
    )  # fmt: skip
    told = f"{len(seen.errors)}" + (f": {seen.errors[0]}" if seen.errors else "")
    yield Result("errors they met", "0", told, not seen.errors)
    yield Result(
        "memory after they left", f"within {LEFT:.0%} of before",
        f"{after:.0f} MB ({before:.0f} before, {during:.0f} with them)",
        after <= (1 + LEFT) * before,
    )  # fmt: skip
