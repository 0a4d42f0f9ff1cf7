"""What the Trends page says of series over nights: its sentence, its tables, its frames."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from streamlit import column_config as col

from analysis.nightly.nights import SERIES_FIELDS
from analysis.nightly.regressions import FINE, OPEN, REGRESSION, Assessment
from analysis.nightly.run_chart import moved, points, steps
from analysis.significance.evidence_tables import interval_text
from analysis.tables import number, percent
from dashboard.answers import Drawing, drawn
from dashboard.answers.notes import Placed, by_night, marks
from dashboard.charts import trends as charts_trends
from dashboard.components import Shown, shown
from dashboard.depth import bracketed
from dashboard.links import cell_link
from dashboard.panels import badge
from dashboard.phrases import counted
from warehouse.catalogue import METRICS

NOTHING = "Did something break? Nothing to hold against each other yet."
#: Series that can be chosen at once; the others are behind filters.
MOST_SERIES = 200
TABLE_COLUMNS = {
    name: col.TextColumn(name, alignment="right") for name in ("change", "95 % interval", "budget")
}
NIGHT_COLUMNS = {
    "value": col.TextColumn("value", alignment="right"),
    "cell": col.LinkColumn("first cell", display_text="open"),
}
_RANK = {REGRESSION: 0, OPEN: 1, FINE: 2}
#: What may tell two series apart whose names are the same.
_TOLD = [name for name in SERIES_FIELDS if name not in ("model", "gpu", "arm_label", "dataset")]


@dataclass(frozen=True)
class Overview:
    """``found``: worst first; ``lines``: metric line -> its series' names -> their place there."""

    found: tuple[Assessment, ...]
    headline: str
    counts: str
    lines: dict[str, dict[str, int]]
    table: Shown


def overview(found: Sequence[Assessment]) -> Overview:
    """All that is judged, worst first, in a sentence and a table."""
    ordered = tuple(sorted(found, key=_urgency))
    return Overview(
        ordered,
        headline(ordered),
        worst(ordered) + counts(ordered),
        _lines(ordered),
        _table(ordered),
    )


def _urgency(one: Assessment) -> tuple[int, float]:
    known = one.improvement == one.improvement  # NaN is not itself
    return _RANK[one.status], one.improvement if known else float("inf")


def headline(found: Sequence[Assessment]) -> str:
    """Did something break, since when, and how badly? ``found``: worst first."""
    if not found:
        return NOTHING
    worse = [one for one in found if one.status == REGRESSION]
    if worse:
        amount = percent(-worse[0].improvement).removeprefix("+")
        return (
            f"{len(worse)} of {counted_series(len(found))} became worse, the worst by {amount} "
            f"since {worse[0].first}"
        )
    unsettled = sum(one.status == OPEN for one in found)
    if all(len(one.series.nights) < 2 for one in found):
        return "Did something break? Not known yet: every series has one night only"
    if unsettled:
        return (
            f"Nothing is shown to be worse, but {unsettled} of {counted_series(len(found))} are "
            "not settled"
        )
    return f"Nothing became worse: in all {counted_series(len(found))} a regression is excluded"


def worst(found: Sequence[Assessment]) -> str:
    """The worst regression in a sentence; empty where there is none. ``found``: worst first."""
    one = found[0] if found else None
    if one is None or one.status != REGRESSION:
        return ""
    return (
        f"Worst: {one.line} of {one.series.name}: {percent(one.improvement)} "
        f"(95 %: {interval_text(one.low, one.high)}) since {one.first}. "
    )


def counts(found: Sequence[Assessment]) -> str:
    """How many of which status, better ones too, over which nights."""
    if not found:
        return ""
    said = Counter(one.status for one in found)
    better = sum(moved(one) and one.low > 0 for one in found)
    days = sorted({night.label.split(" ")[0] for one in found for night in one.series.nights})
    parts = [f"{said[status]} {status}" for status in _RANK if said[status]]
    return (
        f"{', '.join(parts)}; {better} became better. "
        f"{counted(len(days), 'night')}, {days[0]} to {days[-1]}."
    )


def counted_series(count: int) -> str:
    """``1 series``, ``2,000 series``."""
    return f"{count:,} series"


def _lines(found: Sequence[Assessment]) -> dict[str, dict[str, int]]:
    names = series_names(found)
    lines: dict[str, dict[str, int]] = {}
    for place, (name, one) in enumerate(zip(names, found, strict=True)):
        lines.setdefault(one.line, {})[name] = place
    return lines


