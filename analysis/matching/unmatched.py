"""Why a cell is in no pair, told by the nearest cell that could have been its partner."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.matching.fields import MATCH_FIELDS, conflicts, differing, loads_of
from analysis.matching.nearest import nearest

Rows = NDArray[np.int64]


#: Where these differ, two cells answer two questions: nothing is gained by comparing them.
_OTHER_QUESTIONS = frozenset({"model", "dataset", "load", "evidence"})
_MOST = 4


def named(where: NDArray[np.bool_], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return for each row the names of the fields that are true; rows alike share one tuple."""
    seen: dict[bytes, tuple[str, ...]] = {}
    for row in where:
        if row.tobytes() not in seen:
            seen[row.tobytes()] = tuple(n for n, yes in zip(names, row, strict=True) if yes)
    return [seen[row.tobytes()] for row in where]


def unmatched(
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, chosen: pd.DataFrame,
    allow: Collection[str] = (),
) -> pd.DataFrame:  # fmt: skip
    """Return cell_id and reason of each cell that is in no pair.

    ``codes`` has the fields that had to be equal; only these are named in a reason. ``kind`` says
    what each cell is: baseline, speculative, failed or unknown. ``allow``: the fields, or single
    server arguments, that might differ.
    """
    used = np.zeros(len(cells), dtype=bool)
    used[chosen["b"].to_numpy()] = used[chosen["s"].to_numpy()] = True
    reasons: dict[int, str] = {}
    for name, text in _PLAIN_REASONS.items():
        reasons |= dict.fromkeys(np.flatnonzero(kind == name).tolist(), text)
    for mine, theirs in (("speculative", "baseline"), ("baseline", "speculative")):
        lonely = np.flatnonzero((kind == mine) & ~used)
        near = nearest(codes.to_numpy(), lonely, np.flatnonzero(kind == theirs))
        told = _reasons(cells, codes, (lonely, near), (theirs, allow))
        reasons |= zip(lonely.tolist(), told, strict=True)
    ids = cells["cell_id"].to_numpy()
    rows = [(ids[row], reasons[row]) for row in sorted(reasons)]
    return pd.DataFrame(rows, columns=["cell_id", "reason"])


_PLAIN_REASONS = {
    "failed": "this cell failed, so it is not compared",
    "unknown": "whether it speculates is unknown: ingest it again with --replace and set "
    "spec_method (none for a baseline)",
}


def _reasons(
    cells: pd.DataFrame, codes: pd.DataFrame, rows: tuple[Rows, Rows],
    sought: tuple[str, Collection[str]],
) -> Iterator[str]:  # fmt: skip
    """Yield why each of the first ``rows`` has no partner; the second ``rows`` are their
    nearest. ``sought``: what a partner is, and in what it might differ."""
    matrix, ids = codes.to_numpy(), cells["cell_id"].to_numpy()
    values = {name: cells[name].to_numpy(dtype=object) for name in codes if name in cells}
    if "load" in codes:
        texts = [None if load is None else load.text for load in loads_of(cells)]
        values["load"] = np.array(texts, dtype=object)
    fields, (theirs, allow) = tuple(map(str, codes)), sought
    names = named(conflicts(matrix[rows[0]], matrix[rows[1]], fields), fields)
    for row, other, differ in zip(*(r.tolist() for r in rows), names, strict=True):
        if other < 0:
            yield f"there is no good {theirs} cell among those chosen"
        elif not differ:
            yield "another baseline suits each of its possible partners better"
        else:
            both = {name: (values[name][row], values[name][other]) for name in differ}
            yield f"nearest {theirs} {ids[other]} differs: {_told(both, allow)}"


def _told(both: dict[str, tuple[Any, Any]], allow: Collection[str]) -> str:
    """Return in what two cells differ, and what would compare them all the same."""
    found = dict(both)
    if "server_args" in both:
        alone = differing(*both["server_args"])
        alone = {name: values for name, values in alone.items() if name not in allow}
        # Of more nobody reads which they are.
        if 0 < len(alone) <= _MOST:
            del found["server_args"]
            found |= alone
    told = "; ".join(
        f"{MATCH_FIELDS.get(name, name)} is {shown(here)} here and {shown(there)} there"
        for name, (here, there) in found.items()
    )
    if not _OTHER_QUESTIONS.isdisjoint(found):
        return told
    # An option may stand several times, so what was allowed before is allowed still.
    options = " ".join(f"--allow {name}" for name in (*allow, *found))
    return f"{told}: compare all the same with {options}"


def shown(value: Any) -> str:
    """Write a fact as a sentence says it."""
    if value is None or pd.isna(value):
        return "unknown"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
