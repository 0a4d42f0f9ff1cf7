"""A free chart as typed values: panels of marks, and the cells behind them."""

from dataclasses import dataclass
from datetime import datetime

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
