"""A cell that was measured again, held against its original by the rules of every decision."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.effects import again as evidence
from analysis.evidence.output_check import COLUMNS, check_outputs
from analysis.frames import records
from answers.again import words
from answers.again.words import Again, Line
from answers.compare.pair import Differs, Pair, configuration
from answers.ground import JUDGED, Rows, rows_of
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

Floats = NDArray[np.float64]
#: What says when, where and by which command something was measured: what matters of it is a fact, and
#: the prompts were found to be the same.
_PASSING = (
    "commands", "environment.asked", "environment.dataset", "environment.folder", "environment.placement",
    "environment.scheduler", "settings", "study",
)  # fmt: skip


def again(reader: Reader, original: str, siblings: Sequence[str], launches: Sequence[str]) -> Again:
    """Return whether a cell that was measured again came out as it did before. ``original``,
    ``siblings`` and ``launches`` are the paths that the drops were ingested from.

    Raises InvalidInput where one of them is not in the warehouse.
    """
    rows = rows_of(reader, queries.cells(reader, Filters()).to_pandas(), Filters())
    cells = dict(zip(rows.cells["path"], rows.cells["cell_id"].astype(str), strict=True))
    missing = [path for path in (original, *siblings, *launches) if path not in cells]
    if missing:
        raise InvalidInput(f"{missing[0]} holds no result that can be compared.")
    one, others, later = cells[original], [cells[p] for p in siblings], [cells[p] for p in launches]
    lines = _lines(rows, one, others, later)
    found = rows.cells.set_index("cell_id")
    return Again(
        cell=str(found.loc[one, "run_id"]).rpartition("#")[0],
        status=words.status_of(lines),
        headline=words.headline(lines),
        launches=len(later),
        siblings=len(others),
        lines=lines,
        differs=_differs(reader, one, later[0]),
        outputs=_outputs(reader, rows, one, later[0]),
        doubts=tuple(_doubts(rows, one, later)),
    )


def _lines(rows: Rows, one: str, others: list[str], later: list[str]) -> tuple[Line, ...]:
    """Return the judged figures that every launch has, where all of their values are above zero."""
    wide = rows.measurements.astype({"metric": str, "statistic": str}).pivot(
        index="cell_id", columns=["metric", "statistic"], values="value"
    )
    names = [line for line in JUDGED if line in wide.columns]
    table = wide[names].reindex([one, *others, *later])
    whole = [name for name in names if bool((table[name] > 0).all())]
    if not whole:
        return ()
    values = table[whole].to_numpy(dtype=np.float64)
    split = 1 + len(others)
    lower = np.array([METRICS[metric].better == "lower" for metric, _ in whole])
    told = evidence(values[0], values[1:split], values[split:], lower)
    return tuple(
        _line(name, values[0, at], values[split:, at], row)
        for at, (name, row) in enumerate(zip(whole, records(told), strict=True))
    )


def _line(name: tuple[str, str], then: float, now: Floats, row: dict[str, Any]) -> Line:
    ends = ("low", "high", "adjusted_low", "adjusted_high")
    low, high, adjusted_low, adjusted_high = (
        None if pd.isna(row[end]) else float(row[end]) for end in ends
    )
    return Line(
        *name, original=float(then), again=float(np.exp(np.log(now).mean())),
        lowest=float(now.min()), highest=float(now.max()), improvement=float(row["improvement"]),
        low=low, high=high, adjusted_low=adjusted_low, adjusted_high=adjusted_high,
        word=row["word"],
    )  # fmt: skip


def _differs(reader: Reader, one: str, other: str) -> tuple[Differs, ...]:
    found = configuration(reader, Pair("", one, other, "original", "again", ()))
    return tuple(
        each
        for each in found
        if not any(each.setting == p or each.setting.startswith(f"{p}.") for p in _PASSING)
    )


def _outputs(reader: Reader, rows: Rows, one: str, other: str) -> tuple[str, ...]:
    then, now = (queries.requests(reader, cell, COLUMNS).to_pandas() for cell in (one, other))
    told = rows.cells.set_index("cell_id").loc[[one, other], "temperature"]
    greedy = None if told.isna().any() else bool((told == 0).all())
    return words.outputs(check_outputs(then, now, greedy))


def _doubts(rows: Rows, one: str, later: list[str]) -> list[str]:
    """Return what flags say of the original and of its repetition; what they say of both, once."""
    then, now = _sentences(rows, [one]), _sentences(rows, later)
    return [
        *(sentence for sentence in then if sentence in now),
        *(f"original: {sentence}" for sentence in then if sentence not in now),
        *(f"again: {sentence}" for sentence in now if sentence not in then),
    ]


def _sentences(rows: Rows, cells: list[str]) -> list[str]:
    flags = records(rows.flags[rows.flags["cell_id"].isin(cells)])
    return list(dict.fromkeys(str(f["sentence"]) for f in flags if f["severity"] != "info"))
