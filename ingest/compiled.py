"""Kernels that the server compiled during a load, by its log: what compiling takes is no serving.

A log tells the time of its own machine, mostly without the year; it is cut when its cell ends, so
its last line and the record's end say how far its clock is from UTC.
"""

import math
import re
from datetime import UTC, datetime, timedelta

from ingest.counters import Window
from warehouse.rows import Flag

_EVENT = re.compile(
    r"JIT compilation during inference: *(?P<kernel>[\w.<>]*\w)?|Autotuning kernel (?P<tuned>\w+)"
    r"|Autotuning process starts|AUTOTUNE \w+\(|Compiling a graph for|torch\.compile took"
    r"|Entering DeepGEMM JIT"
)
_DATE = re.compile(r"\b(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
#: A line that bears no date follows one that does: characters.
_NEAR = 1 << 16
#: Clocks of the world are whole half-hours apart: s.
_ZONE = 1800.0
_NAMED = 3


def compiled(log: str, window: Window | None, ended: datetime | None) -> tuple[Flag, ...]:
    """Return a flag where the log tells of kernels compiled within the window (unix seconds).

    ``ended``: when the cell's record ended, at which its log was cut.
    """
    dates = _DATE.findall(log[-_NEAR:])
    if window is None or ended is None or not dates:
        return ()
    last = _moment(dates[-1], ended)
    if last is None:
        return ()
    # Two seconds, since a log rounds.
    away = math.ceil((last - ended.timestamp() - 2) / _ZONE) * _ZONE
    found = [
        event["kernel"] or event["tuned"] or event[0].strip(" (:")
        for event in _EVENT.finditer(log)
        if _within(log, event, (window[0] + away, window[1] + away), ended)
    ]
    return (_flag(found),) if found else ()


def _within(log: str, event: re.Match[str], window: Window, ended: datetime) -> bool:
    """Return whether the event lies in the window, in the log's own time."""
    start = max(log.rfind("\n", 0, event.start()), event.start() - _NEAR, 0)
    dates = _DATE.findall(log, start, event.start()) or _DATE.findall(
        log, max(start - _NEAR, 0), start
    )
    at = _moment(dates[-1], ended) if dates else None
    return at is not None and window[0] - 1 < at <= window[1]


def _moment(date: tuple[str, ...], ended: datetime) -> float | None:
    """Return a date as if it were UTC: unix seconds; without a year it is at most a day after
    ``ended``."""
    year, *rest = date
    month, day, *time = map(int, rest)
    try:
        at = datetime(int(year or ended.year), month, day, *time, tzinfo=UTC)
        late = not year and at > ended + timedelta(days=1)
        return (at.replace(year=at.year - 1) if late else at).timestamp()
    except ValueError:
        return None


def _flag(found: list[str]) -> Flag:
    names = list(dict.fromkeys(found))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    kernels = "A kernel was" if len(found) == 1 else f"{len(found)} kernels were"
    return Flag(
        "compiled_during_load",
        "warning",
        f"{kernels} compiled during this load ({', '.join(names[:_NAMED])}{more}), and requests waited "
        "for it: it shows no steady state; measure it again with a longer warm-up.",
    )
