"""A word on the terminal about a step that takes longer than a second."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_DELAY = 1.0


@contextmanager
def working(what: str, delay: float = _DELAY) -> Iterator[None]:
    """Say ``what`` is being done, with the time so far, on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with _spinner(what, delay):
        yield


@contextmanager
def _spinner(what: str, delay: float) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    shown.add_task(what, total=None)
    delayed = threading.Timer(delay, shown.start)
    delayed.daemon = True
    delayed.start()
    try:
        yield
    finally:
        delayed.cancel()
        delayed.join()
        shown.stop()
