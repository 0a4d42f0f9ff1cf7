"""A word on the terminal about a step that takes longer than a second."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from commands.progress import shown_late


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say ``what`` is being done, with the time so far, on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with _spinner(what):
        yield


@contextmanager
def _spinner(what: str) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    shown.add_task(what, total=None)
    with shown_late(shown):
        yield
