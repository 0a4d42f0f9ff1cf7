"""A report format, as somebody adds it: the file of a load generator that only this test knows."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from analysis.canonical import Window, canonical, with_latencies
from ingest.model import Content, Context, Parsed
from ingest.read import json_bytes
from warehouse.contract import Facts
from warehouse.rows import COMPLETED, REQUEST_SCHEMA, Cell

NAME, KIND = "acme", "an Acme log"
_FLOATS = ("start", "first_token", "last_token", "end", "prompt_tokens", "output_tokens")


def sniff(data: memoryview) -> bool:
    """Its first word."""
    return bytes(data[:64]).lstrip().startswith(b'{"acme"')


def parse(content: Content, context: Context) -> Parsed:
    """One file is one cell."""
    said = json.loads(bytes(json_bytes(content.data)))["acme"]
    rows = said["requests"]
    columns = {name: np.array([row[name] for row in rows], float) for name in _FLOATS}
    columns["status"] = np.array([COMPLETED] * len(rows), dtype=object)
    full = with_latencies(columns, Window(None, None))
    cell_id = context.source_id()[:20]
    known = {
        **full,
        "cell_id": [cell_id] * len(rows),
        "index": list(range(len(rows))),
        "status": full["status"].tolist(),
    }
    arrays = [
        pa.array(known[field.name]).cast(field.type)
        if field.name in known
        else pa.nulls(len(rows), field.type)
        for field in REQUEST_SCHEMA
    ]
    cell = Cell(
        cell_id=cell_id, index=0, facts=Facts(**said["facts"], **context.facts),
        load_generator=NAME, load_generator_version="1.0", schema_generation="acme",
        reported_definition="unknown", run_id=said["run"],
        started_at=datetime(2026, 11, 1, tzinfo=UTC), duration=10.0, requests_made=len(rows),
        completed=len(rows), errored=0, incomplete=0, requests_complete=True, stop_reason=None,
        status="good", measurements=canonical(full, Window(None, None), 0, len(rows)),
        requests=pa.Table.from_arrays(arrays, schema=REQUEST_SCHEMA),
    )  # fmt: skip
    return Parsed(NAME, {}, iter([cell]))
