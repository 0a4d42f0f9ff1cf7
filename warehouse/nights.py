"""The nights' history: what `draftboard nightly` did, one file a night beside the generations.

``nights/<study>/<when it began, UTC>.json`` is a summary, ``.md`` the same for people. Nothing here
writes; a file that cannot be read is passed over and named.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

FOLDER = "nights"
#: File names sort as their nights do, and hold no character that a file system refuses.
STAMP = "%Y-%m-%dT%H-%M-%SZ"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json")

Outcome = Literal["fine", "regression", "not enough evidence", "incomplete", "failed", "unfinished"]
StageName = Literal["plan", "run", "ingest", "gate", "notify", "report"]
StageStatus = Literal["pending", "done", "stopped", "failed", "skipped"]
STAGES: tuple[StageName, ...] = ("plan", "run", "ingest", "gate", "notify", "report")

Seconds = Field(0.0, ge=0)
Count = Field(0, ge=0)


class Part(BaseModel):
    """The base of every part of a summary: unknown keys are refused, nothing changes after
    reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stage(Part):
    """One stage: how it ended, how long it took in all calls, and why it did not do its work."""

    name: StageName
    status: StageStatus = "pending"
    seconds: float = Seconds
    said: str = ""


class Cells(Part):
    """The cells of the study in this night; ``missing``: not measured, and not failed either."""

    planned: int = Count
    good: int = Count
    failed: int = Count
    missing: int = Count


class Failure(Part):
    """A cell that is not good, and the diagnosis of its last attempt."""

    cell: str
    said: str


class Changed(Part):
    """A setting that is another one than before; None: not stated."""

    field: str
    before: Any = None
    after: Any = None

    @property
    def sentence(self) -> str:
        """The change in words: ``server_args.max_num_seqs: 32 → 2``."""
        return f"{self.field}: {_said(self.before)} → {_said(self.after)}"


class Regression(Part):
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


class Verdict(Part):
    """What the gate said, and of how many series."""

    status: Literal["fine", "regression", "not enough evidence"]
    series: int = Count
    fine: int = Count
    regressions: int = Count
    unsettled: int = Count


class Limits(Part):
    """The most that measuring may take, all calls of the night together; None: no limit."""

    hours: float | None = None
    usd: float | None = None


class NightSummary(Part):
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
    cells: Cells = Cells()
    failures: tuple[Failure, ...] = ()
    changed: tuple[Changed, ...] = ()
    """Against the night before, whatever became of the values."""
    verdict: Verdict | None = None
    regressions: tuple[Regression, ...] = ()
    """The worst first; ``verdict.regressions`` counts them all."""
    decided: tuple[str, ...] = ()
    """The decisions after this night, a paragraph each."""
    redecided: tuple[str, ...] = ()
    """What is decided otherwise than it was last recorded."""
    drifts: tuple[str, ...] = ()
    """A sentence for each series that becomes slower little by little."""
    limits: Limits = Limits()
    measuring_hours: float = Seconds
    cost_usd: float | None = None
    undelivered: int = Count

    @property
    def seconds(self) -> float:
        """How long the stages took together, in all calls."""
        return sum(stage.seconds for stage in self.stages)

    def stage(self, name: StageName) -> Stage:
        """Return the stage of that name."""
        return {stage.name: stage for stage in self.stages}[name]


@dataclass(frozen=True)
class History:
    """The nights, newest first, and what cannot be read: one sentence each."""

    nights: tuple[NightSummary, ...]
    damaged: tuple[str, ...]


def folder(root: Path) -> Path:
    """Return the folder in which the nights of a warehouse lie."""
    return root / FOLDER


def nights(root: Path) -> list[NightSummary]:
    """Return every night of the warehouse at ``root`` that can be read, newest first."""
    return list(history(root).nights)


def history(root: Path) -> History:
    """Read every night, and name the files that are none."""
    found, damaged = [], []
    for path in _files(root):
        try:
            found.append(NightSummary.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            damaged.append(_damage(path, error))
    found.sort(key=lambda night: night.started, reverse=True)
    return History(tuple(found), tuple(damaged))


def version(root: Path) -> str:
    """Return a text that changes whenever a night was added, changed or removed; for caches."""
    stats = [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in _files(root)]
    return str(hash(tuple(stats)))


def _files(root: Path) -> Iterator[Path]:
    """Return the files of summaries only: what is being written, and what is kept for messages, has
    other names."""
    return (path for path in sorted(folder(root).glob("*/*.json")) if _NAME.fullmatch(path.name))


def _damage(path: Path, error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        why = f"{where}: {first['msg']}"
    else:
        why = getattr(error, "strerror", None) or type(error).__name__
    return f"{path.parent.name}/{path.name} is no summary of a night ({why}); it is passed over."


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)
