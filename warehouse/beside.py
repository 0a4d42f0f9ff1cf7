"""What lies beside the generations of a warehouse: the nights' history, how searches and the watcher stand,
published tables, derived facts.

``nights/<study>/<when it began, UTC>.json`` is a night's summary, ``.md`` the same for people;
``searches/<study>.json`` how a search that measures stands; ``watch.json`` how the watcher is, for people and
health checks. A table that somebody else published is neither a cell nor part of a comparison, so it belongs
to no generation. Facts derived from a study's cells lie under the hash of what they follow from: whoever has
other cells, exclusions or code looks under another name, so nothing there is ever stale.
"""

import hashlib
import os
import re
import socket
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from warehouse.errors import DraftboardError
from warehouse.secrets import scrub_text
from warehouse.secrets.shapes import REMOVED
from warehouse.storage.cache import changed_aside, name_of
from warehouse.storage.files import (
    DERIVED,
    PRIVATE,
    PUBLISHED,
    full_disk_explained,
    publish,
    write_whole,
)

NIGHTS = "nights"
#: File names sort as their nights do, and hold no character that a file system refuses.
NIGHT_STAMP = "%Y-%m-%dT%H-%M-%SZ"
_NIGHT_FILE = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json")
SEARCHES = "searches"
WATCH_FILE = "watch.json"
#: In a folder, a file of such a name is a published table; other YAML files are passed over.
TABLE_NAMES = re.compile(r"published-.+\.ya?ml")
_HASHED = 16
_BARE = re.compile(rf"(?m)^([^'\"\n]*?(?:^|[:-])[ \t]+){re.escape(REMOVED)}")
#: Holds by which code facts were derived last, and when the last source had come then.
_DERIVED_UPTO = "upto"
#: How the names of their files end, differences first.
_DERIVED_ENDS = (".parquet", ".answers.parquet")
#: Seconds for which facts that nobody asks for any more are kept: an exclusion may be taken back.
_DERIVED_GRACE_S = 7 * 24 * 3600.0


# --- The nights' history. Nothing here writes; a file that cannot be read is passed over and named.


Outcome = Literal["fine", "regression", "not enough evidence", "incomplete", "failed", "unfinished"]
StageName = Literal["plan", "run", "ingest", "gate", "notify", "report"]
StageStatus = Literal["pending", "done", "stopped", "failed", "skipped"]
STAGES: tuple[StageName, ...] = ("plan", "run", "ingest", "gate", "notify", "report")

Seconds = Field(0.0, ge=0)
Count = Field(0, ge=0)


class StrictPart(BaseModel):
    """The base of what is read from a file: unknown keys are refused, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stage(StrictPart):
    """One stage: how it ended, how long it took in all calls, and why it did not do its work."""

    name: StageName
    status: StageStatus = "pending"
    seconds: float = Seconds
    said: str = ""


class NightCells(StrictPart):
    """The cells of the study in this night; ``missing``: not measured, and not failed either."""

    planned: int = Count
    good: int = Count
    failed: int = Count
    missing: int = Count


class Failure(StrictPart):
    """A cell that is not good, and the diagnosis of its last attempt."""

    cell: str
    said: str


class Changed(StrictPart):
    """A setting that is another one than before; None: not stated."""

    field: str
    before: Any = None
    after: Any = None

    @property
    def sentence(self) -> str:
        """The change in words: ``server_args.max_num_seqs: 32 → 2``."""
        before, after = (
            "not stated" if value is None else str(value) for value in (self.before, self.after)
        )
        return f"{self.field}: {before} → {after}"


class Regression(StrictPart):
    """A series that became worse. ``improvement``, ``low``, ``high``: ratios, negative is worse,
    with the 95 % interval; ``since``: the first night that is worse; ``before``: the last that was
    not; ``changed``: the configuration between these two; ``gain``: what became of an arm's gain over
    the baseline, where that is what became worse."""

    series: str
    about: dict[str, Any] = {}
    metric: str
    statistic: str
    line: str
    improvement: float
    low: float
    high: float
    budget: float
    since: str
    before: str | None = None
    changed: tuple[Changed, ...] = ()
    gain: str | None = None


class Verdict(StrictPart):
    """What the gate said, and of how many series."""

    status: Literal["fine", "regression", "not enough evidence"]
    series: int = Count
    fine: int = Count
    regressions: int = Count
    unsettled: int = Count


class NightLimits(StrictPart):
    """The most that measuring may take, all calls of the night together; None: no limit."""

    hours: float | None = None
    usd: float | None = None


class NightSummary(StrictPart):
    """One night of one study. ``night``: the evening's date, noon to noon UTC, as on Trends."""

    schema_version: Literal[1] = 1
    study: str
    night: str
    started: AwareDatetime
    ended: AwareDatetime | None = None
    outcome: Outcome = "unfinished"
    exit_status: int | None = None
    calls: int = Count
    stages: tuple[Stage, ...] = tuple(Stage(name=name) for name in STAGES)
    cells: NightCells = NightCells()
    failures: tuple[Failure, ...] = ()
    #: Against the night before, whatever became of the values.
    changed: tuple[Changed, ...] = ()
    verdict: Verdict | None = None
    #: The worst first; ``verdict.regressions`` counts them all.
    regressions: tuple[Regression, ...] = ()
    #: The decisions after this night, a paragraph each.
    decided: tuple[str, ...] = ()
    #: What is decided otherwise than it was last recorded.
    redecided: tuple[str, ...] = ()
    #: A sentence for each series that becomes slower little by little.
    drifts: tuple[str, ...] = ()
    limits: NightLimits = NightLimits()
    measuring_hours: float = Seconds
    cost_usd: float | None = None
    undelivered: int = Count

    @property
    def seconds(self) -> float:
        """How long the stages took together, in all calls."""
        return sum(stage.seconds for stage in self.stages)

    def stage(self, name: StageName) -> Stage:
        return {stage.name: stage for stage in self.stages}[name]


