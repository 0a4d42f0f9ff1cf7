"""A published result set: what it claims, and whether that follows from its own requests."""

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
    found = list(_differences("", json.loads(claimed), claims_json(reader)))
    more = [f"{len(found) - _FIRST:,} more claims do not follow."] if len(found) > _FIRST else []
    return (*found[:_FIRST], *more)


def _differences(place: str, claimed: Any, again: Any) -> Iterator[str]:
    if isinstance(claimed, dict) and isinstance(again, dict):
        for name in {**claimed, **again}:
            yield from _differences(
                f"{place}.{name}".lstrip("."), claimed.get(name), again.get(name)
            )
    elif isinstance(claimed, list) and isinstance(again, list) and len(claimed) == len(again):
        for index, pair in enumerate(zip(claimed, again, strict=True)):
            yield from _differences(f"{place}[{index}]", *pair)
    else:
        both_float = isinstance(claimed, float) and isinstance(again, float)
        if not (_near(claimed, again, _CLOSE) if both_float else claimed == again):
            texts = (json.dumps(value, ensure_ascii=False) for value in (claimed, again))
            said, comes = (x if len(x) <= 120 else f"{x[:119]}…" for x in texts)
            yield f"claims.json says {place} = {said}, and the set comes to {comes}."


def _near(one: float, other: float, share: float) -> bool:
    return abs(one - other) <= share * max(abs(one), abs(other))


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
    # What the counts of drafts and accepted tokens come to, cell by cell.
    accepted: dict[str, dict[tuple[str, str], float]] = {}
    for row in queries.acceptance(reader, Filters()).to_pylist():
        for metric, column in _COUNTED.items():
            if row[column] is not None:
                accepted.setdefault(row["cell_id"], {})[metric, "mean"] = row[column]
    wrong: list[str] = []
    numbers = without = 0
    for cell in queries.cells(reader, Filters()).to_pylist():
        cell_id = cell["cell_id"]
        rows = queries.cell_measurements(reader, cell_id).to_pylist()
        known = {
            (r["metric"], r["statistic"]): r["value"] for r in rows if r["origin"] == "canonical"
        }
        if not known:
            without += 1
            continue
        found = dict(accepted.get(cell_id, {}))
        columns = _columns_of_requests(queries.requests(reader, cell_id))
        if len(columns["status"]):
            window = _window(cell, columns)
            values = canonical(columns, window, cell["errored"], cell["completed"])
            found = {(one.metric, one.statistic): one.value for one in values} | found
        numbers += len(known)
        for key, value in sorted(known.items()):
            again = found.get(key)
            if again is None or not _near(again, value, _EQUAL):
                place = f"{cell['arm_label']}, {cell['dataset']}, cell {cell_id}"
                told = "nothing" if again is None else f"{again:,.6g}"
                wrong.append(
                    f"{place}: {key[0]} {key[1]} is {value:,.6g}, and its requests come to {told}."
                )
    return Recomputed(tuple(wrong), numbers - len(wrong), without)


def _columns_of_requests(rows: pa.Table) -> Columns:
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
    edges = []
    for edge in (begin, begin + cell["duration"]):
        nearest = float(moments[np.argmin(np.abs(moments - edge))])
        edges.append(nearest if abs(nearest - edge) <= _EDGE_S else edge)
    return Window(*edges)
