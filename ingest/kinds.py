"""Which kind of prompt each request is: from a drop's record, or from the file of ``--categories``.

A kind is a word of the dataset's own: ``coding``, ``math``, ``translation``. Requests are known by the hash of their
prompt, so that a mapping fits a report whose texts were taken out. A file of ``--categories`` is one of: a JSON object
``{hash: category}``; rows (CSV, JSON, JSONL) with ``hash`` and ``category``; or the rows of a dataset as they are, with
the text under ``prompt`` or, as SPEED-Bench and Spec-Bench have it, the first of ``turns``.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.clean import clean_text
from warehouse.contract import MARKER, flatten_messages, hash_text
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.rows import REQUEST_SCHEMA, Cell

#: Columns that tell a prompt's hash, its text, and its kind.
_HASHES, _TEXTS, _KIND = ("hash", "prompt_hash"), ("prompt", "turns"), "category"
_HASH = re.compile(r"[0-9a-f]{32}")
#: A longer name of a kind is no name; of columns so many are named.
_LONGEST, _NAMED = 200, 12


# --- The file of ``--categories``.


def read_kinds(path: Path) -> dict[str, str]:
    """Return prompt hash -> category. Raises UnknownKey with one sentence: what, where, what to do."""
    try:
        rows = list(_rows(path.read_text(encoding="utf-8-sig"), path.suffix.lower()))
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise UnknownKey(
            f"--categories {path} cannot be read as CSV, JSON or JSONL ({error}); give a file of hash "
            "and category."
        ) from None
    found: dict[str, str] = {}
    for row in rows:
        # A number is a kind too, as the runner takes it.
        kind = "" if row.get(_KIND) is None else clean_text(str(row[_KIND]).strip())
        if not kind or len(kind) > _LONGEST:
            continue
        for hashed in _hashes(row, path):
            if found.setdefault(hashed, kind) != kind:
                raise UnknownKey(
                    f"--categories {path} has one prompt as {found[hashed]!r} and as {kind!r}; "
                    "leave one of them."
                )
    if not found:
        there = ", ".join(sorted({str(name) for row in rows for name in row})[:_NAMED])
        raise UnknownKey(
            f"--categories {path} has no row with {_KIND} and one of {', '.join((*_HASHES, *_TEXTS))}; "
            f"it has {clean_text(there) or 'no rows'}."
        )
    return found


def _rows(text: str, ending: str) -> Iterator[dict[str, Any]]:
    if ending == ".csv":
        yield from csv.DictReader(text.splitlines())
        return
    lines = (json.loads(line) for line in text.splitlines() if line.strip())
    said = list(lines) if ending == ".jsonl" else json.loads(text)
    if isinstance(said, dict):
        said = [{"hash": hashed, _KIND: kind} for hashed, kind in said.items()]
    if not isinstance(said, list) or not all(isinstance(row, dict) for row in said):
        raise ValueError("its rows have no columns")
    yield from said


def _hashes(row: Mapping[str, Any], path: Path) -> Iterator[str]:
    """Yield the hash that a row states, else those of its text as a prompt and as a chat of one turn."""
    if (stated := next((row[name] for name in _HASHES if row.get(name)), None)) is not None:
        hashed = str(stated).removeprefix(MARKER)
        if not _HASH.fullmatch(hashed):
            raise UnknownKey(
                f"--categories {path} has the hash {clean_text(str(stated)[:40])!r}; the hash of a prompt is "
                "the first 32 hex digits of its sha256."
            )
        yield hashed
        return
    text = next((row[name] for name in _TEXTS if row.get(name)), None)
    first = text[0] if isinstance(text, list) else text
    if isinstance(first, str) and first:
        yield hash_text(first)
        yield hash_text(flatten_messages([("user", first)]))


# --- Requests told apart by it.


@dataclass(frozen=True)
class PromptKinds:
    """What is known of a result's prompts. ``stated``: hash -> category of ``--categories``;
    ``recorded``: of a drop's record. ``used`` gets those of ``stated`` that the result has: with them
    it is read once more (``--rebuild``)."""

    stated: Mapping[str, str]
    recorded: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict)

    def added(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Yield the cells, the category of each request among its columns. Raises InvalidInput at
        their end where ``--categories`` fits none of them."""
        kind_of, any_request = {**self.recorded, **self.stated}, False
        for cell in cells:
            if cell.requests is None or not kind_of:
                yield cell
                continue
            hashes = cell.requests.column("prompt_hash").to_pylist()
            any_request |= any(hashed is not None for hashed in hashes)
            self.used.update((h, self.stated[h]) for h in hashes if h in self.stated)
            kinds = pa.array(map(kind_of.get, hashes), pa.string())
            column = REQUEST_SCHEMA.get_field_index(_KIND)
            requests = cell.requests.set_column(column, REQUEST_SCHEMA.field(column), kinds)
            yield replace(cell, requests=requests)
        if self.stated and not self.used:
            why = "has none of the prompts of --categories" if any_request else (
                "does not say what its requests asked, so --categories tells nothing of them"
            )  # fmt: skip
            raise InvalidInput(
                f"This result {why}: give the mapping of its own prompts, or take it in without."
            )