@dataclass(frozen=True)
class NightsHistory:
    """The nights, newest first, and what cannot be read: one sentence each."""

    nights: tuple[NightSummary, ...]
    damaged: tuple[str, ...]


def nights_folder(root: Path) -> Path:
    """Return the folder in which the nights of a warehouse lie."""
    return root / NIGHTS


def nights_history(root: Path) -> NightsHistory:
    """Read every night of the warehouse at ``root``, and name the files that are none."""
    summaries, damaged = [], []
    for path in _night_files(root):
        try:
            summaries.append(NightSummary.model_validate_json(path.read_bytes()))
            continue
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            why = f"{where}: {first['msg']}"
        except OSError as error:
            why = error.strerror or type(error).__name__
        damaged.append(
            f"{path.parent.name}/{path.name} is no summary of a night ({why}); it is passed over."
        )
    summaries.sort(key=lambda night: night.started, reverse=True)
    return NightsHistory(tuple(summaries), tuple(damaged))


def nights_version(root: Path) -> str:
    """Return a text that changes whenever a night was added, changed or removed; for caches."""
    stats = [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in _night_files(root)]
    return str(hash(tuple(stats)))


def _night_files(root: Path) -> list[Path]:
    paths = sorted(nights_folder(root).glob("*/*.json"))
    return [path for path in paths if _NIGHT_FILE.fullmatch(path.name)]


# --- How searches that measure stand: a file for each, replaced before every launch. What stands in it is for
# whoever wrote it to say (``answers/search/board.py``).


def write_search(root: Path, study: str, text: str) -> None:
    """Put the file of a search in place, in one step. Raises OSError where it cannot be written."""
    path = root / SEARCHES / f"{study}.json"
    write_whole(path, text)
    changed_aside(root, [path])


def read_searches(root: Path) -> tuple[bytes, ...]:
    """Return what the files hold; one that is gone meanwhile is passed over."""
    return tuple(path.read_bytes() for path in _search_files(root) if path.is_file())


def searches_version(root: Path) -> str:
    """Return a text that changes whenever a search goes on; for caches."""
    stats = [
        (path.name, (at := path.stat()).st_mtime_ns, at.st_size) for path in _search_files(root)
    ]
    return repr(stats)


def _search_files(root: Path) -> list[Path]:
    return [path for path in sorted((root / SEARCHES).glob("*.json")) if path.name[0] != "."]


# --- How the watcher is.


class WatchTrouble(StrictPart):
    """The last thing that went wrong, and when."""

    at: datetime
    text: str


class WatchHealth(StrictPart):
    """What a watcher says of itself after every pass; counts are since its start."""

    pid: int
    host: str
    folders: tuple[str, ...]
    interval_s: float
    since: datetime
    last_pass: datetime | None = None
    passes: int = 0
    #: By then it will have reported again, unless it is dead or stuck.
    due: datetime
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    #: Seen and not yet read: still being written, or the warehouse is busy.
    waiting: int = 0
    generation: int = 0
    last_error: WatchTrouble | None = None
    #: When it was told to end.
    stopped: datetime | None = None


def this_host() -> str:
    """Return the name under which a watcher of this machine, or container, reports."""
    return socket.gethostname()


def write_health(root: Path, health: WatchHealth) -> None:
    """Replace the last report. Not synced to the disk: after a loss of power it is stale anyway."""
    # Not the prefix of the store's own private files: a writer that starts would remove those.
    private = root / ".watch.json.new"
    private.write_text(health.model_dump_json(indent=1) + "\n", encoding="utf-8")
    private.replace(root / WATCH_FILE)


def read_health(root: Path) -> WatchHealth:
    """Read the last report. Raises DraftboardError where there is none, or none that can be
    read."""
    path = root / WATCH_FILE
    try:
        return WatchHealth.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DraftboardError(
            f"No watcher has reported to {name_of(root)} from this machine; start one with: "
            f"draftboard ingest --watch DIR --warehouse {name_of(root)}"
        ) from None
    except (OSError, ValidationError) as error:
        raise DraftboardError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); a running watcher writes it anew "
            "within a minute."
        ) from None


