"""What a load generator says of one level, and the cell that it becomes.

A reader says what its file holds, in the catalogue's words and units; what can be recomputed from
requests is recomputed here, once for every reader. A report without request records is as good a
cell as any: its values are those reported.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analysis.canonical import Window, canonical, ends_of, with_latencies
from analysis.evidence.answer_texts import is_json, repeats
from ingest.model import Context
from ingest.stated import in_its_unit, number, part, refusal, section
from warehouse.catalogue import METRICS, QUANTILES, REQUEST_METRICS
from warehouse.contract import Facts, is_redacted
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED, REQUEST_SCHEMA, Acceptance, Cell, Flag, Measurement
from warehouse.secrets import scrub_text

Columns = dict[str, NDArray[Any]]

MOMENTS = ("start", "first_token", "last_token", "end")
_FLOATS = (*MOMENTS, "prompt_tokens", "output_tokens", "iterations", "turn")
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
class LevelRequests:
    """The request records of a level: every request that was made, in one order.

    ``columns``: ``start``, ``first_token``, ``last_token``, ``end`` (s, one clock), ``prompt_tokens``,
    ``output_tokens``, ``iterations``, ``turn`` (of a session, from 1), each a sequence with None or NaN for
    unknown; what is left out is unknown. ``errors``: what went wrong, None for a completed request,
    unless ``status`` tells.
    ``more``: further columns of REQUEST_SCHEMA, e.g. ``prompt_hash``, ``output``. ``timed``: False
    where requests do not say when they began: their latencies are known, their throughput is not.
    ``complete``: False where requests were made that are not among these. ``recomputed``: whether
    measurements are taken from them. ``answers``: texts of completed answers, where ``output`` does
    not hold them.
    """

    columns: Mapping[str, Any]
    errors: list[str | None]
    more: Mapping[str, list[Any]] = field(default_factory=dict)
    timed: bool = True
    status: list[str] | None = None
    complete: bool = True
    recomputed: bool = True
    answers: Iterable[str | None] | None = None


@dataclass(frozen=True)
class LevelReport:
    """One level of a benchmark as its file tells it. None: the file does not say.

    ``made``: how many requests were made, where that is no sum of what became of them.
    ``definition``: whose definitions the reported values follow, where not the generator's own;
    ``generation``: of the generator's reports. ``window``: what was measured, where it is not all.
    """

    generator: str
    facts: Mapping[str, Any]
    reported: Iterable[Measurement]
    completed: int | None
    errored: int | None = 0
    incomplete: int = 0
    made: int | None = None
    version: str | None = None
    definition: str | None = None
    generation: str | None = None
    run_id: str | None = None
    stop_reason: str | None = None
    started_at: datetime | None = None
    duration: float | None = None
    window: Window = Window(None, None)
    acceptance: tuple[Acceptance, ...] = ()
    flags: tuple[Flag, ...] = ()
    requests: LevelRequests | None = None


def cell_of(level: LevelReport, context: Context, index: int = 0) -> Cell:
    """Return the cell of a level, a failed one where nothing succeeded. Raises InvalidInput where a
    fact is out of range."""
    failed = level.completed is not None and level.completed <= 0
    cell_id = hashlib.sha256(f"{context.source_id()}:{index}".encode()).hexdigest()[:20]
    requests = level.requests
    full = None if requests is None else _columns(requests, level.window)
    stated = {key: value for key, value in level.facts.items() if value is not None}
    made, flags = level.made, [*level.flags, *([FAILED] if failed else [])]
    if made is None and level.completed is not None and level.errored is not None:
        made = level.completed + level.errored + level.incomplete
    if made is None and not failed:
        flags.append(NOT_COUNTED)
    return Cell(
        cell_id=cell_id,
        index=index,
        facts=Facts(**(stated | context.facts)),
        load_generator=level.generator,
        load_generator_version=level.version,
        schema_generation=level.generation or level.generator,
        reported_definition=level.definition or level.generator,
        run_id=level.run_id or context.source_id()[:20],
        started_at=level.started_at,
        duration=level.duration,
        requests_made=made,
        completed=level.completed or 0,
        errored=level.errored or 0,
        incomplete=level.incomplete,
        requests_complete=requests is not None and requests.complete,
        stop_reason=level.stop_reason,
        status="failed" if failed else "good",
        measurements=() if failed else (
            *(one for one in level.reported if math.isfinite(one.value)), *_recomputed(level, full)
        ),
        acceptance=() if failed else level.acceptance,
        flags=tuple(flags),
        requests=None if requests is None or full is None else (
            _table(cell_id, requests, full, context.keep_text)
        ),
    )  # fmt: skip


def cells_of(
    word: str, parts: Sequence[tuple[int, Any]], state: Callable[[Any], LevelReport], context: Context,
    always: bool = False, first: int = 0,
) -> Iterator[Cell]:  # fmt: skip
    """Yield the cell of each numbered part of a file, which the ``word`` is for: ``Line``; ``state`` reads
    one. Raises InvalidInput, which names the part where there are several, or ``always``. ``first``: the
    place of the first one in its file."""
    for index, (place, content) in enumerate(parts, start=first):
        with part(f"{word} {place}", alone=len(parts) == 1 and not always):
            cell = cell_of(state(content), context, index)
        yield cell


def reported(metric: str, statistics: Any, factor: float = 1.0) -> Iterator[Measurement]:
    """Yield what a mapping of statistics says of a metric, times ``factor``; each statistic once.

    ``statistics`` may be a plain number, which is a mean. Raises InvalidInput for a statistic that is
    no number.
    """
    by_word = statistics if isinstance(statistics, Mapping) else {"mean": statistics}
    values: dict[str, float] = {}
    for word in by_word:
        statistic = STATISTICS.get(str(word))
        if statistic in METRICS[metric].statistics:
            value = number(by_word, word, f"{METRICS[metric].label}, {word},")
            if value is not None:
                values.setdefault(str(statistic), value * factor)
    yield from (Measurement("reported", metric, *told) for told in values.items())


def flat(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the members ``mean_NAME``, ``p99_NAME`` … of a flat object as a mapping of
    statistics."""
    return {
        key.removesuffix(f"_{name}"): value
        for key, value in members.items()
        if key.endswith(f"_{name}")
    }


