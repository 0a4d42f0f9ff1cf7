"""How a command that runs for long ends when it is asked to."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

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


@contextmanager
def ended_by_signals(said: str) -> Iterator[None]:
    """Turn Ctrl-C and a scheduler's SIGTERM into KeyboardInterrupt inside; then print ``said`` and
    exit.

    The exit status is 128 + the signal's number, as a shell tells it.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt as error:
        number = error.args[0] if error.args else signal.SIGINT
        click.echo(said, err=True)
        raise SystemExit(128 + int(number)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
