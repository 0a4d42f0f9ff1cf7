"""What the Claims page says of published tables: flags in words, tables and a chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.metric_words import read_metric
from analysis.published.claims import Claims
from analysis.tables import UNKNOWN, known_text
from analysis.verdicts.finding import Finding
from analysis.verdicts.finding import shown as figure
from answers.wording import badge
from dashboard.answers import Drawing, drawn
from dashboard.charts.claims import MEASURED, PUBLISHED, RECOMPUTED, claimed
from dashboard.components import Shown, shown
from dashboard.phrases import counted, named
from warehouse.catalogue import METRICS

#: Figures that are drawn; the others stand in the table.
MOST_DRAWN = 24
#: Words of keys that are written large.
_SHORT = ("tp", "usd", "gpu")
#: What the marks without an arm are coloured as.
_NO_ARM = "baseline"


@dataclass(frozen=True)
class Answer:
    """``measured``: our own measurements of the same things; ``drawing`` None where no improvement
    is left to draw. ``left_out``: drawable figures that are not drawn."""

    headline: str
    table: Shown
    measured: Shown
    drawing: Drawing | None
    left_out: int
    unclaimed: tuple[str, ...]
    rows: pd.DataFrame
    """Every figure, unrounded, for a file."""


def answer(judged: Claims, everything: bool, source: str) -> Answer:
    """All that the page shows. ``everything``: also the figures that follow from their own row."""
    told = judged.findings if everything else judged.flagged
    drawable = [f for f in judged.findings if f.unit == "%" and (f in told or f.measured)]
    return Answer(
        headline(judged),
        shown(pd.DataFrame([_row(finding) for finding in told], columns=_COLUMNS)),
        shown(pd.DataFrame(_measured_rows(judged.findings))),
        _drawing(drawable[:MOST_DRAWN], source) if drawable else None,
        max(len(drawable) - MOST_DRAWN, 0),
        judged.unclaimed,
        _file_rows(judged.findings),
    )


def headline(judged: Claims) -> str:
    """How many figures do not follow."""
    count, flagged = len(judged.findings), len(judged.flagged)
    if not count:
        return "Nothing in this table can be recomputed."
    if not flagged:
        return f"None of {counted(count, 'published figure')} contradicts its own row."
    verb = "does" if flagged == 1 else "do"
    return (
        f"{flagged} of {counted(count, 'published figure')} {verb} not follow from their own row."
    )


_COLUMNS = ["where", "metric", "published", "its own row gives", "flag", "why", "can be"]


def _row(finding: Finding) -> dict[str, str]:
    low, high = (figure(value, finding.unit) for value in (finding.low, finding.high))
    values = (
        ", ".join([_words(finding.section), *_about(finding)]),
        _metric(finding.metric),
        figure(finding.published, finding.unit),
        figure(finding.recomputed, finding.unit),
        finding.kind or "follows",
        finding.reason,
        low if low == high else f"{low} to {high}",
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _metric(name: str) -> str:
    """What a table calls a metric, in the words of the catalogue where it is one of its metrics."""
    known = read_metric(name)
    if known is None:
        return _words(name)
    label = named(METRICS[known.metric], known.statistic)
    return f"peak {label[:1].lower()}{label[1:]}" if known.peak else label


def _about(finding: Finding) -> list[str]:
    return [f"{_words(key)} {value}" for key, value in finding.about.items()]


def _words(name: str) -> str:
    """A key of a table as words: ``usd_per_hour`` as ``USD per hour``."""
    words = name.replace("_", " ").split(" ")
    return " ".join(word.upper() if word in _SHORT else word for word in words)


def _file_rows(findings: Sequence[Finding]) -> pd.DataFrame:
    rows = [finding.as_json() for finding in findings]
    told = [{k: v for k, v in row.items() if k not in ("about", "measured")} for row in rows]
    about = [", ".join(f"{k} {v}" for k, v in finding.about.items()) for finding in findings]
    return pd.DataFrame(told).assign(about=about)


def _measured_rows(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [
        {
            "metric": _metric(finding.metric),
            "about": ", ".join(_about(finding)),
            "published": figure(finding.published, "%"),
            "measured here": figure(told["improvement"], "%"),
            "95 % interval": _interval(told),
            "word": told["word"] or ("over several loads" if len(told["loads"]) > 1 else UNKNOWN),
            "arm": known_text(told["arm"]),
            "model": known_text(told["model"]),
            "GPU": known_text(told["gpu"]),
            "loads": ", ".join(told["loads"]),
            "evidence": badge(told["evidence"]) or "GPU",
        }
        for finding in findings
        for told in finding.measured
    ]


def _interval(told: dict[str, Any]) -> str:
    if told["low"] is None:
        return f"{UNKNOWN}: a single launch"
    return f"{told['low']:+.1f} to {told['high']:+.1f} %"


def _drawing(findings: Sequence[Finding], source: str) -> Drawing:
    rows = [mark for at, finding in enumerate(findings) for mark in _marks(at, finding)]
    flagged = sum(finding.flagged for finding in findings)
    badges = {badge(told["evidence"]) for finding in findings for told in finding.measured} - {""}
    title = f"{flagged} of {counted(len(findings), 'improvement')} here printed otherwise than they follow"
    notes = "".join(f"  [{text}]" for text in sorted(badges))
    subtitle = f"{source}; bars: what rounding in print, or the repeats, allow"
    return drawn(claimed(pd.DataFrame(rows), (title + notes, subtitle)))


def _marks(at: int, finding: Finding) -> list[dict[str, Any]]:
    where = ", ".join([_metric(finding.metric), *_about(finding)])
    label = f"{where}: {finding.kind}" if finding.kind else where
    exact = (finding.published, finding.published, finding.published)
    spans = [
        (RECOMPUTED, _NO_ARM, (finding.recomputed, finding.low, finding.high)),
        (PUBLISHED, _NO_ARM, exact),
        *((MEASURED, str(told["arm"]), _span(told)) for told in finding.measured),
    ]
    return [
        {
            "place": f"{at:03d} {where}",
            "label": label if number == 0 else "",
            "kind": kind,
            "arm": arm,
            "value": value,
            "low": min(low, high),
            "high": max(low, high),
            "solid": int(kind == RECOMPUTED or low != high),
            "told": finding.reason if kind != MEASURED else "",
        }
        for number, (kind, arm, (value, low, high)) in enumerate(spans)
    ]


def _span(told: dict[str, Any]) -> tuple[float, float, float]:
    value = told["improvement"]
    return (value, *(value if told[end] is None else told[end] for end in ("low", "high")))
