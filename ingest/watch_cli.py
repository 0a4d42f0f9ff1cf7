"""``draftboard ingest --watch`` and ``--health``: their part of the command line."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ingest.pipeline import Outcome
from warehouse.errors import DraftboardError
from warehouse.json_text import json_text
from warehouse.secrets import scrub_text
from warehouse.store_cache import warehouse_path

if TYPE_CHECKING:
    from ingest.pipeline import Options
    from warehouse.beside import WatchHealth


# --- What a watcher prints: a line when something happened, none when nothing did.


class Lines:
    """The lines that a watcher prints for a log, each with its time; with ``as_json`` one object
    for each batch."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json
        self._trouble: str | None = None

    def say(self, text: str) -> None:
        """Print one line for people; a reader of JSON gets it on stderr."""
        click.echo(f"{_now()}  {scrub_text(text)}", err=self._as_json)

    def batch(self, outcome: Outcome) -> None:
        """Print what one batch did, and why some of it was not taken in."""
        if self._as_json:
            click.echo(json_text({"at": _now(), **outcome.as_json()}))
            return
        counts = (
            (outcome.accepted, "accepted"),
            (outcome.known, "known already"),
            (len(outcome.rejected), "rejected"),
        )
        said = ", ".join(f"{count:,} {name}" for count, name in counts if count)
        if said:
            self.say(f"{said}; generation {outcome.generation}")
        for rejection in outcome.rejected:
            self.say(f"rejected {rejection.path}: {rejection.reason}")

    def trouble(self, text: str | None) -> None:
        """Print why nothing can be taken in just now (None: all is well); the same is said once."""
        if text == self._trouble:
            return
        self._trouble = text
        self.say("goes on" if text is None else text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# --- Ends a long command at a point of its choosing when SIGINT or SIGTERM asks for it.


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A pause is slept in pieces, because Python goes on sleeping after a signal that it handled.
_PIECE_S = 0.2


class Stop:
    """Whether a signal has asked the command to end; once True, ``asked`` stays so."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the first signal that comes in the block; a second one ends the process at once."""
        before = {number: signal.signal(number, self._heard) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``, or soon after a signal."""
        until = time.monotonic() + seconds
        while not self.asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _PIECE_S))

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)


# --- ``draftboard ingest --watch`` and ``--health``: their part of the command line.


_NOT_WITH_WATCH = ("replace", "rebuild")


def require_usage(paths: tuple[Path, ...], given: dict[str, Any]) -> None:
    """End the command with status 2 where the options about watching are used wrongly."""
    if not paths and not given["health"] and (given["watch"] or not given["rebuild"]):
        raise click.UsageError("Missing argument 'PATHS...': name a folder or a report.")
    if not given["watch"]:
        return
    for name in _NOT_WITH_WATCH:
        if given[name]:
            raise click.UsageError(
                f"--{name} is done once, not again and again: give it without --watch."
            )
    for path in paths:
        if path.exists() and not path.is_dir():
            raise click.UsageError(f"{path} is no folder: --watch watches folders.")


def run_watch(paths: tuple[Path, ...], options: "Options", given: dict[str, Any]) -> None:
    """Watch until SIGINT or SIGTERM."""
    # Not above: a container asks for --health twice a minute, which needs none of it.
    from ingest.watch import Asked, watch
    from warehouse.store_cache import name_of

    root, stop, lines = warehouse_path(given["warehouse"]), Stop(), Lines(given["as_json"])
    with stop.listening():
        lines.say(
            f"watching {', '.join(map(str, paths))} for {name_of(root)}, every {given['interval']:g} s; "
            "Ctrl-C ends it"
        )
        watch(Asked(paths, root, options, given["interval"]), stop, lines)
        lines.say("stopped")


def show_health(given: dict[str, Any]) -> int:
    """Print how the watcher of this warehouse is; return the exit status: 0 it works, 1 it does
    not."""
    # Not above: an ingest that watches nothing would wait for it before it starts what reads.
    from warehouse.beside import complaint, read_health

    try:
        health = read_health(warehouse_path(given["warehouse"]))
    except DraftboardError as error:
        click.echo(json_text({"complaint": str(error)}) if given["as_json"] else str(error))
        return 1
    why = complaint(health)
    if given["as_json"]:
        click.echo(json_text({"complaint": why, **health.model_dump(mode="json")}))
    else:
        click.echo("\n".join(_sentences(health, why)))
    return 0 if why is None else 1


def _sentences(health: "WatchHealth", why: str | None) -> list[str]:
    lines = [] if why is None else [why]
    lines.append(
        f"process {health.pid} on {health.host} watches {', '.join(health.folders)} since "
        f"{health.since:%Y-%m-%d %H:%M} UTC"
    )
    if health.last_pass is not None:
        ago = (datetime.now(UTC) - health.last_pass).total_seconds()
        lines.append(
            f"last look {max(0, round(ago)):,} s ago: {health.accepted:,} accepted, "
            f"{health.duplicate:,} duplicate, {health.rejected:,} rejected, "
            f"{health.waiting:,} waiting; generation {health.generation}"
        )
    if health.last_error is not None:
        when = "now" if health.last_error.at == health.last_pass else "gone since, was"
        lines.append(f"trouble ({when}): {health.last_error.text}")
    return lines
