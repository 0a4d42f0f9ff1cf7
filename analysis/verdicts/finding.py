"""One published figure beside what its own row gives."""

from dataclasses import dataclass, field
from typing import Any

from analysis.published.printed import PrintedRange
from warehouse.catalogue import Better


@dataclass(frozen=True)
class Finding:
    """One figure that was recomputed. ``published`` and ``recomputed`` are in ``unit`` (``%`` for
    savings, ``%`` or ``x`` for gains, as their table prints them: ``convention``).

    ``low`` and ``high``: what the figure can be, given how its inputs were rounded in print.
    ``kind`` of a flagged one: arithmetic, sign, swapped, basis or drafts. ``better``: which
    direction of a gain's metric is better.
    """

    section: str
    about: dict[str, str]
    metric: str
    published: float
    recomputed: float
    low: float
    high: float
    unit: str
    flagged: bool
    reason: str
    kind: str | None = None
    convention: str = "improvement"
    better: Better | None = None
    measured: tuple[dict[str, Any], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return {**vars(self), "measured": list(self.measured)}


@dataclass(frozen=True)
class Figure:
    """A figure to check: what was printed, and what follows from the row."""

    section: str
    about: dict[str, str]
    metric: str
    printed: PrintedRange
    follows: PrintedRange
    unit: str
    convention: str = "improvement"
    better: Better | None = None

    @property
    def agrees(self) -> bool:
        """Whether rounding in print explains the difference."""
        return self.printed.meets(self.follows)

    def finding(self, reason: str = "", kind: str | None = None) -> Finding:
        """Return this figure as a finding. A ``kind`` flags it; without a reason it follows from
        its row."""
        return Finding(
            self.section, self.about, self.metric, self.printed.value, self.follows.value,
            self.follows.low, self.follows.high, self.unit, kind is not None,
            reason or "Follows from its own row.", kind, self.convention, self.better,
        )  # fmt: skip

    def differs(self) -> Finding:
        """Return a flagged finding: the figure does not follow from its row."""
        low, high = (shown(value, self.unit) for value in (self.follows.low, self.follows.high))
        span = "" if low == high else f" ({low} to {high} as its inputs are rounded)"
        return self.finding(
            f"Its own row gives {shown(self.follows.value, self.unit)}{span}, "
            f"not {shown(self.printed.value, self.unit)}.",
            "arithmetic",
        )


def shown(value: float, unit: str) -> str:
    """Write a figure for a sentence: with a sign for improvements, with digits enough for small
    sums of money."""
    if unit in ("%", "x"):
        return f"{value:+.1f} %" if unit == "%" else f"{value:.2f}x"
    number = f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{number} {unit}".strip()
