"""What a load generator says of one level, and the cell that it becomes.

A reader says what its file holds, in the catalogue's words and units; what can be recomputed from
requests is recomputed here, once for every reader. A report without request records is as good a
cell as any: its values are those reported.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analysis.canonical import Window, canonical, with_latencies
from analysis.evidence.answer_texts import is_json, repeats
from ingest.model import Context
from ingest.stated import number
from ingest.unreadable import refusal
from warehouse.catalogue import METRICS, QUANTILES, REQUEST_METRICS
from warehouse.contract import Facts, is_redacted
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED, REQUEST_SCHEMA, Acceptance, Cell, Flag, Measurement
from warehouse.secrets import scrub_text

Columns = dict[str, NDArray[Any]]

_MOMENTS = ("start", "first_token", "last_token", "end")
_FLOATS = (*_MOMENTS, "prompt_tokens", "output_tokens")
#: ``p99``, ``p99.9``, ``99``, ``median`` and their kin, as the catalogue names them.
STATISTICS = {
    **{
        word: name
        for name, q in QUANTILES.items()
        for word in (name, f"p{q * 100:g}", f"{q * 100:g}", f"{q * 100:.1f}")
    },
    "p0p1": "p001", "p99p9": "p999", "median": "p50", "mean": "mean", "avg": "mean",
    "average": "mean", "std": "std", "stddev": "std", "std_dev": "std", "min": "min", "max": "max",
}  # fmt: skip

FAILED = Flag("failed", "error", "This run failed: none of its requests succeeded.")
#: Why lists that hold one member for each request are refused.
DIFFER = (
    "The lists of requests in this file differ in length; it was altered or cut short, run the "
    "benchmark again."
)
NOT_COUNTED = Flag(
    "requests_not_counted",
    "info",
    "The report does not say how many requests were made, nor how many of them failed.",
)


@dataclass(frozen=True)
class Requests:
    """The request records of a level: every request that was made, in one order."""

    columns: Mapping[str, Any]
    """``start``, ``first_token``, ``last_token``, ``end`` (s, one clock), ``prompt_tokens``,
    ``output_tokens``, each a sequence with None or NaN for unknown; what is left out is unknown."""
    errors: list[str | None]
    """What went wrong; None for a completed request."""
    more: Mapping[str, list[Any]] = field(default_factory=dict)
    """Further columns of REQUEST_SCHEMA, e.g. ``prompt_hash``, ``output``."""
    timed: bool = True
    """False where requests do not say when they began: their latencies are known, their throughput
    is not. ``start`` is then 0 for each."""


@dataclass(frozen=True)
class Level:
    """One level of a benchmark as its file tells it. None: the file does not say."""

    generator: str
    facts: Mapping[str, Any]
    reported: Iterable[Measurement]
    completed: int | None
    errored: int | None = 0
    incomplete: int = 0
    version: str | None = None
    definition: str | None = None
    """Whose definitions the reported values follow, where not the generator's own."""
    started_at: datetime | None = None
    duration: float | None = None
    acceptance: tuple[Acceptance, ...] = ()
    flags: tuple[Flag, ...] = ()
    requests: Requests | None = None


def cell_of(level: Level, context: Context, index: int = 0) -> Cell:
    """Return the cell of a level, a failed one where nothing succeeded. Raises InvalidInput where a
    fact is out of range."""
    failed = level.completed is not None and level.completed <= 0
    cell_id = hashlib.sha256(f"{context.source_id()}:{index}".encode()).hexdigest()[:20]
    full = None if level.requests is None else _columns(level.requests)
    said = {key: value for key, value in level.facts.items() if value is not None}
    return Cell(
        cell_id=cell_id,
        index=index,
        facts=Facts(**(said | context.facts)),
        load_generator=level.generator,
        load_generator_version=level.version,
        schema_generation=level.generator,
        reported_definition=level.definition or level.generator,
        run_id=context.source_id()[:20],
        started_at=level.started_at,
        duration=level.duration,
        requests_made=_made(level),
        completed=level.completed or 0,
        errored=level.errored or 0,
        incomplete=level.incomplete,
        requests_complete=full is not None,
        stop_reason=None,
        status="failed" if failed else "good",
        measurements=() if failed else (*_finite(level.reported), *_recomputed(level, full)),
        acceptance=() if failed else level.acceptance,
        flags=(*level.flags, *([FAILED] if failed else _uncounted(level))),
        requests=None if full is None else _table(cell_id, level.requests, full, context),
    )


def _made(level: Level) -> int | None:
    if level.completed is None or level.errored is None:
        return None
    return level.completed + level.errored + level.incomplete


def _uncounted(level: Level) -> tuple[Flag, ...]:
    return () if _made(level) is not None else (NOT_COUNTED,)


def reported(
    metric: str, said: Any, factor: float = 1.0, only: tuple[str, ...] = ()
) -> Iterator[Measurement]:
    """Yield what a mapping of statistics says of a metric, times ``factor``; each statistic once.

    ``said`` may be a plain number, which is a mean. ``only``: these words and no others. Raises
    InvalidInput for a statistic that is no number.
    """
    words = said if isinstance(said, Mapping) else {"mean": said}
    found: dict[str, float] = {}
    for word in words:
        statistic = STATISTICS.get(str(word))
        known = statistic in METRICS[metric].statistics and (not only or word in only)
        if not statistic or not known:
            continue
        value = number(words, word, f"{METRICS[metric].label}, {word},")
        if value is not None:
            found.setdefault(statistic, value * factor)
    for statistic, value in found.items():
        yield Measurement("reported", metric, statistic, value)


