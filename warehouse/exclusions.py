"""Which runs are left out of an answer, in words; and a run found by what people call it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from warehouse import annotations, queries
from warehouse.annotations import Annotation, Target
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.store_read import Reader

Row = Mapping[str, Any]

#: Runs that are named in a sentence; of the others the number is told.
_NAMED = 3
_LONGEST_REASON = 160
_DIGITS = 8
_ANNOTATIONS = pa.schema(
    {
        "said_at": pa.timestamp("us", "UTC"),
        "author": pa.string(),
        "action": pa.string(),
        "run_id": pa.string(),
        "source_id": pa.string(),
        "night": pa.string(),
        "study": pa.string(),
        "series": pa.string(),
        "text": pa.string(),
    }
)


def left_out(root: Path, filters: Filters) -> list[Annotation]:
    """Return the exclusions of the runs that ``filters`` would keep, newest run first."""
    if not annotations.excluded_runs(root):
        return []
    with Reader(root, everything=True) as reader:
        return left_out_of(reader, filters)


def left_out_of(reader: Reader, filters: Filters) -> list[Annotation]:
    """Return the exclusions of the runs that ``filters`` would keep, newest run first. ``reader``
    sees the excluded runs too."""
    excluded = annotations.excluded_runs(reader.root)
    rows = queries.runs(reader, filters).select(["run_id", "source_id"]).to_pylist()
    targets = (annotations.run(row["run_id"], row["source_id"]) for row in rows)
    return [excluded[target] for target in targets if target in excluded]


def sentence(found: Sequence[Annotation]) -> str:
    """Say which runs are excluded and why, ``3 runs are excluded by name: GPU throttled (a, b); old
    driver (c).``; empty where none is."""
    if not found:
        return ""
    reasons: dict[str, list[str]] = {}
    for event in found:
        reasons.setdefault(_short(event.text), []).append(event.target.name)
    parts = [f"{reason} ({_listed(names, ', ')})" for reason, names in reasons.items()]
    many = "1 run is" if len(found) == 1 else f"{len(found):,} runs are"
    return f"{many} excluded by name: {_listed(parts, '; ')}."


def _listed(names: Sequence[str], between: str) -> str:
    """Join the first few names, and say how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return between.join(names[:_NAMED]) + more


def _short(text: str) -> str:
    text = text.rstrip(".")
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 1]}…"


def run_name(row: Row) -> str:
    """Return a name for a run that no other run has: its id and the first digits of its source."""
    return f"{row['run_id']}@{row['source_id'][:_DIGITS]}"


def find_run(rows: Sequence[Row], word: str) -> Target:
    """Return the run that ``word`` names: its id, ``id@source``, its path, or how one of them
    begins.

    ``rows``: as ``queries.runs``. Raises UnknownKey where it names none, with the nearest ids, or
    several, with their names.
    """
    found = _named(rows, word)
    if len(found) == 1:
        return annotations.run(found[0]["run_id"], found[0]["source_id"])
    if not found:
        raise UnknownKey(f"There is no run {word!r}; {_nearest(rows, word)}")
    names = [f"{run_name(row)} ({_started(row)})" for row in found]
    raise UnknownKey(
        f"{word!r} names {len(found):,} runs; name one of them: {_listed(names, ', ')}."
    )


def _named(rows: Sequence[Row], word: str) -> list[Row]:
    """Return the runs that the word names, in the first way of reading it that finds any."""
    plain = word.rstrip("/")
    ways: tuple[Callable[[Row], bool], ...] = (
        lambda row: (
            word
            in (row["run_id"], run_name(row), f"{row['run_id']} ({row['source_id'][:_DIGITS]})")
        ),
        lambda row: row["path"].rstrip("/") == plain,
        lambda row: row["run_id"].startswith(word) or row["path"].startswith(word),
    )
    for way in ways:
        found = [row for row in rows if way(row)]
        if found and word:
            return found
    return []


def _nearest(rows: Sequence[Row], word: str) -> str:
    ids = list(dict.fromkeys(str(row["run_id"]) for row in rows))
    near = difflib.get_close_matches(word, ids, _NAMED, cutoff=0.4)
    if not near:
        return "`draftboard runs --json` lists run_id and path."
    return f"the nearest are {', '.join(near)}."


def _started(row: Row) -> str:
    return f"{row['started_at']:%Y-%m-%d %H:%M}" if row["started_at"] else "unknown when"


def annotations_table(root: Path) -> pa.Table:
    """Return every event as a row: said_at (UTC), author, action, run_id, source_id, night, study,
    series, text."""
    rows = [
        {"said_at": event.at, "author": event.author, "action": event.action, "text": event.text}
        | vars(event.target)
        for event in annotations.read(root)
    ]
    return pa.Table.from_pylist(rows, schema=_ANNOTATIONS)
