"""What was measured, as typed values: runs, their cells, and what one cell's requests were like."""

from dataclasses import dataclass
from datetime import datetime

from warehouse.annotations import Annotation, AnnotationTarget, run


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one source, as far as the filters keep its cells. ``name`` is no other run's;
    ``commands``, ``environment``, ``settings`` and ``report_config`` are JSON text; ``excluded``
    is the reason of an exclusion by name."""

    name: str
    run_id: str
    source_id: str
    started_at: datetime | None
    model: str | None
    gpu: str | None
    dataset: str | None
    study: str | None
    evidence: str | None
    arms: tuple[str, ...]
    concurrencies: tuple[int, ...]
    cells: int
    completed: int
    flags: int
    failed: int
    load_generator: str | None
    load_generator_version: str | None
    provenance: str | None
    path: str
    ingested_at: datetime
    excluded: str | None
    commands: str
    environment: str
    settings: str
    report_config: str

    @property
    def target(self) -> AnnotationTarget:
        """The run as a target of annotations."""
        return run(self.run_id, self.source_id)

    @property
    def excluded_text(self) -> str:
        """Why the run is excluded by name; empty where it is not."""
        return self.excluded or ""

    @property
    def texts(self) -> str:
        """The texts by which a reader may search for the run."""
        known = (self.run_id, self.model, self.dataset, self.gpu, self.path)
        return " ".join(text or "unknown" for text in known).casefold()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that was not taken in."""

    path: str
    reason: str
    rejected_at: datetime


@dataclass(frozen=True, slots=True)
class Doubt:
    """A kind of flag: on how many cells, what it says of one of them, and what follows."""

    name: str
    severity: str
    cells: int
    sentence: str
    decides: bool

    @property
    def words(self) -> str:
        """The flag's name in words: ``busy machine``."""
        return self.name.replace("_", " ")

    @property
    def effect(self) -> str:
        """Whether cells with this flag decide anything, in words."""
        return "told beside every answer" if self.decides else "decides nothing"


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs that the filters keep, newest first, what is doubtful about their cells, and the files
    that were refused."""

    runs: tuple[Run, ...]
    doubts: tuple[Doubt, ...]
    rejected: tuple[Rejected, ...]
    headline: str
    summary: str


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell of a run; ``name`` is no other's in the run. ``duration`` in s."""

    cell_id: str
    name: str
    model: str | None
    model_revision: str | None
    gpu: str | None
    engine: str | None
    engine_version: str | None
    spec_method: str | None
    num_speculative_tokens: int | None
    dataset: str | None
    arm: str
    load: str
    repeat: int | None
    status: str
    completed: int
    errored: int
    incomplete: int
    duration: float | None
    flags: int
    compared_by: str
    report_format: str
    evidence: str | None


@dataclass(frozen=True, slots=True)
class Flagged:
    """A doubt and how many cells of a run it is about."""

    severity: str
    name: str
    sentence: str
    cells: int


@dataclass(frozen=True, slots=True)
class OneRun:
    """A run with its cells, what is doubtful about them, and all that people said of it."""

    run: Run
    cells: tuple[CellRow, ...]
    flags: tuple[Flagged, ...]
    said: tuple[Annotation, ...]
    exclusion: Annotation | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: ``name``, and points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Number:
    """One stored number of a cell."""

    origin: str
    metric: str
    statistic: str
    value: float


@dataclass(frozen=True, slots=True)
class Requests:
    """What the requests of a cell were like. ``distributions``: of each metric (its key) the value
    and the share of requests that had at most so much; ``positions``: of each source of acceptance
    the draft position (from 1) and the share of drafts accepted there."""

    distributions: tuple[Curve, ...]
    positions: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """What the server did during a cell, over seconds since the first sample: ``lines`` as
    ``analysis.server_series`` tells them, ``sampled`` as it was sampled."""

    lines: tuple[Curve, ...]
    sampled: tuple[Curve, ...]