def complaint(health: WatchHealth, now: datetime | None = None) -> str | None:
    """Say why this watcher does not work, in one sentence; None where it does."""
    now = now or datetime.now(UTC)
    if health.stopped is not None:
        return f"The watcher was stopped {_ago(health.stopped, now)}; start it again."
    if health.host == this_host():
        try:
            os.kill(health.pid, 0)
        except ProcessLookupError:
            return f"The watcher (process {health.pid}) has died; start it again."
        except PermissionError:
            pass  # It runs, as somebody else.
    if now > health.due:
        return (
            f"The watcher on {health.host} is late: its next report was due "
            f"{_ago(health.due, now)}; if it does not come back, start it again."
        )
    return None


def _ago(then: datetime, now: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    return f"{seconds} s ago" if seconds < 120 else f"{seconds // 60:,} min ago"


# --- Published tables that an ingest was given: kept whole, apart from what was measured. Each is one file,
# named by the hash of its content and never changed.


@dataclass(frozen=True)
class PublishedTable:
    """One published table: what its file was called, whose ending says how its text is read."""

    name: str
    text: str


def is_published_table(path: Path) -> bool:
    """Return whether a file in a folder is taken as a published table."""
    return TABLE_NAMES.fullmatch(path.name) is not None


def keep_table(root: Path, name: str, text: str) -> bool:
    """Add a table without credentials; False where it is there already.

    Another text of the same name replaces it.
    """
    folder = root / PUBLISHED
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", scrub_text(name))
    # Without quotes YAML would take what stands in its place for a list.
    text = _BARE.sub(rf"\1'{REMOVED}'", scrub_text(text))
    there = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:_HASHED]}-{safe}"
    if there.exists():
        return False
    with full_disk_explained(root):
        folder.mkdir(parents=True, exist_ok=True)
        former = [path for path in folder.iterdir() if _table_name(path) == safe]
        write_whole(there, text)
        for path in former:
            path.unlink()
        changed_aside(root, [there], former)
    return True


def published_tables(root: Path) -> tuple[PublishedTable, ...]:
    """Return every table, by name."""
    return tuple(
        PublishedTable(_table_name(path), path.read_text(encoding="utf-8"))
        for path in _table_paths(root)
    )


def tables_version(root: Path) -> str:
    """Return a text that changes with every table that is added; empty where there is none."""
    return ",".join(path.name for path in _table_paths(root))


def _table_paths(root: Path) -> list[Path]:
    folder = root / PUBLISHED
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in files if not path.name.startswith(".")), key=_table_name)


def _table_name(path: Path) -> str:
    return path.name[_HASHED + 1 :]


# --- Derived facts. A file that is missing or damaged is nothing but slower.


def derived_facts(root: Path, basis: str) -> tuple[pa.Table, pa.Table] | None:
    """Return the facts that follow from ``basis``, of differences and of answers; None where they are not
    there."""
    try:
        differences, answers = (
            pq.read_table(root / DERIVED / f"{basis}{end}", page_checksum_verification=True)
            for end in _DERIVED_ENDS
        )
        return differences, answers
    except (OSError, pa.ArrowInvalid):
        return None


def keep_derived(root: Path, basis: str, differences: pa.Table, answers: pa.Table) -> None:
    """Keep the facts that follow from ``basis``. Only under the writer's lock."""
    folder = root / DERIVED
    folder.mkdir(exist_ok=True)
    # What says that they are there comes last.
    for end, facts in zip(_DERIVED_ENDS[::-1], (answers, differences), strict=True):
        private = folder / f"{PRIVATE}{os.getpid()}-{basis}{end}"
        try:
            pq.write_table(facts, private, compression="zstd", write_page_checksum=True)
            publish(private, folder / f"{basis}{end}")
        finally:
            private.unlink(missing_ok=True)


def is_derived(root: Path, basis: str) -> bool:
    """Return whether facts of this basis are there."""
    return (root / DERIVED / f"{basis}{_DERIVED_ENDS[0]}").exists()


def derived_upto(root: Path, code: str) -> datetime | None:
    """Return when the last source had come of which this code derived facts (UTC); None if nobody
    knows."""
    try:
        by, at = (root / DERIVED / _DERIVED_UPTO).read_text(encoding="ascii").split()
        return datetime.fromisoformat(at) if by == code else None
    except (OSError, ValueError):
        return None


def note_derived_upto(root: Path, code: str, ingested_at: datetime) -> None:
    """Keep when the last source had come of which this code derived facts. Only under the writer's
    lock; half of it tells nobody anything."""
    folder = root / DERIVED
    folder.mkdir(exist_ok=True)
    (folder / _DERIVED_UPTO).write_text(f"{code} {ingested_at.isoformat()}", encoding="ascii")


def drop_other_derived(root: Path, bases: Collection[str]) -> None:
    """Remove facts of other bases, once they are old enough. Only under the writer's lock."""
    oldest = time.time() - _DERIVED_GRACE_S
    for path in (root / DERIVED).glob("*.parquet"):
        if path.name.partition(".")[0] not in bases and path.stat().st_mtime <= oldest:
            path.unlink()
