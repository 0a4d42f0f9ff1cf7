"""Traces: when requests came, and how long they and their answers were.

Read are BurstGPT's CSV (``Timestamp`` in seconds, ``Request tokens``, ``Response tokens``), Mooncake's
JSONL (``timestamp`` in milliseconds, ``input_length``, ``output_length``, ``hash_ids``), and JSONL of
one's own with ``timestamp`` in seconds. Texts are in none of them: prompts come from a dataset.
"""

import csv
import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.errors import StudyError

_MOST_BYTES = 1 << 30
#: A stillness that is this share of a trace and this long (s) is said: nothing is measured in it.
_GAP_SHARE, _GAP_S = 0.1, 60.0
_TIMES = ("timestamp", "relative_timestamp", "Timestamp")
_INPUTS = ("input_length", "Request tokens")
_OUTPUTS = ("output_length", "Response tokens")
_MILLISECONDS = 0.001


@dataclass(frozen=True)
class Arrival:
    """One request of a trace: seconds after the first, and tokens where the trace says them."""

    at: float
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Trace:
    """Arrivals in their order, as they are replayed."""

    name: str
    #: The first digits of the file's sha256.
    digest: str
    arrivals: tuple[Arrival, ...]

    @property
    def lasts_s(self) -> float:
        """The seconds from the first request to the last."""
        return self.arrivals[-1].at

    @property
    def gap(self) -> tuple[float, float] | None:
        """Start and length (s) of the longest time without requests, where it is a large part of
        the trace."""
        times = [arrival.at for arrival in self.arrivals]
        widest = max(itertools.pairwise(times), key=lambda two: two[1] - two[0], default=(0.0, 0.0))
        length = widest[1] - widest[0]
        large = length >= _GAP_S and length >= _GAP_SHARE * self.lasts_s
        return (widest[0], length) if large else None


def replayed(path: Path, speed: float = 1.0, seconds: float | None = None) -> Trace:
    """Return the trace in a file, ``speed`` times as fast; only what comes in its first ``seconds``
    then.

    Raises StudyError where it cannot be read, or holds times that nobody can replay.
    """
    try:
        told = path.stat()
    except OSError:
        raise StudyError(
            f"There is no trace {path}; a path in a study is relative to the study file."
        ) from None
    if told.st_size > _MOST_BYTES:
        raise StudyError(f"The trace {path.name} is larger than 1 GB; cut out the part to replay.")
    whole = _read(path, told.st_mtime_ns, told.st_size)
    fast = (Arrival(a.at / speed, a.input_tokens, a.output_tokens) for a in whole.arrivals)
    kept = tuple(a for a in fast if seconds is None or a.at < seconds)
    return Trace(whole.name, whole.digest, kept)


@lru_cache(maxsize=8)
def _read(path: Path, modified: int, size: int) -> Trace:
    """Read a file once as long as it does not change."""
    try:
        data = path.read_bytes()
        rows = list(_rows(path, data.decode("utf-8-sig")))
    except (OSError, ValueError, csv.Error) as error:
        raise StudyError(f"The trace {path.name} cannot be read: {error}.") from None
    if not rows:
        raise StudyError(f"The trace {path.name} has no requests.")
    arrivals = list(_arrivals(path.name, rows))
    start = arrivals[0].at
    moved = tuple(Arrival(a.at - start, a.input_tokens, a.output_tokens) for a in arrivals)
    return Trace(path.stem, hashlib.sha256(data).hexdigest()[:8], moved)


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".csv":
        for row in (reader := csv.DictReader(text.splitlines())):
            yield reader.line_num, dict(row)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object")
            yield number, row


def _arrivals(name: str, rows: list[tuple[int, dict[str, Any]]]) -> Iterator[Arrival]:
    unit = _MILLISECONDS if "hash_ids" in rows[0][1] else 1.0
    before = 0.0
    for line, row in rows:
        at = _time(name, line, row) * unit
        if at < before:
            raise StudyError(
                f"The trace {name} goes back in time on line {line}: {at:g} s after {before:g} s; "
                "sort it by its times."
            )
        before = at
        yield Arrival(at, _tokens(name, line, row, _INPUTS), _tokens(name, line, row, _OUTPUTS))


def _time(name: str, line: int, row: dict[str, Any]) -> float:
    said = next((row[key] for key in _TIMES if key in row), None)
    at = _number(said)
    if at is None:
        raise StudyError(
            f"The trace {name} has no time on line {line}; each request needs a timestamp, as "
            "BurstGPT's and Mooncake's files have."
        )
    if at < 0:
        raise StudyError(f"The trace {name} has the negative time {at:g} on line {line}.")
    return at


def _tokens(name: str, line: int, row: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    said = next((row[key] for key in keys if key in row), None)
    if said is None:
        return None
    count = _number(said)
    if count is None or count < 0 or count != int(count):
        raise StudyError(f"The trace {name} has {said!r} tokens on line {line}; that is no count.")
    return int(count)


def _number(said: Any) -> float | None:
    """Return a number, also one that stands in a CSV as text; None for anything else."""
    if isinstance(said, bool):
        return None
    try:
        number = float(said)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
