"""One line of the table: what was to be reached, what was measured."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class Result:
    """A measured number beside its target; ``reached`` is None where there is no target."""

    subject: str
    target: str
    measured: str
    reached: bool | None


def progress(sentence: str) -> None:
    """A line on stderr, so that long work is seen to go on."""
    click.echo(f"  {time.strftime('%H:%M:%S')} {sentence}", err=True)


def median_seconds(call: Callable[[], Any], times: int) -> float:
    """Median wall time of ``call`` over ``times`` runs, after one that does not count."""
    call()
    return statistics.median(seconds(call) for _ in range(times))


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call, s."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