def flat(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the members ``mean_NAME``, ``p99_NAME`` … of a flat object as a mapping of
    statistics."""
    return {
        key.removesuffix(f"_{name}"): value
        for key, value in members.items()
        if key.endswith(f"_{name}")
    }


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number that can be stored."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _finite(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    return (one for one in measurements if math.isfinite(one.value))


def _columns(requests: Requests) -> Columns:
    n = len(requests.errors)
    columns: Columns = {name: _floats(requests.columns.get(name), n) for name in _FLOATS}
    if not requests.timed:
        columns["start"] = np.zeros(n)
    failed = np.array([error is not None for error in requests.errors], dtype=bool)
    columns["status"] = np.where(failed, ERRORED, COMPLETED).astype(object)
    for earlier, later in (
        ("start", "first_token"),
        ("first_token", "last_token"),
        ("start", "end"),
    ):
        if np.any(columns[later][~failed] < columns[earlier][~failed] - 1e-3):
            raise InvalidInput(
                f"A completed request has a negative duration ({later} before {earlier}): the "
                "file is damaged or its clock jumped; run the benchmark again."
            )
    return with_latencies(columns, Window(None, None))


def _floats(values: Any, n: int) -> NDArray[Any]:
    if values is None:
        return np.full(n, np.nan)
    if len(values) != n:
        raise InvalidInput(DIFFER)
    return np.array(values, dtype=np.float64)


def _recomputed(level: Level, full: Columns | None) -> Iterator[Measurement]:
    """Yield the measurements that follow from the requests: without their times the latencies
    only."""
    if full is None or level.requests is None:
        return
    for one in canonical(full, Window(None, None), level.errored or 0, level.completed or 0):
        if level.requests.timed or one.metric in REQUEST_METRICS:
            yield one
    texts = zip(level.requests.more.get("output", ()), level.requests.errors, strict=False)
    yield from of_texts(text for text, error in texts if error is None)


def of_texts(texts: Iterable[str | None]) -> Iterator[Measurement]:
    """Yield the shares of completed answers that repeat themselves and that are JSON. None and a redacted text
    are unknown; where no text says anything, nothing is known."""
    known = [text for text in texts if text is not None and not is_redacted(text)]
    for metric, judge in (("repeating_answers", repeats), ("json_answers", is_json)):
        if any(known):
            yield Measurement("canonical", metric, "mean", sum(map(judge, known)) / len(known))


def _table(
    cell_id: str, requests: Requests | None, full: Columns, context: Context
) -> pa.Table | None:
    assert requests is not None
    n = len(requests.errors)
    known: dict[str, Any] = {
        name: values for name, values in full.items() if name in REQUEST_SCHEMA.names
    }
    if not requests.timed:
        known |= dict.fromkeys(_MOMENTS)
    known |= {key: values for key, values in requests.more.items() if _kept(key, context)}
    known["cell_id"], known["index"] = [cell_id] * n, range(n)
    known["error"] = [scrub_text(error) if error else None for error in requests.errors]
    arrays = [_array(known.get(one.name), one, n) for one in REQUEST_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=REQUEST_SCHEMA)


def _kept(column: str, context: Context) -> bool:
    return column not in ("prompt", "output") or context.keep_text


def _array(values: Any, one: pa.Field, n: int) -> pa.Array:
    if values is None:
        return pa.nulls(n, one.type)
    is_plain = isinstance(values, np.ndarray) and values.dtype == np.float64
    try:
        return pa.array(values if is_plain else list(values), from_pandas=is_plain).cast(one.type)
    except (pa.ArrowException, OverflowError) as error:
        raise refusal(f"What its requests say of {one.name}", error) from None


def contradicted(metric: str, said: Any, counted: float | None) -> Iterator[Flag]:
    """Yield a flag where a file states another mean, in the metric's unit, than its values have."""
    if is_number(said) and counted is not None and not math.isclose(said, counted, rel_tol=0.02):
        label, unit = METRICS[metric].label, METRICS[metric].unit
        yield Flag(
            "reported_differs",
            "warning",
            f"{label}: the result says {said:,.4g}, what it holds gives {counted:,.4g} {unit}.",
        )


# --- Numbers of a file that nobody reads: named, so that none is left out in silence.


_NAMED, _LONGEST = 8, 60


def left_out(said: Mapping[str, Any], known: re.Pattern[str]) -> Iterator[Flag]:
    """Yield one flag that names the numbers of a file, and objects that hold some, whose names ``known``
    does not fit: neither read, nor known to follow from what is."""
    names = [key for key, value in said.items() if _counts(value) and not known.fullmatch(key)]
    if names:
        shown = ", ".join(scrub_text(name[:_LONGEST]) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield Flag("not_read", "info", f"Numbers of this file that were not read: {shown}{more}.")


def _counts(value: Any) -> bool:
    return is_number(value) or (isinstance(value, dict) and any(map(is_number, value.values())))
