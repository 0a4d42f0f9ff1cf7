"""What is measured already: good cells are never run again, a changed study says which it loses."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from runners.measuring.layout import RECORD, Layout
from runners.planning.plan import Plan, PlannedCell

State = Literal["good", "changed", "failed", "missing"]


@dataclass(frozen=True)
class Progress:
    """The cells of a plan by what the results folder holds of them."""

    good: tuple[PlannedCell, ...]
    changed: tuple[PlannedCell, ...]
    """Cells that were measured well, but under a study that said something else of them."""
    failed: tuple[PlannedCell, ...]
    missing: tuple[PlannedCell, ...]

    @property
    def to_run(self) -> tuple[PlannedCell, ...]:
        """All cells but the good ones, in the order of the plan."""
        return tuple(sorted(self.changed + self.failed + self.missing, key=lambda c: c.order))


def look(plan: Plan, layout: Layout, cells: Iterable[PlannedCell] | None = None) -> Progress:
    """Read the records of a plan's cells, or of some of them."""
    found: dict[State, list[PlannedCell]] = {"good": [], "changed": [], "failed": [], "missing": []}
    for cell in plan.cells if cells is None else cells:
        found[state(cell, layout)].append(cell)
    return Progress(*(tuple(found[name]) for name in ("good", "changed", "failed", "missing")))


def state(cell: PlannedCell, layout: Layout) -> State:
    """What the results folder says of one cell."""
    try:
        said = json.loads((layout.cell(cell.key) / RECORD).read_bytes())
    except FileNotFoundError:
        return "failed" if layout.attempts(cell.key) else "missing"
    except (OSError, ValueError):
        return "changed"  # Something lies there that is no record; it is moved aside, not lost.
    good = isinstance(said, dict) and said.get("status", "good") == "good"
    return "good" if good and said.get("fingerprint") == cell.fingerprint else "changed"


def set_aside(cells: Iterable[PlannedCell], layout: Layout) -> None:
    """Move results that no longer count out of the way; nothing is deleted."""
    for cell in cells:
        here, there = layout.cell(cell.key), layout.superseded(cell.key)
        if here.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            here.rename(there)
