"""Reads a file as ingest does, without a warehouse."""

import json
from pathlib import Path
from typing import Any

from ingest.discovery import sniff, with_companions
from ingest.model import Context, open_content
from warehouse.loads import load_of
from warehouse.rows import Cell

FIXTURES = Path(__file__).parents[2] / "fixtures" / "readers"
SOURCE = "a" * 64


def cells(path: Path, keep_text: bool = False, **facts: Any) -> list[Cell]:
    """The cells of a file with what lies beside it."""
    content = with_companions(open_content(path))
    # A thread hashes the mapped file, which the test may write anew.
    content.sha256()
    return list(sniff(content).parse(content, Context(lambda: SOURCE, facts, keep_text)).cells)


def cell(path: Path, **facts: Any) -> Cell:
    """The one cell of a file."""
    (found,) = cells(path, **facts)
    return found


def written(path: Path, *objects: Any, lines: bool = False) -> Path:
    """A file of one JSON value, or of one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, objects)) if lines else json.dumps(objects[0], indent=2)
    path.write_text(text, encoding="utf-8")
    return path


def values(found: Cell, origin: str) -> dict[tuple[str, str], float]:
    """The measurements of one origin by metric and statistic, each once."""
    rows = [m for m in found.measurements if m.origin == origin]
    made = {(m.metric, m.statistic): m.value for m in rows}
    assert len(made) == len(rows)
    return made


def load(found: Cell) -> str | None:
    """The load in words."""
    facts = found.facts
    told = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    return None if told is None else told.text
