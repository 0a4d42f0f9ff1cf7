"""Kernels that the server compiled during a load, by its log: what compiling takes is no serving.

A log tells its machine's own time, often without the year. It is cut when its cell ends, so between
its last line and the record's end lies less than the half-hour by which clocks are apart.
"""

import re
from datetime import UTC, datetime

from ingest.counters import Window
from warehouse.rows import Flag

_EVENT = re.compile(
    r"JIT compilation during inference: *(?P<kernel>[\w.<>]*\w)?|Autotuning kernel (?P<tuned>\w+)"
    r"|Autotuning process starts|AUTOTUNE \w+\(|Compiling a graph for|torch\.compile took"
    r"|Entering DeepGEMM JIT"
)
_DATE = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
#: The date of a line that bears none stands so near before it: characters.
_NEAR = 1 << 16
_ZONE, _ROUNDED = 1800.0, 2.0
_NAMED = 3


def compiled(log: str, window: Window | None, ended: datetime | None) -> tuple[Flag, ...]:
    """Return a flag where the log tells of kernels compiled within the window (unix seconds).

    ``ended``: when the cell's record ended, at which its log was cut.
    """
    last = _date_before(log, len(log))
    if window is None or ended is None or last is None:
        return ()
    idle = (ended.astimezone(UTC) - last).total_seconds() + _ROUNDED
    end = ended.timestamp() + _ROUNDED - idle % _ZONE
    found = []
    for event in _EVENT.finditer(log):
        date = _date_before(log, event.start())
        if date is None:
            continue
        # A second of a log is as long as any.
        if window[0] - 1 < end - (last - date).total_seconds() <= window[1]:
            found.append(event["kernel"] or event["tuned"] or event[0].strip(" (:"))
    return (_flag(found),) if found else ()


def _date_before(log: str, place: int) -> datetime | None:
    """Return the last date before a place, in a year like any other."""
    found = _DATE.findall(log, max(place - _NEAR, 0), place)
    try:
        month, day, hour, minute, second = map(int, found[-1])
        return datetime(2000, month, day, hour, minute, second, tzinfo=UTC)
    except (IndexError, ValueError):
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
