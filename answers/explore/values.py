"""A free chart as typed values: panels of marks, and the cells behind them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["number", "time", "text", "several"]


@dataclass(frozen=True)
class Key:
    """A column of the view ``cells`` that a chart can be laid out by; ``several``: of many columns,
    whose texts are joined."""

    label: str
    column: str
    kind: Kind


#: The columns that say what was measured; two cells that differ in one are never the same setting.
SUBJECT = ("model", "gpu", "tensor_parallel_size", "dataset")
#: Label -> key, in the order in which they are offered.
KEYS: dict[str, Key] = {
    key.label: key
    for key in (
        Key("Concurrency", "concurrency", "number"),
        Key("Draft tokens K", "num_speculative_tokens", "number"),
        Key("Arm", "arm_label", "text"),
        Key("Setting", ", ".join(SUBJECT), "several"),
        Key("Dataset", "dataset", "text"),
        Key("Tensor parallel size", "tensor_parallel_size", "number"),
        Key("Model", "model", "text"),
        Key("GPU", "gpu", "text"),
        Key("GPUs", "gpu_count", "number"),
        Key("Engine version", "engine_version", "text"),
        Key("Method", "spec_method", "text"),
        Key("Draft model", "draft_model", "text"),
        Key("Precision", "precision", "text"),
        Key("Study", "study", "text"),
        Key("Repeat", "repeat", "number"),
        Key("Request rate", "rate", "number"),
        Key("Load generator", "load_generator", "text"),
        Key("Evidence", "evidence", "text"),
        Key("Start time", "started_at", "time"),
    )
}

EACH = "each cell"
#: How the cells of one mark become one number -> its SQL.
AGGREGATIONS: dict[str, str] = {
    "median": "median(y)",
    "mean": "avg(y)",
    "geometric mean": "case when min(y) > 0 then exp(avg(ln(greatest(y, 1e-300)))) end",
    "minimum": "min(y)",
    "maximum": "max(y)",
    EACH: "any_value(y)",
}


@dataclass(frozen=True)
class Amount:
    """A metric of the catalogue at one statistic."""

    metric: str
    statistic: str


@dataclass(frozen=True)
class Pick:
    """One chart: ``y`` over ``x`` (a key or another amount), told apart by the key ``series``,
    a panel for each value of the key ``panel`` (None: one), cells pooled by ``how``."""

    y: Amount
    x: Key | Amount
    series: Key
    panel: Key | None
    how: str


#: Where a mark stands: a number, a moment (UTC) or a text.
Place = float | datetime | str


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: ``y`` pools ``cells`` cells of ``settings`` settings and ``subjects`` subjects, whose
    lowest and highest are ``low`` and ``high``; ``load``: where it stands over an amount."""

    panel: str
    series: str
    x: Place
    y: float
    low: float
    high: float
    load: int | None
    cells: int
    settings: int
    subjects: int
    subject: int
    evidence: str
    synthetic: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart; ``answer`` says its best value, or why there is none."""

    name: str
    answer: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is drawn: panels with most marks first, the sentence above them, doubts below, badges."""

    panels: tuple[Panel, ...]
    headline: str
    notes: tuple[str, ...]
    badges: tuple[str, ...]

    @property
    def all(self) -> tuple[Mark, ...]:
        """The marks of all panels."""
        return tuple(mark for panel in self.panels for mark in panel.marks)


@dataclass(frozen=True, slots=True)
class Behind:
    """A cell behind a mark."""

    cell_id: str
    panel: str
    series: str
    x: Place | None
    y: float | None
    load: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Cells:
    """The first cells behind marks, and how many there are."""

    first: tuple[Behind, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Clicked:
    """A mark that somebody clicked: in which panel, of which series, and where along x (over an
    amount: its load)."""

    panel: str
    series: str
    along: Place | None
