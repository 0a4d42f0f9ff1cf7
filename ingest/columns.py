"""``--columns FILE``: what the columns of a table of one row a run mean, in the catalogue's words.

The file is YAML::

    spec_method: {column: model, values: {baseline: none}}
    gpu: {value: H200}
    concurrency: offered_concurrency
    output_throughput: aggregate_output_tps
    ttft_p99: {column: p99_ttft_s, unit: s}
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.level import STATISTICS, is_number
from ingest.settings import checked_facts
from ingest.stated import in_its_unit
from ingest.yaml_text import load_yaml
from warehouse.catalogue import METRICS
from warehouse.contract import FACT_KEYS
from warehouse.errors import InvalidInput, UnknownKey

#: What is counted of a run beside its metrics, and how long it took.
NUMBERS = ("completed", "errored", "duration", "drafts", "draft_tokens", "accepted_tokens")
#: Where the rows of a JSON object stand.
_ROWS = "rows"
_MEMBERS = ("column", "value", "unit", "values")
_SPELLED = {**dict.fromkeys(("off", "no"), "False"), **dict.fromkeys(("on", "yes"), "True")}
_UNITS_OF_A_RATIO = {"ratio": 1.0, "%": 0.01, "percent": 0.01}


@dataclass(frozen=True)
class Column:
    """Where a value stands: in a column, or ``value`` for all rows. ``factor`` makes our unit of its
    number, ``values`` our words of its own."""

    column: str | None
    value: Any = None
    factor: float = 1.0
    values: Mapping[str, Any] = field(default_factory=dict)

    def meant(self, value: Any) -> Any:
        """Return what a value means; a number as its text, as in a CSV. YAML takes ``off`` and ``no``
        for false."""
        text = str(value) if is_number(value) else value
        spelled = _SPELLED.get(str(text).lower(), text)
        return self.values.get(str(text), self.values.get(str(spelled), text))


@dataclass(frozen=True)
class ColumnMap:
    """A map that was read and checked; ``said`` is what it was made of."""

    facts: Mapping[str, Column]
    numbers: Mapping[str, Column]
    metrics: Mapping[tuple[str, str], Column]
    rows: str | None
    said: Mapping[str, Any]

    @property
    def columns(self) -> set[str]:
        """The columns that it names."""
        every = (*self.facts.values(), *self.numbers.values(), *self.metrics.values())
        return {one.column for one in every if one.column is not None}


def read_columns(path: Path) -> ColumnMap:
    """Read a map. Raises UnknownKey with one sentence: what, where, what is known."""
    try:
        return column_map(load_yaml(memoryview(path.read_bytes()), "a map of columns"))
    except (OSError, InvalidInput, UnknownKey) as error:
        said = str(error).replace("--set ", "", 1)
        raise UnknownKey(f"--columns {path}: {said}") from None


def column_map(said: Mapping[str, Any]) -> ColumnMap:
    """Return the map of what a file of it holds. Raises UnknownKey."""
    facts, numbers, metrics = {}, {}, {}
    for name, told in said.items():
        if name == _ROWS:
            continue
        if name in FACT_KEYS:
            facts[name] = _column(name, told, None)
        elif name in NUMBERS:
            numbers[name] = _column(name, told, "s" if name == "duration" else "count")
        else:
            metric, statistic = _metric(name)
            metrics[metric, statistic] = _column(name, told, METRICS[metric].unit)
    if not metrics:
        raise UnknownKey("It names no metric, such as output_throughput or ttft_p99.")
    return ColumnMap(facts, numbers, metrics, said.get(_ROWS), said)


def _metric(name: str) -> tuple[str, str]:
    """Return the metric and the statistic of ``ttft_p99``; without one it is the mean."""
    metric, _, word = name.rpartition("_")
    statistic = STATISTICS.get(word)
    if name in METRICS:
        metric, statistic = name, "mean"
    if metric in METRICS and statistic in METRICS[metric].statistics:
        return metric, statistic
    known = [*FACT_KEYS, *NUMBERS, *METRICS]
    near = difflib.get_close_matches(name, [*known, *(f"{one}_p99" for one in METRICS)], n=3)
    hint = f"did you mean {' or '.join(near)}" if near else f"known are {', '.join(known)}"
    raise UnknownKey(
        f"{name!r} is no fact, count or metric; {hint} (a statistic stands behind it: ttft_p99)."
    )


def _column(name: str, told: Any, unit: str | None) -> Column:
    """Return where a name's value stands. ``unit``: ours; None where the value is no number."""
    said = told if isinstance(told, dict) else {"column": told}
    if set(said) - set(_MEMBERS) or ("column" in said) == ("value" in said):
        raise UnknownKey(
            f"{name!r} is a column, or an object with either column or value, and with unit or values; "
            "write it so."
        )
    column = None if "value" in said else str(said["column"])
    if unit is None:
        found = Column(column, said.get("value"), values=said.get("values") or {})
        if column is None:
            checked_facts({name: found.meant(found.value)})
        return found
    return Column(column, said.get("value"), _factor(name, column or "", said.get("unit"), unit))


def _factor(name: str, column: str, stated: Any, ours: str) -> float:
    """Return what makes our unit of a column's number. A time says its unit, or its column's name ends
    with it: ``…_ms``, ``…_s``."""
    if ours in ("ms", "s"):
        unit = stated or next((u for u in ("ms", "s") if column.endswith(f"_{u}")), None)
        if unit is None:
            raise UnknownKey(
                f"{name!r} is a time: say its unit, as {{column: {column}, unit: ms}} or s."
            )
        metric = "request_latency" if ours == "s" else "ttft"
        return in_its_unit(metric, {"unit": unit}, ours, name)
    known = _UNITS_OF_A_RATIO if ours == "ratio" else {ours: 1.0}
    if stated is not None and stated not in known:
        raise UnknownKey(f"{name!r} has the unit {stated!r}; it may be {' or '.join(known)}.")
    return known[stated or ours]
