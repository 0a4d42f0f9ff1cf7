"""Reads a table of one row a run, CSV or JSON, by a map of its columns.

A row that cannot be read refuses the table.
"""

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.matching.guess import BASELINE
from ingest.level import STATISTICS, LevelReport, cells_of, is_number, left_out
from ingest.model import Context, FileContent, Parsed, json_bytes
from ingest.settings import checked_facts
from ingest.stated import belongs, in_its_unit, lines, load_yaml, refusal, shown
from warehouse.catalogue import METRICS
from warehouse.contract import FACT_KEYS, Facts
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.rows import Acceptance, Measurement

# --- ``--columns FILE``: what the columns of a table of one row a run mean, in the catalogue's words.
# docs/ingest.md shows one.


#: What is counted of a run beside its metrics, and how long it took.
NUMBERS = ("completed", "errored", "duration", "drafts", "draft_tokens", "accepted_tokens")
#: Where the rows of a JSON object stand.
_ROWS = "rows"
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

    @property
    def name(self) -> str:
        """How an error names it."""
        return "--columns:" if self.column is None else f"column {self.column!r}:"

    def of(self, row: "Row") -> Any:
        value = self.value if self.column is None else row.get(self.column)
        return value.strip() if isinstance(value, str) else value

    def meant(self, value: Any) -> Any:
        """Return what a value means; a number as its text, as in a CSV. YAML takes ``off`` and
        ``no`` for false.
        """
        text = str(value) if is_number(value) else value
        spelled = _SPELLED.get(str(text).lower(), text)
        return self.values.get(str(text), self.values.get(str(spelled), text))


@dataclass(frozen=True)
class ColumnMap:
    """A map that was read and checked; ``stated`` is what it was made of."""

    facts: Mapping[str, Column]
    numbers: Mapping[str, Column]
    metrics: Mapping[tuple[str, str], Column]
    rows: str | None
    stated: Mapping[str, Any]

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
        raise UnknownKey(f"--columns {path}: {str(error).replace('--set ', '', 1)}") from None


def column_map(stated: Mapping[str, Any]) -> ColumnMap:
    """Return the map of what a file of it holds. Raises UnknownKey."""
    facts, numbers, metrics = {}, {}, {}
    for name, entry in stated.items():
        if name in FACT_KEYS:
            facts[name] = _column(name, entry, None)
        elif name in NUMBERS:
            numbers[name] = _column(name, entry, "s" if name == "duration" else "count")
        elif name != _ROWS:
            metric, statistic = _metric(name)
            metrics[metric, statistic] = _column(name, entry, METRICS[metric].unit)
    if not metrics:
        raise UnknownKey("It names no metric, such as output_throughput or ttft_p99.")
    return ColumnMap(facts, numbers, metrics, stated.get(_ROWS), stated)


def _metric(name: str) -> tuple[str, str]:
    """Return the metric and the statistic of ``ttft_p99``; without one it is the mean."""
    metric, _, word = (name, "", "mean") if name in METRICS else name.rpartition("_")
    statistic = STATISTICS.get(word)
    if metric in METRICS and statistic in METRICS[metric].statistics:
        return metric, statistic
    known = [*FACT_KEYS, *NUMBERS, *METRICS]
    near = difflib.get_close_matches(name, [*known, *(f"{one}_p99" for one in METRICS)], n=3)
    hint = f"did you mean {' or '.join(near)}" if near else f"known are {', '.join(known)}"
    raise UnknownKey(
        f"{name!r} is no fact, count or metric; {hint} (a statistic stands behind it: ttft_p99)."
    )


def _column(name: str, told: Any, ours: str | None) -> Column:
    """Return where a name's value stands. ``ours``: our unit; None where the value is no number. A
    time says its unit, or its column's name ends with it: ``…_ms``, ``…_s``.
    """
    said = told if isinstance(told, dict) else {"column": told}
    if set(said) - {"column", "value", "unit", "values"} or ("column" in said) == ("value" in said):
        raise UnknownKey(
            f"{name!r} is a column, or an object with either column or value, and with unit or values; "
            "write it so."
        )
    column = None if "value" in said else str(said["column"])
    value, unit = said.get("value"), said.get("unit")
    if ours is None:
        found = Column(column, value, values=said.get("values") or {})
        if column is None:
            checked_facts({name: found.meant(value)})
        return found
    if ours in ("ms", "s"):
        unit = unit or next((u for u in ("ms", "s") if (column or "").endswith(f"_{u}")), None)
        if unit is None:
            raise UnknownKey(
                f"{name!r} is a time: say its unit, as {{column: {column or ''}, unit: ms}} or s."
            )
        metric = "request_latency" if ours == "s" else "ttft"
        return Column(column, value, in_its_unit(metric, {"unit": unit}, ours, name))
    known = _UNITS_OF_A_RATIO if ours == "ratio" else {ours: 1.0}
    if unit is not None and unit not in known:
        raise UnknownKey(f"{name!r} has the unit {unit!r}; it may be {' or '.join(known)}.")
    return Column(column, value, known[unit or ours])


# --- Reads a table of one row a run, CSV or JSON, by a map of its columns.


NAME = "table"

