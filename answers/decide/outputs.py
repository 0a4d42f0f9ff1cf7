"""Whether the arm that is taken answered the same as the baseline, at the operating load alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from answers.decide.values import Cell, Decision
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader

if TYPE_CHECKING:
    import pandas as pd

#: Pairs of cells whose requests are read: more say nothing new and take long.
MOST_PAIRS = 6


@dataclass(frozen=True)
class Outputs:
    """How the outputs of ``arm`` and the baseline compare at one load. ``sentences`` say it for a
    person."""

    arm: str
    load: str
    pairs: int
    sentences: tuple[str, ...]


def outputs(reader: Reader, one: Decision) -> Outputs | None:
    """Compare the outputs behind a decision; None where nothing is taken at the operating load."""
    cell = operating_cell(one)
    return None if cell is None else outputs_of(reader, cell)


def outputs_of(reader: Reader, cell: Cell) -> Outputs | None:
    """Compare the outputs of the cells behind a field of the map; None where no pair is known."""
    if not cell.pairs:
        return None
    from analysis.evidence.output_check import check_outputs

    pairs = cell.pairs[:MOST_PAIRS]
    old, new = ([pair[at] for pair in pairs] for at in (0, 1))
    found = check_outputs(
        _requests(reader, old), _requests(reader, new), _greedy(reader, {*old, *new})
    )
    return Outputs(cell.arm, cell.load.text, len(pairs), found.sentences)


def operating_cell(one: Decision) -> Cell | None:
    """Return the field of the map at the operating load whose arm is told there."""
    level = one.operating
    load = level.stands_for or level.load
    there = [cell for cell in one.arms if (cell.load, cell.arm) == (load, level.arm)]
    return there[0] if there else None


def _requests(reader: Reader, cells: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    from analysis.evidence.output_check import COLUMNS

    parts: list[pd.DataFrame] = [
        queries.requests(reader, cell, COLUMNS).to_pandas().assign(pair=place)
        for place, cell in enumerate(cells)
    ]
    return pd.concat(parts)


def _greedy(reader: Reader, ids: set[str]) -> bool | None:
    """Whether every cell ran at temperature 0; None where one does not say."""
    cells = queries.cells(reader, Filters()).to_pandas()
    told = cells.loc[cells["cell_id"].isin(ids), "temperature"]
    return None if told.isna().any() else bool((told == 0).all())
