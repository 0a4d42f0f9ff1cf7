"""Rows of ingest turned into Arrow tables, one per table of the store; bad rows are refused here."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from warehouse.arms import arm_label
from warehouse.catalogue import METRICS, STATISTICS
from warehouse.contract import FACT_KEYS
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Measurement, Source

_INT, _TEXT, _REAL, _BOOL = pa.int64(), pa.string(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", "UTC")
_JSON_FACTS = ("server_args", "engine_settings", "speculative_config")
_FACT_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(FACT_KEYS, _TEXT),
    **dict.fromkeys(("repeat", "gpu_count", "tensor_parallel_size", "seed", "max_tokens"), _INT),
    **dict.fromkeys(("concurrency", "num_speculative_tokens"), _INT),
    **dict.fromkeys(("temperature", "top_p", "rate"), _REAL),
    **dict.fromkeys(("prefix_caching", "ignore_eos", "synthetic_acceptance"), _BOOL),
}
_COUNTS = ("requests_made", "completed", "errored", "incomplete")
_CELL_TEXTS = (
    "run_id", "load_generator", "load_generator_version", "schema_generation",
    "reported_definition", "stop_reason", "status",
)  # fmt: skip

#: The columns of each batch, by table of ``schema.sql``.
BATCHES: dict[str, pa.Schema] = {
    "sources": pa.schema(
        {
            **dict.fromkeys(("source_id", "path", "format", "provenance"), _TEXT),
            **dict.fromkeys(("commands", "environment", "settings", "report_config"), _TEXT),
            "bytes": _INT,
            "ingested_at": _TIME,
        }
    ),
    "request_files": pa.schema({"file": _TEXT, "sha256": _TEXT, "rows": _INT, "bytes": _INT}),
    "cells": pa.schema(
        {
            "cell": _INT,
            "cell_id": _TEXT,
            "source_id": _TEXT,
            "index": _INT,
            "arm_label": _TEXT,
            "comparable_as": _TEXT,
            "flags": _INT,
            **_FACT_TYPES,
            **dict.fromkeys(_CELL_TEXTS, _TEXT),
            **dict.fromkeys(_COUNTS, _INT),
            "requests_complete": _BOOL,
            "started_at": _TIME,
            "order": _INT,
            "duration": _REAL,
        }
    ),
    "cell_requests": pa.schema({"cell": _INT, "file": _TEXT, "rows": _INT}),
    "measurements": pa.schema(
        {
            **{"cell": _INT, "origin": _TEXT, "metric": _TEXT, "statistic": _TEXT},
            **{"value": _REAL, "preferred": _BOOL},
        }
    ),
    "acceptance": pa.schema(
        {
            **{"cell": _INT, "source": _TEXT, "drafts": _INT, "draft_tokens": _INT},
            **{"accepted_tokens": _INT, "rate": _REAL, "mean_length": _REAL},
        }
    ),
    "acceptance_by_position": pa.schema(
        {"cell": _INT, "source": _TEXT, "position": _INT, "rate": _REAL}
    ),
    "flags": pa.schema({"cell": _INT, "name": _TEXT, "severity": _TEXT, "sentence": _TEXT}),
    "samples": pa.schema({"cell": _INT, "at": _REAL, "name": _TEXT, "value": _REAL}),
}

#: The columns of ``rejections``, which are kept apart from the sources.
REJECTIONS = pa.schema({"path": _TEXT, "reason": _TEXT, "rejected_at": _TIME})

#: Rows by table. Those of ``measurements``, a hundred per cell, are tuples in their schema's order.
Rows = dict[str, list[Any]]


def source_row(source: Source) -> dict[str, Any]:
    """Return one row of ``sources``; the mappings become JSON text."""
    row = asdict(source)
    for key in ("commands", "environment", "settings", "report_config"):
        row[key] = json.dumps(row[key], sort_keys=True, default=str)
    return {**row, "ingested_at": datetime.now(UTC)}


def add_cell(rows: Rows, number: int, source_id: str, cell: Cell) -> None:
    """Append everything of one cell except its requests. Raises InvalidInput on bad numbers."""
    _check_measurements(cell)
    rows["cells"].append(_cell_row(number, source_id, cell))
    rows["measurements"] += _measurement_rows(number, cell.measurements)
    for a in cell.acceptance:
        row = asdict(a)
        positions = row.pop("by_position")
        rows["acceptance"].append({"cell": number, **row})
        rows["acceptance_by_position"] += (
            {"cell": number, "source": a.source, "position": i, "rate": rate}
            for i, rate in enumerate(positions)
        )
    rows["flags"] += ({"cell": number, **asdict(flag)} for flag in cell.flags)
    rows["samples"] += (
        {"cell": number, **asdict(sample)} for sample in cell.samples if math.isfinite(sample.value)
    )


def as_table(name: str, rows: Sequence[Any]) -> pa.Table:
    """Return the rows as one batch. Raises InvalidInput where a number is beyond range."""
    try:
        if rows and isinstance(rows[0], tuple):
            columns = zip(*rows, strict=True)
            arrays = map(pa.array, map(list, columns), BATCHES[name].types)
            return pa.table(list(arrays), schema=BATCHES[name])
        return pa.Table.from_pylist(list(rows), schema=BATCHES[name])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidInput(
            f"A value of {name} is beyond what can be stored ({error}); correct it in the report."
        ) from error


def _cell_row(number: int, source_id: str, cell: Cell) -> dict[str, Any]:
    facts = {key: getattr(cell.facts, key) for key in FACT_KEYS}
    for key in _JSON_FACTS:
        facts[key] = None if facts[key] is None else json.dumps(facts[key], sort_keys=True)
    return {
        **facts,
        **{key: getattr(cell, key) for key in (*_CELL_TEXTS, *_COUNTS)},
        "cell": number,
        "cell_id": cell.cell_id,
        "source_id": source_id,
        "index": cell.index,
        "arm_label": arm_label(
            cell.facts.spec_method,
            cell.facts.num_speculative_tokens,
            cell.facts.speculative_config,
        ),
        "comparable_as": comparable_as(cell),
        "flags": len(cell.flags),
        "requests_complete": cell.requests_complete,
        "started_at": _utc(cell.started_at),
        "order": cell.order,
        "duration": cell.duration,
    }


#: Counted by the server, so canonical whatever the report holds.
_OF_THE_SERVER = (
    "acceptance_rate", "mean_acceptance_length", "kv_cache_tokens", "prefix_cache_hit_rate",
)  # fmt: skip


def comparable_as(cell: Cell) -> str:
    """Return with which cells a cell's numbers compare: ``canonical`` where its requests were
    measured anew, else ``reported: <definition>``."""
    if any(m.origin == "canonical" and m.metric not in _OF_THE_SERVER for m in cell.measurements):
        return "canonical"
    return f"reported: {cell.reported_definition}"


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC)


def _measurement_rows(number: int, given: Iterable[Measurement]) -> list[tuple[Any, ...]]:
    given = tuple(given)
    canonical = {(m.metric, m.statistic) for m in given if m.origin == "canonical"}
    return [
        (number, m.origin, m.metric, m.statistic, m.value,
         m.origin == "canonical" or (m.metric, m.statistic) not in canonical)
        for m in given
    ]  # fmt: skip


def _check_measurements(cell: Cell) -> None:
    given = cell.measurements
    distinct = {(m.origin, m.metric, m.statistic) for m in given}
    for metric, statistic in {(metric, statistic) for _, metric, statistic in distinct}:
        if metric not in METRICS or statistic not in STATISTICS:
            raise InvalidInput(
                f"{metric} {statistic} of cell {cell.index} is not in the metric catalogue; "
                f"correct the reader."
            )
    for m in given:
        if not math.isfinite(m.value):
            raise InvalidInput(
                f"{m.metric} {m.statistic} ({m.origin}) of cell {cell.index} is {m.value}, "
                f"not a number; correct the report."
            )
    if len(distinct) != len(given):
        raise InvalidInput(
            f"{_twice(given)} of cell {cell.index} is given twice; correct the report."
        )


def _twice(given: Iterable[Measurement]) -> str:
    counts = Counter(f"{m.metric} {m.statistic} ({m.origin})" for m in given)
    return counts.most_common(1)[0][0]
