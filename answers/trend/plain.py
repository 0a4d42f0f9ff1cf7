"""The trend as plain values for JSON: unknown is None, nothing is NaN."""

from typing import Any

from analysis.nightly.acceptance import Acceptance
from answers.trend.answer import Line, Trend


def as_json(found: Trend) -> dict[str, Any]:
    """Return ``status``, ``headline`` and one object for each series, worst first, as a dict for
    JSON."""
    return {
        "status": found.status,
        "headline": found.headline,
        "series": [_line(line) for line in found.lines],
    }


def _line(line: Line) -> dict[str, Any]:
    one = line.assessed
    numbers = {name: getattr(one, name) for name in ("improvement", "low", "high", "p_value")}
    return {
        "series": line.name,
        "about": {name: plain(value) for name, value in one.series.about.items()},
        "metric": one.series.metric,
        "statistic": one.series.statistic,
        "line": line.metric,
        "status": line.status,
        "why": line.why,
        "said": line.said,
        "gain": line.gain,
        "budget": line.budget,
        **numbers,
        "against": None if one.against is None else line.against,
        "first_bad": line.since,
        "last_before": line.last_before,
        "nights": line.nights,
        "changed": [
            {"field": c.field, "before": plain(c.before), "after": plain(c.after)}
            for c in line.changed
        ],
        "moves": [{name: getattr(move, name) for name in move.__slots__} for move in line.moves],
        "drift": None
        if line.drift is None
        else {name: getattr(line.drift, name) for name in line.drift.__slots__},
        "accepted": None if line.accepted is None else _accepted(line.accepted),
    }


def _accepted(known: Acceptance) -> dict[str, str | None]:
    return {
        "night": known.night, "why": known.why, "by": known.by, "at": known.at.isoformat(),
        "study": known.study, "series": known.series,
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Return a value without numpy's own types."""
    return value.item() if hasattr(value, "item") else value
