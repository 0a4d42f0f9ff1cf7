"""Where a night lies, and what stands in its state file.

``<results>/nights/<night>/<study>/`` is what ``draftboard run`` measures into. Beside the results:
``.nightly.json`` (the state; hidden, because ingest reads every other .json), ``.nightly-<stage>.json``
(what a stage answered), ``logs/nightly-<stage>.log`` and ``report.html``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from warehouse.errors import RunnerError
from warehouse.nights import NightSummary, Part, StageName
from warehouse.store_files import publish

FOLDER = "nights"
STATE = ".nightly.json"
#: A night that begins before noon belongs to the evening before, as on Trends.
NOON = timedelta(hours=12)


class Child(Part):
    """A stage at work, as far as it takes to find its process again when this one was killed."""

    pid: int
    began: float
    """When the process began, as the system states it, in seconds since the epoch. The number of
    the process alone may be another one's."""


class State(Part):
    """All that a later call needs to go on. ``planned``: keys of the study's cells."""

    summary: NightSummary
    planned: tuple[str, ...] = ()
    usd_per_hour: float | None = None
    laid_out: str = ""
    """Hash of the study file from which ``planned`` and the price come."""
    measured_s: float = 0.0
    """Seconds of the run stage in all calls, kept while it runs: a killed one counts too."""
    child: Child | None = None


@dataclass(frozen=True)
class Place:
    """The files of one night of one study; nothing is made here."""

    results: Path
    study: str
    night: str

    @property
    def root(self) -> Path:
        """The folder that ``draftboard run --results`` gets."""
        return self.results / FOLDER / self.night

    @property
    def own(self) -> Path:
        """The study's folder in ``root``."""
        return self.root / self.study

    @property
    def state(self) -> Path:
        """The file that keeps the night's state."""
        return self.own / STATE

    @property
    def report(self) -> Path:
        """The night's report, one HTML file."""
        return self.own / "report.html"

    def log(self, stage: StageName) -> Path:
        """Return the file with everything that a stage printed in all its calls."""
        return self.own / "logs" / f"nightly-{stage}.log"

    def answer(self, stage: StageName) -> Path:
        """Return the file with what a stage answered as JSON in its last call."""
        return self.own / f".nightly-{stage}.json"


def date_of(moment: datetime) -> str:
    """Return the night to which a moment belongs, e.g. ``2026-11-21`` until noon of the 22nd,
    UTC."""
    return (moment.astimezone(UTC) - NOON).date().isoformat()


def places(results: Path, study: str) -> list[Place]:
    """Return the nights of a study that have a state file, by name."""
    files = sorted((results / FOLDER).glob(f"*/{study}/{STATE}"))
    return [Place(results, study, file.parents[1].name) for file in files]


def read_state(place: Place) -> State:
    """Read the state of a night. RunnerError where its file is damaged."""
    try:
        return State.model_validate_json(place.state.read_bytes())
    except (OSError, ValidationError):
        raise RunnerError(
            f"{place.state} cannot be read, so nobody knows what of that night is done; move it "
            "away: its results stay, and the next call begins another night."
        ) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".tmp-{path.name.lstrip('.')}")
    private.write_text(text, encoding="utf-8")
    publish(private, path)


class Book:
    """The state of a night as it is kept: every change is on the disk before work goes on.

    ``shown`` gets each summary that changed; the history shows a night that is under way.
    """

    def __init__(self, place: Place, state: State, shown: Callable[[NightSummary], None]) -> None:
        self.place = place
        self.state = state
        self._shown = shown

    @property
    def summary(self) -> NightSummary:
        """The summary of the night so far."""
        return self.state.summary

    def keep(self, **changes: object) -> None:
        """Change fields of the state, and write it to the disk."""
        self.state = self.state.model_copy(update=changes)
        write_whole(self.place.state, self.state.model_dump_json(indent=1) + "\n")

    def tell(self, **changes: object) -> None:
        """Change fields of the summary, and show it."""
        self.keep(summary=self.summary.model_copy(update=changes))
        self._shown(self.summary)