def series_names(found: Sequence[Assessment]) -> list[str]:
    """A name for each that no other series of the same line has."""
    times = Counter((one.line, one.series.name) for one in found)
    first = [
        one.series.name if times[one.line, one.series.name] == 1 else _longer(one) for one in found
    ]
    seen: Counter[tuple[str, str]] = Counter()
    names = []
    for one, name in zip(found, first, strict=True):
        seen[one.line, name] += 1
        again = seen[one.line, name]
        names.append(name if again == 1 else f"{name} ({again})")
    return names


def _longer(one: Assessment) -> str:
    about = one.series.about
    told = [f"{name.replace('_', ' ')} {about[name]}" for name in _TOLD if about.get(name)]
    return f"{one.series.name} ({', '.join(told)})"


def _table(found: Sequence[Assessment]) -> Shown:
    rows = [
        {
            "verdict": one.status,
            "series": one.series.name,
            "metric": one.line,
            "change": percent(one.improvement),
            "95 % interval": interval_text(one.low, one.high) or "unknown",
            "budget": f"{one.budget:.1%}",
            "since": one.first if moved(one) else "",
            "nights": len(one.series.nights),
            "evidence": badge(one.series.about.get("evidence")) or "GPU",
            "why": one.why,
        }
        for one in found
    ]
    return shown(pd.DataFrame(rows))


def file_rows(found: Sequence[Assessment]) -> pd.DataFrame:
    """Every series unrounded, for a file: what it is, how it is judged, since when."""
    told = [
        {
            **one.series.about, "metric": one.series.metric, "statistic": one.series.statistic,
            "verdict": one.status, "improvement": one.improvement, "low": one.low,
            "high": one.high, "budget": one.budget, "since": one.first if moved(one) else None,
            "nights": len(one.series.nights), "why": one.why,
        }
        for one in found
    ]  # fmt: skip
    return pd.DataFrame(told)


def run_chart(one: Assessment, notes: Sequence[Placed] = ()) -> Drawing:
    """The series over its nights, and where people wrote ``notes``."""
    rows = points(one)
    # Vega takes a number for a moment, and a text for nothing.
    moments = [at.timestamp() * 1000 for at in rows["at"]]
    rows = rows.assign(solid=(rows["repeats"] > 1).astype(int), at=moments)
    metric = METRICS[one.series.metric]
    title = f"{one.line}, {metric.unit}{badge_of(one)}"
    return drawn(
        charts_trends.run_chart(
            rows, metric, str(one.series.about.get("arm_label")), title, marks(notes, one)
        )
    )


def badge_of(one: Assessment) -> str:
    """What kind of evidence a series is, as the end of a title; empty for a GPU's."""
    return bracketed(badge(one.series.about.get("evidence")))


def said_of(one: Assessment) -> str:
    """What the chart of one series shows, in words: also for those who cannot see it."""
    count = counted(len(one.series.nights), "night")
    if one.first is None:
        return f"{count}: {one.why}."
    if not moved(one):
        return f"No change of the level is shown over {count}: {one.why}."
    better = "better" if one.improvement > 0 else "worse"
    return (
        f"{percent(one.improvement)} ({better}; 95 %: {interval_text(one.low, one.high)}) since "
        f"{one.first}; before that up to {one.last_before}. Verdict: {one.status}, {one.why}."
    )


def changes(one: Assessment) -> Shown:
    """What changed in the configuration with each night: night, setting, before, after."""
    rows = [
        {
            "night": night.label,
            "setting": change.field,
            "before": _said(change.before),
            "after": _said(change.after),
        }
        for night, found in zip(one.series.nights, steps(one.series), strict=True)
        for change in found
    ]
    return shown(pd.DataFrame(rows[::-1], columns=["night", "setting", "before", "after"]))


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def nights(one: Assessment, notes: Sequence[Placed] = ()) -> Shown:
    """Every point with its first cell, newest first, and what people noted on it."""
    metric = METRICS[one.series.metric]
    rows = points(one)
    said = by_night(notes)
    told = {"notes": [said.get(name[:10], "") for name in rows["night"]]} if said else {}
    return shown(
        pd.DataFrame(
            {
                "night": rows["night"],
                "value": [f"{number(value, metric.decimals)} {metric.unit}"
                          for value in rows["value"]],
                "repeats": rows["repeats"],
                "noise from": [number(value, metric.decimals) for value in rows["low"]],
                "to": [number(value, metric.decimals) for value in rows["high"]],
                **told,
                "cell": [cell_link(night.cell["cell_id"]) for night in one.series.nights],
            }
        ).iloc[::-1]
    )  # fmt: skip


def days(one: Assessment) -> list[str]:
    """The nights of a series without their versions, newest first."""
    return list(dict.fromkeys(night.label[:10] for night in reversed(one.series.nights)))