def reported_sections(
    fields: Mapping[str, Any], names: Mapping[str, str], unit: str
) -> Iterator[Measurement]:
    """Yield what objects under ``names`` (by metric) say, each in the unit that it states, else in
    ``unit``. Raises InvalidInput."""
    for metric, name in names.items():
        statistics = section(fields, name)
        yield from reported(metric, statistics, in_its_unit(metric, statistics, unit, name))


def reported_flat(
    fields: Mapping[str, Any], names: Mapping[str, tuple[str, float]]
) -> Iterator[Measurement]:
    """Yield what the members ``mean_NAME``, ``p99_NAME`` … of a flat object say; ``names``: by
    metric, with the factor that makes its unit."""
    for metric, (name, factor) in names.items():
        yield from reported(metric, flat(fields, name), factor)


def error_rate(completed: int, failed: int | None) -> Iterator[Measurement]:
    """Yield the share of requests that failed, where it is known."""
    if failed is not None and completed + failed > 0:
        yield from reported("error_rate", failed / (completed + failed))


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number that can be stored."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _columns(requests: LevelRequests, window: Window) -> Columns:
    n = len(requests.errors)
    columns: Columns = {}
    for name in _FLOATS:
        values = requests.columns.get(name)
        if values is not None and len(values) != n:
            raise InvalidInput(DIFFER)
        columns[name] = np.array([np.nan] * n if values is None else values, dtype=np.float64)
    if not requests.timed:
        columns["start"] = np.zeros(n)
    status = requests.status or [COMPLETED if one is None else ERRORED for one in requests.errors]
    columns["status"] = np.array(status, dtype=object)
    done = columns["status"] == COMPLETED
    for earlier, later in (
        ("start", "first_token"),
        ("first_token", "last_token"),
        ("start", "end"),
    ):
        if np.any(columns[later][done] < columns[earlier][done] - 1e-3):
            raise InvalidInput(
                f"A completed request has a negative duration ({later} before {earlier}): the "
                "file is damaged or its clock jumped; run the benchmark again."
            )
    return with_latencies(columns, window)


def _recomputed(level: LevelReport, full: Columns | None) -> Iterator[Measurement]:
    """Yield the measurements that follow from the requests: without their times the latencies only."""
    requests = level.requests
    if full is None or requests is None or not (requests.complete and requests.recomputed):
        return
    every = canonical(full, level.window, level.errored or 0, level.completed or 0)
    yield from (one for one in every if requests.timed or one.metric in REQUEST_METRICS)
    answers = requests.answers
    if answers is None:
        texts = zip(requests.more.get("output", ()), requests.errors, strict=False)
        answers = (text for text, error in texts if error is None)
    yield from of_texts(answers)


def of_texts(texts: Iterable[str | None]) -> Iterator[Measurement]:
    """Yield the shares of completed answers that repeat themselves and that are JSON. None and a
    redacted text are unknown; where no text says anything, nothing is known.
    """
    known = [text for text in texts if text is not None and not is_redacted(text)]
    for metric, judge in (("repeating_answers", repeats), ("json_answers", is_json)):
        if any(known):
            yield Measurement("canonical", metric, "mean", sum(map(judge, known)) / len(known))


