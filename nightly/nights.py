"""A night: where it lies and how it stands, its lock, its cells, and what it may take."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from warehouse.beside import (
    Changed,
    Failure,
    NightCells,
    NightLimits,
    NightSummary,
    StageName,
    StrictPart,
)
from warehouse.contract import FACT_KEYS, failed_of
from warehouse.errors import RunnerError
from warehouse.store_files import publish

# --- What a night may take: hours and money, all its calls together.


@dataclass(frozen=True)
class Budget:
    """What a night may take, in hours and USD. ``usd_per_hour``: of the node, from the study; None
    where the study states no price."""

    limits: NightLimits
    usd_per_hour: float | None

    def __post_init__(self) -> None:
        """Raise RunnerError where money is limited and the node has no price."""
        if self.limits.usd is not None and not self.usd_per_hour:
            raise RunnerError(
                "--max-usd needs the price of the node, and the study states none; add price: "
                "{usd_per_hour: …, gpus_per_instance: …} to it, or use --max-hours."
            )

    @property
    def allowed_s(self) -> float | None:
        """The seconds of measuring that the tighter limit allows; None: no limit."""
        allowed = [] if self.limits.hours is None else [self.limits.hours * 3600]
        if self.limits.usd is not None and self.usd_per_hour:
            allowed.append(self.limits.usd / self.usd_per_hour * 3600)
        return min(allowed, default=None)

    def left_s(self, measured_s: float) -> float | None:
        """Return the seconds that are left after ``measured_s``, never below 0; None: no limit."""
        allowed = self.allowed_s
        return None if allowed is None else max(0.0, allowed - measured_s)

    def __str__(self) -> str:
        """Write the budget: ``3 h``, ``20 USD`` or both."""
        hours = [] if self.limits.hours is None else [f"{self.limits.hours:g} h"]
        money = [] if self.limits.usd is None else [f"{self.limits.usd:g} USD"]
        return " or ".join(hours + money)


# --- Where a night lies, and what stands in its state file.
#
# ``<results>/nights/<night>/<study>/`` is what ``draftboard run`` measures into. Beside the results:
# ``.nightly.json`` (the state; hidden, because ingest reads every other .json), ``.nightly-<stage>.json``
# (what a stage answered), ``logs/nightly-<stage>.log`` and ``report.html``.


FOLDER = "nights"
STATE = ".nightly.json"
#: A night that begins before noon belongs to the evening before, as on Trends.
NOON = timedelta(hours=12)


class Child(StrictPart):
    """A stage at work, as far as it takes to find its process again when this one was killed."""

    pid: int
    began: float
    """When the process began, as the system states it, in seconds since the epoch. The number of
    the process alone may be another one's."""


class State(StrictPart):
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


# --- One night at a time in a results folder: a lock that the system lets go of when its holder dies.


class AnotherNight(RunnerError):
    """Another process holds the lock."""


@contextmanager
def one_night(results: Path, study: str) -> Iterator[None]:
    """Hold the lock of ``results``; raises AnotherNight, which names the holder.

    Two studies measured at once would disturb one another, so they share it. The name of the holder
    is for people: only the system's lock counts, and a dead process holds none.
    """
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(
        folder / ".lock", fallback_to_soft=False, preserve_lock_file=True, thread_local=False
    )
    holder = folder / ".lock.holder"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise AnotherNight(
            f"Another night is running in {results}: {_holder(holder)}. Nothing was started."
        ) from None
    try:
        write_whole(holder, json.dumps(_me(study)))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _me(study: str) -> dict[str, str | int]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"pid": os.getpid(), "host": platform.node(), "study": study, "since": now}


def _holder(path: Path) -> str:
    try:
        said = json.loads(path.read_bytes())
        return (
            f"process {said['pid']} on {said['host']} has been at {said['study']} since "
            f"{said['since']}"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said its name yet"


# --- What a night has of its cells: how many are good, why others failed, what is set otherwise.


RECORD = "record.json"
#: Failures and changes that a summary tells; the rest is in the results.
MOST = 20
#: What of a record's environment is set by somebody; clocks, ports and placement vary by themselves.
_ENVIRONMENT = (
    "versions", "packages", "driver", "cuda_driver", "cpu", "system", "python", "container",
    "git", "variables",
)  # fmt: skip
_TEXT = 300


def count(place: Place, planned: Sequence[str]) -> NightCells:
    """Count the planned cells: each is good, failed or missing."""
    good = [key for key in planned if _is_good(place, key)]
    failed = [key for key in planned if key not in set(good) and _last_attempt(place, key)]
    missing = len(planned) - len(good) - len(failed)
    return NightCells(planned=len(planned), good=len(good), failed=len(failed), missing=missing)


def failures(place: Place, planned: Sequence[str]) -> tuple[Failure, ...]:
    """Return the cells that failed and why, as the runner diagnosed their last attempt; at most
    MOST."""
    found = []
    for key in planned:
        attempt = None if _is_good(place, key) else _last_attempt(place, key)
        if attempt is not None:
            said = _read(attempt / RECORD).get("failure") or "its record gives no diagnosis"
            found.append(Failure(cell=key, said=" ".join(str(said).split())[:_TEXT]))
    return tuple(found[:MOST])


def changed(place: Place, earlier: Place | None, planned: Sequence[str]) -> tuple[Changed, ...]:
    """Return what is set otherwise than in an earlier night: one good cell of each server is
    compared with its own of that night.

    At most MOST; nothing without an earlier night.
    """
    if earlier is None:
        return ()
    from analysis.matching.difference import differences

    found = {
        (change.field, str(change.before), str(change.after)): change
        for key in _one_a_server(key for key in planned if _is_good(place, key))
        if _is_good(earlier, key)
        for change in differences(_set(earlier, key), _set(place, key))
    }
    return tuple(
        Changed(field=change.field, before=plain(change.before), after=plain(change.after))
        for _, change in sorted(found.items())
    )[:MOST]


def plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _one_a_server(keys: Iterable[str]) -> list[str]:
    """Return the first key of each ``<arm>/tp<n>``: all cells of one server were set alike."""
    firsts: dict[tuple[str, ...], str] = {}
    for key in keys:
        firsts.setdefault(tuple(key.split("/")[:2]), key)
    return list(firsts.values())


def _set(place: Place, key: str) -> dict[str, Any]:
    record = _read(_folder(place, key) / RECORD)
    environment = record.get("environment") or {}
    stated = {name: environment.get(name) for name in _ENVIRONMENT}
    return {name: record.get(name) for name in FACT_KEYS} | {"environment": stated}


def _is_good(place: Place, key: str) -> bool:
    """Return whether a cell is good: the runner renames it into its place then, and only then."""
    return (_folder(place, key) / RECORD).is_file()


def _folder(place: Place, key: str) -> Path:
    """Return where a cell lies: the runner adds the versions that measured it, ``<key>@<versions>``."""
    plain = place.own / key
    found = sorted(
        plain.parent.glob(f"{plain.name}@*/{RECORD}"), key=lambda path: path.stat().st_mtime
    )
    good = [path.parent for path in found if failed_of(path.parent.name) is None]
    return good[-1] if good else plain


def _last_attempt(place: Place, key: str) -> Path | None:
    """Return the folder of the last failed attempt; None where there is none."""
    final = place.own / key
    found = {path: failed_of(path.name) for path in final.parent.glob(f"{final.name}.failed-*")}
    attempts = {told[1]: path for path, told in found.items() if told is not None}
    return attempts[max(attempts)] if attempts else None


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
