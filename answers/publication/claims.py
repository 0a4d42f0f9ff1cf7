"""What a published set claims: the decisions that its numbers come to, as JSON."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.canonical import Columns, Window, canonical
from answers.decide import values as decide_contract
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from warehouse import queries
from warehouse.filters import Filters
from warehouse.json_text import json_text
from warehouse.store import Reader

Json = dict[str, Any]
_CLOSE = 1e-9
_FIRST = 20


def claims_json(reader: Reader) -> Json:
    """Return the decisions on everything that the warehouse holds."""
    told = {"decide": decide_contract.as_json(decide(reader, DecideQuestion()))}
    plain: Json = json.loads(json_text(told))
    return plain


def contradictions(reader: Reader, claimed: str) -> tuple[str, ...]:
    """Return a sentence for each place at which claims (JSON text) differ from what the warehouse's
    numbers come to."""
    found = list(_apart("", json.loads(claimed), claims_json(reader)))
    more = [f"{len(found) - _FIRST:,} more claims do not follow."] if len(found) > _FIRST else []
    return (*found[:_FIRST], *more)


def _apart(place: str, claimed: Any, again: Any) -> Iterator[str]:
    if isinstance(claimed, dict) and isinstance(again, dict):
        for name in {**claimed, **again}:
            yield from _apart(f"{place}.{name}".lstrip("."), claimed.get(name), again.get(name))
    elif isinstance(claimed, list) and isinstance(again, list) and len(claimed) == len(again):
        for index, pair in enumerate(zip(claimed, again, strict=True)):
            yield from _apart(f"{place}[{index}]", *pair)
    elif not _same(claimed, again):
        yield f"claims.json says {place} = {_short(claimed)}, and the set comes to {_short(again)}."


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _CLOSE * max(abs(one), abs(other))
    return bool(one == other)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"


# --- Whether the numbers of a warehouse follow from the requests that lie beside them.


#: A window's edges are kept to the microsecond; an edge that is a request's own moment is that moment.
_EDGE_S = 2e-6
#: What rounding to a microsecond may change of a rate, as a share.
_EQUAL = 1e-6
_MOMENTS = ("start", "first_token", "last_token", "end")
#: Counted by the server or stated for each request; what they were computed from stands beside them.
_COUNTED = {"acceptance_rate": "rate", "mean_acceptance_length": "mean_length"}


@dataclass(frozen=True)
class Recomputed:
    """``wrong``: a sentence for each number that does not follow; ``numbers``: how many do;
    ``without``: cells whose report had no requests to follow from."""

    wrong: tuple[str, ...]
    numbers: int
    without: int


def recompute(reader: Reader) -> Recomputed:
    """Compute every canonical measurement of every cell again from its requests, those of excluded
    runs too."""
    cells = queries.cells(reader, Filters()).to_pylist()
    accepted = _accepted(reader)
    wrong: list[str] = []
    numbers = without = 0
    for cell in cells:
        cell_id = cell["cell_id"]
        rows = queries.cell_measurements(reader, cell_id).to_pylist()
        known = {
            (r["metric"], r["statistic"]): r["value"] for r in rows if r["origin"] == "canonical"
        }
        if not known:
            without += 1
            continue
        found = _found(reader, cell) | accepted.get(cell["cell_id"], {})
        numbers += len(known)
        wrong += _differing(cell, known, found)
    return Recomputed(tuple(wrong), numbers - len(wrong), without)


_Values = dict[tuple[str, str], float]


def _accepted(reader: Reader) -> dict[str, _Values]:
    """Return what the counts of drafts and accepted tokens come to, cell by cell."""
    found: dict[str, _Values] = {}
    for row in queries.acceptance(reader, Filters()).to_pylist():
        for metric, column in _COUNTED.items():
            if row[column] is not None:
                found.setdefault(row["cell_id"], {})[metric, "mean"] = row[column]
    return found


def _found(reader: Reader, cell: dict[str, Any]) -> _Values:
    columns = _columns(queries.requests(reader, cell["cell_id"]))
    if not len(columns["status"]):
        return {}
    known = canonical(columns, _window(cell, columns), cell["errored"], cell["completed"])
    return {(one.metric, one.statistic): one.value for one in known}


def _columns(rows: pa.Table) -> Columns:
    """Return the columns that formulas read, NaN for unknown."""
    numbers = {
        field.name: rows.column(field.name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        for field in rows.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }
    status = np.array(rows.column("status").to_pylist(), dtype=object)
    inside = rows.column("in_window").to_numpy(zero_copy_only=False)
    return {**numbers, "status": status, "in_window": inside}


def _window(cell: dict[str, Any], columns: Columns) -> Window:
    """Return the measured window as ingest had it: only GuideLLM states one."""
    if cell["load_generator"] != "guidellm" or None in (cell["started_at"], cell["duration"]):
        return Window(None, None)
    begin = cell["started_at"].timestamp()
    moments = np.concatenate([columns[name] for name in _MOMENTS])
    moments = moments[~np.isnan(moments)]
    return Window(_at(moments, begin), _at(moments, begin + cell["duration"]))


def _at(moments: Any, edge: float) -> float:
    nearest = float(moments[np.argmin(np.abs(moments - edge))])
    return nearest if abs(nearest - edge) <= _EDGE_S else edge


def _differing(cell: dict[str, Any], known: _Values, found: _Values) -> Iterator[str]:
    for key, value in sorted(known.items()):
        again = found.get(key)
        if again is None or abs(again - value) > _EQUAL * max(abs(again), abs(value)):
            place = f"{cell['arm_label']}, {cell['dataset']}, cell {cell['cell_id']}"
            told = "nothing" if again is None else f"{again:,.6g}"
            yield f"{place}: {key[0]} {key[1]} is {value:,.6g}, and its requests come to {told}."