def _table(cell_id: str, requests: LevelRequests, full: Columns, keep_text: bool) -> pa.Table:
    n = len(requests.errors)
    stored: dict[str, Any] = {
        **full, "cell_id": [cell_id] * n, "index": range(n),
        "error": [error or None for error in requests.errors],
        **(dict.fromkeys(MOMENTS) if not requests.timed else {}),
        **requests.more, **({} if keep_text else dict.fromkeys(("prompt", "output"))),
    }  # fmt: skip
    arrays = []
    for one in REQUEST_SCHEMA:
        values = stored.get(one.name)
        plain = isinstance(values, np.ndarray) and values.dtype == np.float64
        try:
            array = pa.nulls(n) if values is None else (
                pa.array(values if plain else list(values), from_pandas=plain)
            )  # fmt: skip
            arrays.append(array.cast(one.type))
        except (pa.ArrowException, OverflowError) as error:
            raise refusal(f"What its requests say of {one.name}", error) from None
    return pa.Table.from_arrays(arrays, schema=REQUEST_SCHEMA)


def turns_of(places: list[int | None]) -> list[int | None]:
    """Return the turn of each request, from 1, by its place in its session, from 0 (None: unknown, or never
    sent); None throughout where none waits for another's answer."""
    is_session = any(places)
    return [None if place is None or not is_session else place + 1 for place in places]


def contradicted(metric: str, stated: Any, counted: float | None) -> Iterator[Flag]:
    """Yield a flag where a file states another mean, in the metric's unit, than its values have."""
    if (
        is_number(stated)
        and counted is not None
        and not math.isclose(stated, counted, rel_tol=0.02)
    ):
        label, unit = METRICS[metric].label, METRICS[metric].unit
        yield Flag(
            "reported_differs",
            "warning",
            f"{label}: the result says {stated:,.4g}, what it holds gives {counted:,.4g} {unit}.",
        )


# --- Numbers of a file that nobody reads: named, so that none is left out in silence.


_NAMED, _LONGEST = 8, 60


def left_out(fields: Mapping[str, Any], known: re.Pattern[str]) -> Iterator[Flag]:
    """Yield one flag that names the numbers of a file, and objects that hold some, whose names ``known``
    does not fit: neither read, nor known to follow from what is."""
    names = [
        key for key, value in fields.items() if not known.fullmatch(key)
        and any(map(is_number, value.values() if isinstance(value, dict) else (value,)))
    ]  # fmt: skip
    if names:
        shown = ", ".join(scrub_text(name[:_LONGEST]) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield Flag("not_read", "info", f"Numbers of this file that were not read: {shown}{more}.")


# --- The measured window of a cell: what was active, where a report states a longer one. A report may
# wait long after its last request, and would call that time measured too.


#: A window outlives the activity by more than this many seconds and this share of it.
_IDLE_S, _IDLE_SHARE = 1.0, 0.01


def active(
    columns: Mapping[str, Any], stated: Window, trimmed: tuple[float, float]
) -> tuple[Window, tuple[Flag, ...]]:
    """Return the stated window, less what lies before the first and after the last request.

    ``columns`` are those of all requests. ``trimmed``: seconds of warm-up and cool-down, which are
    left out of the activity too. Flagged where much was cut off.
    """
    if stated.start is None or stated.end is None:
        return stated, ()
    first, last = activity(columns)
    start = stated.start if stated.start >= first else first + trimmed[0]
    end = stated.end if stated.end <= last else last - trimmed[1]
    if not start < end:
        return stated, ()
    return Window(start, end), tuple(outlived(stated.end - stated.start, end - start))


def activity(columns: Mapping[str, Any]) -> tuple[float, float]:
    """Return the first start and last end of the requests; unlimited where one of them is not
    known."""
    begun = ~np.isnan(columns["start"])
    if not begun.any():
        return -math.inf, math.inf
    end = ends_of(columns)[begun]
    last = math.inf if np.isnan(end).any() else float(end.max())
    return float(columns["start"][begun].min()), last


def outlived(stated: float, found: float) -> Iterator[Flag]:
    """Yield a flag where a window of ``stated`` seconds had activity for only ``found`` of them."""
    idle = stated - found
    if idle > max(_IDLE_S, _IDLE_SHARE * stated):
        yield Flag(
            "window_outlives_activity",
            "warning",
            f"The report measured over {stated:,.1f} s, but its requests were active for only "
            f"{found:,.1f} s of them: its own rates are too low by {idle / stated:.0%}, and the "
            "canonical ones take the active time.",
        )
