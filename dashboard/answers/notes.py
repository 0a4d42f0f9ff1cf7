"""What people said of runs and nights, as pages and reports show it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.nightly.nights import NOON
from analysis.nightly.regressions import Assessment
from dashboard.components import Shown, shown
from warehouse.annotations import Annotation

UNKNOWN_NIGHT = "unknown"
_WORDS = {
    "note": "noted", "exclude": "excluded", "include": "taken back", "accept": "accepted",
}  # fmt: skip
_HALF_DAY = NOON / pd.Timedelta(milliseconds=1)


@dataclass(frozen=True)
class Placed:
    """An annotation and a night that it is about (``2026-11-21``; ``unknown`` for a run without a
    start)."""

    night: str
    event: Annotation


def nights_of(starts: pd.Series) -> pd.Series:
    """The night in which each start lies, noon to noon UTC, by the day on which it began."""
    days = (pd.to_datetime(starts, utc=True) - NOON).dt.strftime("%Y-%m-%d")
    return days.fillna(UNKNOWN_NIGHT)


def line(event: Annotation) -> str:
    """``2026-11-21 22:05 UTC, Ann noted: driver updated``."""
    return f"{event.at:%Y-%m-%d %H:%M} UTC, {event.author} {_WORDS[event.action]}: {event.text}"


def about(event: Annotation) -> str:
    """``2026-11-21 22:05 UTC, Ann noted on night 2026-11-21: driver updated``."""
    what = f"{_WORDS[event.action]} on" if event.action == "note" else _WORDS[event.action]
    return f"{event.at:%Y-%m-%d %H:%M} UTC, {event.author} {what} {event.target.name}: {event.text}"


def exclusion(event: Annotation) -> str:
    """That a run is excluded, why, by whom and since when."""
    return (
        f"Excluded by name: {event.text.rstrip('.')} ({event.author}, "
        f"{event.at:%Y-%m-%d %H:%M} UTC). No comparison, trend or gate counts this run."
    )


def by_night(found: Iterable[Placed]) -> dict[str, str]:
    """Night -> all that was said of it and of its runs, in one line."""
    texts: dict[str, list[str]] = {}
    for one in found:
        texts.setdefault(one.night, []).append(_said(one.event))
    return {name: "; ".join(dict.fromkeys(said)) for name, said in texts.items()}


def _said(event: Annotation) -> str:
    if event.action == "note":
        return event.text
    return f"{_WORDS[event.action]} {event.target.name}: {event.text}"


def table(found: Sequence[Placed]) -> Shown:
    """Night, what was said of what, by whom and when; the newest night first."""
    rows = [
        {
            "night": one.night,
            "about": one.event.target.run_id or one.event.target.series or "the night",
            "said": _WORDS[one.event.action],
            "text": one.event.text,
            "by": one.event.author,
            "written (UTC)": f"{one.event.at:%Y-%m-%d %H:%M}",
        }
        for one in sorted(found, key=lambda one: (one.night, one.event.at), reverse=True)
    ]
    return shown(pd.DataFrame(rows))


def marks(found: Sequence[Placed], one: Assessment) -> pd.DataFrame:
    """One row per night of a series' time of which something was said: ``at`` (ms since 1970, UTC),
    ``night``, ``said``. A night that has no point, or no longer, stands at its midnight."""
    points = {
        night.label[:10]: night.at.timestamp() * 1000 for night in reversed(one.series.nights)
    }
    first, last = min(points.values()) - _HALF_DAY, max(points.values()) + _HALF_DAY
    rows = [
        {"at": points.get(name, _midnight(name)), "night": name, "said": text}
        for name, text in by_night(found).items()
        if name != UNKNOWN_NIGHT
    ]
    known = pd.DataFrame(rows, columns=["at", "night", "said"])
    return known[known["at"].astype(float).between(first, last)]


def _midnight(name: str) -> float:
    return float(pd.Timestamp(name, tz="UTC").timestamp() * 1000 + 2 * _HALF_DAY)
