"""What is measured already: good cells are never run again, a changed study says which it loses.

A cell is good if what was measured is what the study asks for now; what was set aside and fits
again is brought back.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runners.measuring.layout import RECORD, Layout
from runners.measuring.measured import differences
from runners.measuring.software import Software, differs, of_record
from runners.planning.plan import Plan, PlannedCell

State = Literal["good", "changed", "failed", "missing"]
#: The hash of a cell's prompts as they are now; None where it cannot be told.
HashOf = Callable[[PlannedCell], str | None]


def unhashed(cell: PlannedCell) -> str | None:
    """Return None as the hash of a cell's prompts, for callers who do not read the datasets:
    prompts are then known by the study's words alone."""
    return None


@dataclass(frozen=True)
class Now:
    """What a cell would be measured with now; what is unknown is not held against a result."""

    software: Software = Software()
    prompts: HashOf = unhashed


@dataclass(frozen=True)
class Found:
    """What the results folder says of one cell."""

    state: State
    folder: Path | None = None
    why: tuple[str, ...] = ()
    """Of a changed cell: the facts that differ."""
    back: Path | None = None
    """A result that was set aside and is good again."""


@dataclass(frozen=True)
class Progress:
    """The cells of a plan by what the results folder holds of them."""

    good: tuple[PlannedCell, ...]
    changed: tuple[PlannedCell, ...]
    """Cells that were measured well, but under a study that said something else of them."""
    failed: tuple[PlannedCell, ...]
    missing: tuple[PlannedCell, ...]
    found: dict[str, Found] = field(default_factory=dict)
    """By the keys of the cells."""

    @property
    def to_run(self) -> tuple[PlannedCell, ...]:
        """All cells but the good ones, in the order of the plan."""
        return tuple(sorted(self.changed + self.failed + self.missing, key=lambda c: c.order))

    @property
    def returning(self) -> tuple[PlannedCell, ...]:
        """Cells that need not be run: what was set aside of them is good again."""
        return tuple(cell for cell in self.to_run if self.found[cell.key].back is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The facts in which changed cells differ, each once."""
        said = [name for cell in self.changed for name in self.found[cell.key].why]
        return tuple(dict.fromkeys(said))


def look(
    plan: Plan, layout: Layout, cells: Iterable[PlannedCell] | None = None, now: Now | None = None
) -> Progress:
    """Read the records of a plan's cells, or of some of them."""
    asked = plan.cells if cells is None else tuple(cells)
    found = {cell.key: state(cell, layout, now or Now()) for cell in asked}

    def those(wanted: State) -> tuple[PlannedCell, ...]:
        return tuple(cell for cell in asked if found[cell.key].state == wanted)

    return Progress(those("good"), those("changed"), those("failed"), those("missing"), found)


def state(cell: PlannedCell, layout: Layout, now: Now) -> Found:
    """Return what the results folder says of one cell; results of another software are other
    cells."""
    changed: Found | None = None
    place = layout.cell(cell.key, now.software.name)
    for folder in layout.cells(cell.key):
        record = _record(folder)
        if record is None:
            changed = Found("changed", folder, ("its record cannot be read",))
        elif other := differs(of_record(record), now.software):
            # Of the same version, but e.g. another executable: they cannot lie side by side.
            changed = Found("changed", folder, tuple(other)) if folder == place else changed
        else:
            why = tuple(differences(record, cell.asked, now.prompts(cell)))
            if not why:
                return Found("good", folder)
            changed = Found("changed", folder, why)
    back = _returning(cell, layout, now)
    if changed is not None:
        return Found("changed", changed.folder, changed.why, back)
    return Found("failed" if layout.attempts(cell.key) else "missing", back=back)


def unlike(plan: Plan, layout: Layout, now: Now) -> tuple[str, ...]:
    """Return the facts in which results that lie there differ from what the plan would measure now,
    each once: also those of another software, which lie beside as other cells."""
    said = (why for cell in plan.cells for why in _unlike(cell, layout, now))
    return tuple(dict.fromkeys(said))


def _unlike(cell: PlannedCell, layout: Layout, now: Now) -> Iterator[str]:
    for folder in layout.cells(cell.key):
        if (record := _record(folder)) is not None:
            yield from differs(of_record(record), now.software)
            yield from differences(record, cell.asked, now.prompts(cell))


def _returning(cell: PlannedCell, layout: Layout, now: Now) -> Path | None:
    for folder in layout.set_aside(cell.key):
        record = _record(folder)
        if record is None or differs(of_record(record), now.software):
            continue
        if not differences(record, cell.asked, now.prompts(cell)):
            return folder
    return None


def _record(folder: Path) -> dict[str, Any] | None:
    """Return a good cell's record; None for what is none."""
    try:
        said = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return None  # Something lies there that is no record; it is moved aside, not lost.
    return said if isinstance(said, dict) and said.get("status", "good") == "good" else None


def set_aside(folders: Iterable[Path | None], layout: Layout, replaced: bool = False) -> None:
    """Move results that no longer count out of the way; nothing is deleted.

    ``replaced``: they are measured again though they fit, so they are not brought back.
    """
    for here in folders:
        if here is not None and here.exists():
            there = layout.superseded(here, replaced)
            there.parent.mkdir(parents=True, exist_ok=True)
            here.rename(there)


def bring_back(found: Progress, layout: Layout) -> None:
    """Move results that were set aside and are good again back to their places; what lies there is
    set aside."""
    for cell in found.returning:
        one = found.found[cell.key]
        assert one.back is not None
        set_aside([one.folder], layout)
        inside = one.back.relative_to(layout.root / ".superseded")
        one.back.rename((layout.root / inside).with_name(inside.name.rpartition(".")[0]))
