"""What a watcher prints: a line when something happened, none when nothing did."""

from datetime import UTC, datetime

import click

from ingest.pipeline import Outcome
from warehouse.json_text import json_text
from warehouse.secrets.texts import scrub_text


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