Row = Mapping[str, Any]
#: What tables hold where there is no number.
_NO_NUMBERS = ("", "-", "nan", "null", "none", "n/a", "na")
_ENDLESS = ("inf", "infinity")
#: What says in a column of methods that there was none.
_NO_METHOD = ("baseline", "off", "no", "false", "0")
_NOTHING = re.compile(r"(?!)")


def parse(content: FileContent, context: Context, columns: ColumnMap) -> Parsed:
    """Read a table; each row is a cell. Raises InvalidInput that names the row and the column."""
    rows = _rows(json_bytes(content.data), columns.rows)
    there = {name for row in rows for name in row}
    if lacking := sorted(columns.columns - there):
        raise InvalidInput(
            f"--columns names the column {lacking[0]!r}, which this table lacks; it has "
            f"{', '.join(sorted(there)[:40])}."
        )
    numbered = list(enumerate(rows, start=1))
    cells = cells_of("Row", numbered, partial(_level, columns), context, always=True)
    return Parsed(NAME, {"rows": len(rows)}, cells)


def _rows(data: memoryview, name: str | None) -> list[Row]:
    what = "This table"
    try:
        if bytes(data[:4096]).lstrip()[:1] not in (b"{", b"["):
            return list(_csv(data))
        try:
            said = json.loads(bytes(data))
        except ValueError:
            said = []
            for number, line in lines(data):
                what = f"Line {number} of this table"
                said.append(json.loads(bytes(line)))
    except (ValueError, RecursionError, csv.Error) as error:
        raise refusal(what, error) from None
    if name is not None and isinstance(said, dict):
        said = said.get(name)
    rows = said if isinstance(said, list) else [said]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InvalidInput(f"Row {number} of this table is no object: give one object a run.")
    return list(map(_flat, rows))


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": one for inner, one in _flat(value).items()}
        else:
            found[key] = value
    return found


def _csv(data: memoryview) -> Iterator[Row]:
    text = bytes(data).decode("utf-8-sig")
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    read = (row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row)
    header = [name.strip() for name in next(read, [])]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"This table has two columns {twice!r}: give each a name of its own.")
    for number, row in enumerate(read, start=1):
        if len(row) != len(header):
            raise InvalidInput(
                f"Row {number} of this table has {len(row)} values for {len(header)} columns: mend it, "
                "or write it anew."
            )
        yield dict(zip(header, row, strict=True))


def _level(columns: ColumnMap, row: Row) -> LevelReport:
    counts = {name: _number(row, one) for name, one in columns.numbers.items()}
    reported = {key: _number(row, one) for key, one in columns.metrics.items()}
    if all(value is None for value in reported.values()):
        raise InvalidInput("It holds none of the metrics that --columns names; leave it out.")
    duration = counts.pop("duration", None)
    for name, value in counts.items():
        if value is not None and value != int(value):
            raise InvalidInput(f"{name} is {shown(value)} where a whole number belongs; mend it.")
    whole = {name: int(value) for name, value in counts.items() if value is not None}
    others = {name: _as_number(value) for name, value in row.items() if name not in columns.columns}
    return LevelReport(
        generator=NAME,
        facts={key: _fact(row, key, one) for key, one in columns.facts.items()},
        reported=(
            Measurement("reported", metric, statistic, value)
            for (metric, statistic), value in reported.items() if value is not None
        ),
        completed=whole.get("completed"),
        errored=whole.get("errored"),
        duration=duration,
        acceptance=_acceptance(whole, reported),
        flags=tuple(left_out(others, _NOTHING)),
    )  # fmt: skip


def _acceptance(
    counts: Mapping[str, int], reported: Mapping[tuple[str, str], float | None]
) -> tuple[Acceptance, ...]:
    if "drafts" not in counts:
        return ()
    drafts, drafted, accepted = map(counts.get, ("drafts", "draft_tokens", "accepted_tokens"))
    rate, length = (
        reported.get((metric, "mean")) for metric in ("acceptance_rate", "mean_acceptance_length")
    )
    if accepted is not None:
        rate = accepted / drafted if rate is None and drafted else rate
        length = 1 + accepted / drafts if length is None and drafts else length
    # As of vLLM's bench: what the load generator itself says.
    return (Acceptance("vllm_bench", drafts, drafted, accepted, rate, length),)


def _fact(row: Row, key: str, one: Column) -> Any:
    value = one.meant(one.of(row))
    if value in (None, "") or str(value).lower() in _ENDLESS:
        return None
    if key == "spec_method" and str(value).lower() in _NO_METHOD:
        value = BASELINE
    try:
        return getattr(Facts(**{key: value}), key)
    except ValidationError as error:
        raise InvalidInput(
            f"{one.name} {shown(value)} is no {key}: {belongs(error)} belongs there."
        ) from None


def _number(row: Row, one: Column) -> float | None:
    value = one.of(row)
    if value is None or str(value).lower() in (*_NO_NUMBERS, *_ENDLESS):
        return None
    number = _as_number(value)
    if number is None:
        raise InvalidInput(f"{one.name} {shown(value)} is no number; mend it, or leave it empty.")
    return number * one.factor if math.isfinite(number) else None


def _as_number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
