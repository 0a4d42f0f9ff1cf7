"""A progress bar for people, shown only when an ingest takes longer than a second."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ingest.discovery import Unit

_DELAY = 1.0


@contextmanager
def progress(total_bytes: int) -> Iterator[Callable[[Unit], None]]:
    """A function to call after each unit; draws on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda unit: None
        return
    with _bar(total_bytes) as advance:
        yield advance


@contextmanager
def _bar(total_bytes: int) -> Iterator[Callable[[Unit], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(), BarColumn(), DownloadColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task("ingest", total=total_bytes)
    delayed = threading.Timer(_DELAY, bar.start)
    delayed.daemon = True
    delayed.start()
    try:
        yield lambda unit: bar.advance(task, unit.bytes)
    finally:
        delayed.cancel()
        delayed.join()
        bar.stop()
