"""One progress bar for people, shown only when a command takes longer than a second."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_DELAY = 1.0


@contextmanager
def progress(what: str, total: int, as_bytes: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much was done since its last call; it draws on stderr where
    that is a terminal.

    ``total``, in bytes or in steps, is what all of it will add up to.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with _bar(what, total, as_bytes) as advance:
        yield advance


@contextmanager
def _bar(what: str, total: int, as_bytes: bool) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )  # fmt: skip

    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
        DownloadColumn() if as_bytes else MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task(what, total=total)
    with shown_late(bar):
        yield lambda done: bar.advance(task, done)


@contextmanager
def shown_late(shown: "Progress") -> Iterator[None]:
    """Draw ``shown`` once the block has taken a second, until it ends."""
    delayed = threading.Timer(_DELAY, shown.start)
    delayed.daemon = True
    delayed.start()
    try:
        yield
    finally:
        delayed.cancel()
        delayed.join()
        shown.stop()
