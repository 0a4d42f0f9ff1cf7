"""How a command that runs for long ends when it is asked to."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click


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
