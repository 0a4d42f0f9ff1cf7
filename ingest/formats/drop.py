"""A result drop: a folder with ``record.json``, the load generator's report and server metrics.

``metrics-before.prom`` and ``metrics-after.prom`` are snapshots of ``/metrics`` around a report of
one level; ``metrics-samples.jsonl`` (``[unix_time, ["name{labels} value", …]]`` a line) is a series
from which every level takes its own difference; ``machine-samples.jsonl`` is the machine meanwhile.
Each may be compressed (``.gz``, ``.zst``).
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
from pydantic import ValidationError

from ingest.counters import (
    INCOMPLETE,
    MetricSeries,
    Snapshot,
    Window,
    before_after,
    cache_measurements,
    circumstances,
    means,
    over_window,
    parse_exposition,
    read_machine,
    read_series,
    samples_within,
    unread_snapshots,
)
from ingest.engine_settings import compiled, merged, of_vllm
from ingest.formats.vllm_bench import LOCAL_TIME
from ingest.model import head_of_file, open_content
from ingest.settings import completed
from ingest.stated import UNREADABLE, why
from warehouse.contract import FACT_KEYS, Facts, Record
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Flag
from warehouse.secrets import scrub

NAME = "drop"
RECORD = "record.json"
_BEFORE, _AFTER, _SAMPLES = "metrics-before.prom", "metrics-after.prom", "metrics-samples.jsonl"
_MACHINE = "machine-samples.jsonl"
#: What the engine was configured as, and what its server printed: no part of what a drop is known by.
_ENGINE, _LOG, _LOG_LIMIT = "engine.json", "server.log", 32 << 20
#: Of a server's last words so much is kept.
_LOG_LINES, _LOG_WIDTH = 80, 500
_PACKED = ("", ".gz", ".zst")


@dataclass(frozen=True)
class Drop:
    """An opened drop: what its record says and what its metrics files hold.

    ``report``: None for a failed cell that left none. ``unread``: the metrics files that hold no
    counters though they should.
    """

    folder: Path
    record: Record
    report: Path | None
    before: Snapshot | None
    after: Snapshot | None
    series: MetricSeries
    machine: MetricSeries
    unread: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return the facts that the record states or implies; they override the report's own."""
        stated = self.record.model_dump(include=set(FACT_KEYS), exclude_none=True)
        # The engine's own configuration may not be kept, or not be readable.
        configuration: dict[str, Any] = {}
        with suppress(*UNREADABLE, InvalidInput):
            data = _beside(self.folder, _ENGINE) or b"{}"
            configuration = msgspec.json.decode(data, type=dict[str, Any])
        settings = merged(of_vllm(configuration), self.log)
        return completed(({"engine_settings": settings} if settings else {}) | stated)

    @cached_property
    def log(self) -> str:
        """What the server printed until the cell ended; empty where that was not kept."""
        path = _file(self.folder, _LOG)
        with suppress(OSError, InvalidInput):
            return "" if path is None else str(head_of_file(path, _LOG_LIMIT), errors="replace")
        return ""

    def source_id(self, report_hash: str | None) -> str:
        """Return sha256 over the drop's file names and content hashes."""
        names = (RECORD, _BEFORE, _AFTER, _SAMPLES, _MACHINE)
        contents = ((name, _beside(self.folder, name)) for name in names)
        hashed = {name: hashlib.sha256(data).hexdigest() for name, data in contents if data}
        if report_hash is not None:
            hashed["report"] = report_hash
        lines = "".join(f"{name}:{digest}\n" for name, digest in sorted(hashed.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


def is_drop(folder: Path) -> bool:
    """Return whether a folder is one result drop. It is one too where its record is no file or leads
    nowhere, and is then refused: else its report would be taken in without it."""
    return os.path.lexists(folder / RECORD)


def open_drop(folder: Path) -> Drop:
    """Read everything but the report. Raises InvalidInput."""
    record = _record(folder / RECORD)
    report = _report(folder, record)
    before, after = (
        None
        if data is None
        else parse_exposition(data.decode("utf-8", errors="replace").splitlines())
        for data in (_beside(folder, _BEFORE), _beside(folder, _AFTER))
    )
    sampled = _beside(folder, _SAMPLES)
    series = read_series(sampled or b"")
    unread = [*unread_snapshots((_BEFORE, before), (_AFTER, after), series)]
    if sampled is not None and not any(snapshot.values for snapshot in series.snapshots):
        unread.append(_SAMPLES)
    machine = read_machine(_beside(folder, _MACHINE) or b"")
    return Drop(folder, record, report, before, after, series, machine, tuple(unread))


def with_drop(cells: Iterator[Cell], drop: Drop) -> Iterator[Cell]:
    """Yield the report's cells with the record's status and the server's own counters and
    samples."""
    first, second, record = next(cells, None), next(cells, None), drop.record
    for cell in filter(None, chain((first, second), cells)):
        cell = _with_metrics(cell, drop, alone=second is None)
        flags = (*cell.flags, *circumstances(record))
        yield replace(
            cell,
            run_id=record.run_id or cell.run_id,
            started_at=cell.started_at or record.started_at,
            status=record.status,
            flags=(*flags, _failure(record)) if record.status == "failed" else flags,
            order=record.order,
        )


def failed_cell(drop: Drop, source_id: str, facts: dict[str, Any]) -> Cell:
    """Return the cell of a run that failed before it left a report."""
    record = drop.record
    return Cell(
        cell_id=hashlib.sha256(f"{source_id}:0".encode()).hexdigest()[:20],
        index=0,
        facts=Facts(**(drop.facts() | facts)),
        load_generator="unknown",
        load_generator_version=None,
        schema_generation="unknown",
        reported_definition="unknown",
        run_id=record.run_id or source_id[:20],
        started_at=record.started_at,
        duration=None,
        requests_made=None,
        completed=0,
        errored=0,
        incomplete=0,
        requests_complete=False,
        stop_reason=None,
        status="failed",
        flags=(_failure(record),),
        order=record.order,
    )


def how_it_went(record: Record) -> dict[str, Any]:
    """Return the record's attempt, failure cause, last log lines and times: what happened in the
    run, apart from the facts of its cells."""
    stated = record.model_dump(
        include={"attempt", "failure_cause", "log_excerpt", "timeline"}, exclude_defaults=True
    )
    if record.log_excerpt:
        stated["log_excerpt"] = [line[:_LOG_WIDTH] for line in record.log_excerpt[-_LOG_LINES:]]
    return stated


def _with_metrics(cell: Cell, drop: Drop, alone: bool) -> Cell:
    if LOCAL_TIME in cell.flags:
        # It fits no sample of the server: the record's start does.
        cell = replace(
            cell,
            started_at=drop.record.started_at,
            flags=tuple(flag for flag in cell.flags if flag != LOCAL_TIME),
        )
    start = cell.started_at or (drop.record.started_at if alone else None)
    window = None
    if start is not None and cell.duration:
        window = start.timestamp(), start.timestamp() + cell.duration
    whole = _of_all_requests(cell, window)
    counted, flags = over_window(drop.series, whole)
    if counted is None and alone:
        counted, more = before_after(drop.before, drop.after)
        flags = (*(f for f in flags if f != INCOMPLETE or counted is None), *more)
    elif counted is None and drop.before is not None and not drop.series:
        flags = (
            *flags,
            Flag(
                "counters_not_divided", "info",
                "The server's counters cover all levels of this report together, so they say nothing of "
                "one; record metrics-samples.jsonl or run one level per report.",
            ),
        )  # fmt: skip
    if drop.unread:
        flags = (
            *flags,
            Flag(
                "counters_unread", "warning",
                f"No counters of the server can be read from {' and '.join(drop.unread)} (empty, "
                "damaged, cut off or missing), so acceptance was not taken from there.",
            ),
        )  # fmt: skip
    samples = (
        *samples_within(drop.series, window),
        *samples_within(drop.machine, window),
    )
    # Snapshots around several levels say how large the cache is, and nothing of one level's hits.
    cached = cache_measurements(drop.before, drop.after if alone else None)
    return replace(
        cell,
        acceptance=cell.acceptance if counted is None else (counted, *cell.acceptance),
        flags=(*cell.flags, *flags, *compiled(drop.log, whole, drop.record.ended_at)),
        samples=samples,
        measurements=(*cell.measurements, *means(samples), *cached),
    )


def _of_all_requests(cell: Cell, window: Window | None) -> Window | None:
    """Return the measured window, widened to the requests that warmed the level up or cooled it
    down. Acceptance does not depend on the time: every request of the level counts, as it does
    where the requests themselves say what was accepted.
    """
    if window is None or cell.requests is None:
        return window
    first, last = pc.min(cell.requests["start"]).as_py(), pc.max(cell.requests["end"]).as_py()
    if first is None or last is None or first > window[1] or last < window[0]:
        return window  # times of a clock of their own, e.g. vLLM bench
    return min(first, window[0]), max(last, window[1])


def _failure(record: Record) -> Flag:
    diagnosis = " ".join((record.failure or "its record gives no diagnosis").split())[:500]
    return Flag("failed", "error", f"This run failed: {diagnosis.rstrip('.')}.")


def _record(path: Path) -> Record:
    try:
        if path.stat().st_size > 16 << 20:
            raise InvalidInput(f"{RECORD} is larger than 16 MB, so it is no record of a run.")
        stated = json.loads(path.read_bytes(), parse_constant=_refuse)
    except OSError as error:
        raise InvalidInput(
            f"{RECORD} cannot be read ({error.strerror}); put the record of the run there."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{RECORD} cannot be read as JSON: {why(error)}; mend it or write the drop again."
        ) from None
    try:
        return Record.model_validate(scrub(stated))
    except ValidationError as error:
        raise InvalidInput(
            f"{RECORD} does not follow the contract: {why(error)}; mend it by docs/record.schema.json."
        ) from None


def _refuse(constant: str) -> float:
    raise InvalidInput(
        f"{RECORD} holds {constant}, which is not a number: leave out what is not known."
    )


def _report(folder: Path, record: Record) -> Path | None:
    if Path(record.report).name != record.report:
        raise InvalidInput(
            f"{RECORD} names the report {record.report!r}, which is not a file name in its folder."
        )
    report = _file(folder, record.report)
    if report is None and record.status != "failed":
        raise InvalidInput(
            f"{RECORD} names the report {record.report!r}, which is missing; put it beside the record, "
            'or set "status": "failed".'
        )
    return report


def _beside(folder: Path, name: str) -> bytes | None:
    path = _file(folder, name)
    if path is None:
        return None
    return path.read_bytes() if path.name == name else bytes(open_content(path).data)


def _file(folder: Path, name: str) -> Path | None:
    """Return the file of that name, as it is or compressed; None where there is none."""
    paths = (folder / (name + suffix) for suffix in _PACKED)
    return next((path for path in paths if path.is_file()), None)
