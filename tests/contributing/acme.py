"""A report format, as somebody adds it: the file of a load generator that only this test knows."""

import json
from datetime import UTC, datetime

from ingest.level import LevelReport, LevelRequests, cell_of
from ingest.model import Context, FileContent, Parsed, json_bytes

NAME, KIND = "acme", "an Acme log"
_COLUMNS = ("start", "first_token", "last_token", "end", "prompt_tokens", "output_tokens")


def sniff(data: memoryview) -> bool:
    """Its first word."""
    return bytes(data[:64]).lstrip().startswith(b'{"acme"')


def parse(content: FileContent, context: Context) -> Parsed:
    """One file is one cell."""
    said = json.loads(bytes(json_bytes(content.data)))["acme"]
    rows = said["requests"]
    level = LevelReport(
        generator=NAME, facts=said["facts"], reported=(), completed=len(rows), version="1.0",
        definition="unknown", run_id=said["run"], started_at=datetime(2026, 11, 1, tzinfo=UTC),
        duration=10.0,
        requests=LevelRequests(
            {name: [row[name] for row in rows] for name in _COLUMNS}, [None] * len(rows)
        ),
    )  # fmt: skip
    return Parsed(NAME, {}, iter([cell_of(level, context)]))
