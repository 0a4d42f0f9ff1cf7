"""The map of loads and arms field by field, and the cells behind a field."""

from dataclasses import dataclass

from answers.decide.tables import NO_DRAFTS
from answers.decide.values import Cell, Decision, Difference
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store_read import Reader


@dataclass(frozen=True)
class Field:
    """One arm at one load, or the choice to draft nothing there (then ``difference`` is None).
    ``taken``: the decision takes it; ``cells``: ids of the cells behind it."""

    load: Load
    arm: str
    taken: bool
    difference: Difference | None
    launches: int
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a reader calls the field: ``ngram K=3 at 16 at once``."""
        return f"{self.arm} at {self.load.text}"


@dataclass(frozen=True)
class Behind:
    """A cell behind a field. ``cell``: its id."""

    cell: str
    arm: str
    repeat: int | None
    completed: int | None
    errored: int | None
    flags: int
    run: str


def fields(one: Decision) -> tuple[Field, ...]:
    """Return every field: the choice to draft nothing first, then the arms by method and K."""
    order = sorted(one.arms, key=lambda c: (c.method, c.num_speculative_tokens or 0, c.arm))
    return (*_without_drafts(one), *map(_field, order))


def _field(cell: Cell) -> Field:
    cells = tuple(new for _, new in cell.pairs)
    return Field(cell.load, cell.arm, cell.taken, cell.difference, cell.launches, cells)


def _without_drafts(one: Decision) -> tuple[Field, ...]:
    """Return a field for drafting nothing at each load, taken where the decision takes no arm."""
    idle = {level.load for level in one.levels if not level.drafts}
    found: dict[Load, dict[str, None]] = {}
    for cell in one.arms:
        found.setdefault(cell.load, {}).update((old, None) for old, _ in cell.pairs)
    return tuple(
        Field(load, NO_DRAFTS, load in idle, None, 0, tuple(cells)) for load, cells in found.items()
    )


def behind(reader: Reader, cells: tuple[str, ...]) -> tuple[Behind, ...]:
    """Return the cells of these ids."""
    rows = queries.cells(reader, Filters()).select(
        ["cell_id", "arm_label", "repeat", "completed", "errored", "flags", "run_id"]
    )
    wanted = set(cells)
    return tuple(Behind(*row.values()) for row in rows.to_pylist() if row["cell_id"] in wanted)
