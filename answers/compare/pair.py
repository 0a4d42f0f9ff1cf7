"""One pair of cells in depth: what differs in their configuration, and how their requests fared."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.evidence.output_check import COLUMNS, check_outputs
from analysis.frames import records
from analysis.matching.difference import differences
from answers.compare.values import Comparison, Setting
from answers.compare.values import Pair as Met
from answers.compare.words import load_name
from warehouse import queries
from warehouse.filters import Filters
from warehouse.rows import COMPLETED
from warehouse.store import Reader

#: The metrics of single requests that are told as distributions.
DISTRIBUTIONS = ("ttft", "itl", "request_latency")
#: Requests of a cell that are told one by one; of more, every n-th one.
MOST_REQUESTS = 4000
_STARTED = ("commands", "environment", "settings")
_REQUESTS = ("status", "prompt_tokens", "ttft")
#: x, y
Point = tuple[float, float]


@dataclass(frozen=True)
class Pair:
    """Two cells that met, and what their arms are called; ``badges``: of their evidence."""

    name: str
    reference_cell: str
    arm_cell: str
    reference: str
    arm: str
    badges: tuple[str, ...]

    @property
    def cells(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The name of each arm and the id of its cell."""
        return (self.reference, self.reference_cell), (self.arm, self.arm_cell)


@dataclass(frozen=True)
class Differs:
    """A setting in which two cells differ, and both values; None where one does not state it."""

    setting: str
    reference: str | None
    arm: str | None


@dataclass(frozen=True)
class Distribution:
    """One metric's distribution by arm: the value that a share (0-1) of the requests took at
    most."""

    metric: str
    arms: tuple[tuple[str, tuple[Point, ...]], ...]


@dataclass(frozen=True)
class FirstTokens:
    """Prompt tokens and time to first token (ms) of an arm's requests; ``total``: how many there
    are, where not all are told."""

    arm: str
    points: tuple[Point, ...]
    total: int


@dataclass(frozen=True)
class Requests:
    """The requests of both cells; ``outputs``: whether they answer the same, in sentences."""

    distributions: tuple[Distribution, ...]
    first_tokens: tuple[FirstTokens, ...]
    outputs: tuple[str, ...]


def pairs(found: Comparison, setting: Setting) -> tuple[Pair, ...]:
    """Return every pair of a setting by arm, load and repeat; those of one name are numbered."""
    named: dict[str, Pair] = {}
    for arm in setting.arms:
        for met in arm.pairs:
            name = _distinct(_name(arm.name, met), named)
            named[name] = Pair(
                name, met.reference_cell, met.arm_cell, found.reference, arm.name, arm.badges
            )
    return tuple(named.values())


def _name(arm: str, met: Met) -> str:
    name = f"{arm}, {load_name(met.load)}"
    return name if met.repeat is None else f"{name}, repeat {met.repeat}"


def _distinct(name: str, taken: dict[str, Pair]) -> str:
    number = 1 + sum(known == name or known.startswith(f"{name} (") for known in taken)
    return name if number == 1 else f"{name} ({number})"


def configuration(reader: Reader, pair: Pair) -> tuple[Differs, ...]:
    """Return all in which the two cells and their servers differ. Both cells are read even if a
    filter hides one."""
    cells = queries.cells(reader, Filters()).to_pandas()
    runs = queries.runs(reader, Filters()).to_pandas()
    before, after = (_record(cell, cells, runs) for _, cell in pair.cells)
    return tuple(
        Differs(change.field, _said(change.before), _said(change.after))
        for change in differences(before, after)
    )


def _record(cell_id: str, cells: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    """Return a cell's row, with the columns of its run that say how it was started."""
    cell = records(cells[cells["cell_id"] == cell_id])[0]
    same = (runs["source_id"] == cell["source_id"]) & (runs["run_id"] == cell["run_id"])
    run = records(runs[same])[0]
    return {**{name: run[name] for name in _STARTED}, **cell}


def _said(value: Any) -> str | None:
    if value is None:
        return None
    # A whole number in a column that also has gaps comes as a float.
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def requests(reader: Reader, pair: Pair) -> Requests:
    """Return the requests of both cells. Raises WarehouseDamaged where a file of them is
    missing."""
    columns = list(dict.fromkeys((*_REQUESTS, *COLUMNS)))
    rows = {arm: queries.requests(reader, cell, columns).to_pandas() for arm, cell in pair.cells}
    one, other = rows.values()
    check = check_outputs(one, other, _greedy(reader, pair))
    return Requests(
        tuple(_distributions(reader, pair)),
        tuple(_first_tokens(arm, known) for arm, known in rows.items()),
        check.sentences,
    )


def _distributions(reader: Reader, pair: Pair) -> Iterator[Distribution]:
    for metric in DISTRIBUTIONS:
        found = []
        for arm, cell in pair.cells:
            table = queries.request_distribution(reader, cell, metric)
            shares, values = (table.column(name).to_pylist() for name in ("share", "value"))
            found.append((arm, tuple(zip(shares, values, strict=True))))
        if any(points for _, points in found):
            yield Distribution(metric, tuple(found))


def _first_tokens(arm: str, rows: pd.DataFrame) -> FirstTokens:
    done = rows[rows["status"] == COMPLETED][["prompt_tokens", "ttft"]].dropna().astype("float64")
    some = done.iloc[:: len(done) // MOST_REQUESTS + 1]
    return FirstTokens(arm, tuple(some.itertuples(index=False, name=None)), len(done))


def _greedy(reader: Reader, pair: Pair) -> bool | None:
    """Whether both cells ran at temperature 0; None where one does not say."""
    cells = queries.cells(reader, Filters()).to_pandas().set_index("cell_id")
    told = cells.loc[[cell for _, cell in pair.cells], "temperature"]
    return None if told.isna().any() else bool((told == 0).all())
