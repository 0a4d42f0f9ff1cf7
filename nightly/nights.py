"""A night: where it lies and how it stands, its lock, its cells, and what it may take."""

import json
import os
import platform
from collections.abc import Iterator, Sequence
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

    def left_s(self, measured_s: float) -> float | None:
        """Return the seconds that the tighter limit leaves after ``measured_s``, never below 0; None: no
        limit."""
        allowed = [] if self.limits.hours is None else [self.limits.hours * 3600]
        if self.limits.usd is not None and self.usd_per_hour:
            allowed.append(self.limits.usd / self.usd_per_hour * 3600)
        return max(0.0, min(allowed) - measured_s) if allowed else None

    def __str__(self) -> str:
        """Write the budget: ``3 h``, ``20 USD`` or both."""
        hours = [] if self.limits.hours is None else [f"{self.limits.hours:g} h"]
        money = [] if self.limits.usd is None else [f"{self.limits.usd:g} USD"]
        return " or ".join(hours + money)


# --- Where a night lies, and what stands in its state file.
#
# ``<results>/nights/<night>/<study>/`` is what ``draftboard run`` measures into. Beside the results:
# ``.nightly.json`` (the state; hidden, because ingest reads every other .json), ``.nightly-gate.json``
# (what the gate judged), ``logs/nightly-<stage>.log`` and ``report.html``.


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


class NightState(StrictPart):
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
class NightFolder:
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

    @property
    def judgement(self) -> Path:
        """The file with what the gate judged in its last call."""
        return self.own / ".nightly-gate.json"

    def log(self, stage: StageName) -> Path:
        """Return the file with everything that a stage printed in all its calls."""
        return self.own / "logs" / f"nightly-{stage}.log"

    def read_state(self) -> NightState:
        """Read the state of the night. RunnerError where its file is damaged."""
        try:
            return NightState.model_validate_json(self.state.read_bytes())
        except (OSError, ValidationError):
            raise RunnerError(
                f"{self.state} cannot be read, so nobody knows what of that night is done; move it "
                "away: its results stay, and the next call begins another night."
            ) from None


def date_of(moment: datetime) -> str:
    """Return the night to which a moment belongs, e.g. ``2026-11-21`` until noon of the 22nd,
    UTC."""
    return (moment.astimezone(UTC) - NOON).date().isoformat()


def night_folders(results: Path, study: str) -> list[NightFolder]:
    """Return the nights of a study that have a state file, by name."""
    files = sorted((results / FOLDER).glob(f"*/{study}/{STATE}"))
    return [NightFolder(results, study, file.parents[1].name) for file in files]


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".tmp-{path.name.lstrip('.')}")
    private.write_text(text, encoding="utf-8")
    publish(private, path)


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
        named = _json_object(holder)
        who = "a process that has not said its name yet"
        if {"pid", "host", "study", "since"} <= set(named):
            who = "process {pid} on {host} has been at {study} since {since}".format(**named)
        raise AnotherNight(
            f"Another night is running in {results}: {who}. Nothing was started."
        ) from None
    try:
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        me = {"pid": os.getpid(), "host": platform.node(), "study": study, "since": since}
        write_whole(holder, json.dumps(me))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


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


def cells_of(folder: NightFolder, planned: Sequence[str]) -> tuple[NightCells, tuple[Failure, ...]]:
    """Count the planned cells: each is good, failed or missing. Return also why they failed, as the
    runner diagnosed their last attempt, at most MOST."""
    failures, good = [], 0
    for key in planned:
        if _good_record(folder, key):
            good += 1
            continue
        places = {path: failed_of(path.name) for path in (folder.own / key).parent.glob(
            f"{Path(key).name}.failed-*")}  # fmt: skip
        attempts = {attempt[1]: path for path, attempt in places.items() if attempt is not None}
        if attempts:
            record = _json_object(attempts[max(attempts)] / RECORD)
            why = str(record.get("failure") or "its record gives no diagnosis")
            failures.append(Failure(cell=key, said=" ".join(why.split())[:_TEXT]))
    missing = len(planned) - good - len(failures)
    cells = NightCells(planned=len(planned), good=good, failed=len(failures), missing=missing)
    return cells, tuple(failures[:MOST])


def changed(
    folder: NightFolder, earlier: NightFolder | None, planned: Sequence[str]
) -> tuple[Changed, ...]:
    """Return what is set otherwise than in an earlier night: one good cell of each server is
    compared with its own of that night, since all cells of a server were set alike.

    At most MOST; nothing without an earlier night.
    """
    if earlier is None:
        return ()
    from analysis.matching.difference import differences

    good = {key: record for key in planned if (record := _good_record(folder, key))}
    first_of_server = {tuple(key.split("/")[:2]): key for key in reversed(good)}
    found = {
        (change.field, str(change.before), str(change.after)): change
        for key in first_of_server.values()
        if (before := _good_record(earlier, key))
        for change in differences(_settings(before), _settings(good[key]))
    }
    return tuple(
        Changed(field=change.field, before=plain(change.before), after=plain(change.after))
        for _, change in sorted(found.items())
    )[:MOST]


def plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    value = value.item() if hasattr(value, "item") else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _settings(path: Path) -> dict[str, Any]:
    record = _json_object(path)
    environment = record.get("environment") or {}
    stated = {name: environment.get(name) for name in _ENVIRONMENT}
    return {name: record.get(name) for name in FACT_KEYS} | {"environment": stated}


def _good_record(folder: NightFolder, key: str) -> Path | None:
    """Return the record of a cell that is good; None where it is not. The runner renames it into its
    place then, and only then, and adds the versions that measured it, ``<key>@<versions>``."""
    plain_place = folder.own / key
    found = [
        path
        for path in plain_place.parent.glob(f"{plain_place.name}@*/{RECORD}")
        if failed_of(path.parent.name) is None
    ]
    newest = max(found, key=lambda path: path.stat().st_mtime, default=plain_place / RECORD)
    return newest if newest.is_file() else None


def _json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
