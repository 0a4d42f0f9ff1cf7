"""All that the Compare page shows of one comparison, made once per question and then cached."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.significance.bootstrap import SENTENCE
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import Confidence
from analysis.significance.crossover import ENDS, crossovers
from dashboard import charts, panels, phrases
from dashboard.arm_places import joined_badge, synthetic
from dashboard.charts.spec import specification
from dashboard.components import Shown, shown
from dashboard.ends import panel_of
from dashboard.tables import geomean_rows, unmatched_rows
from warehouse.catalogue import METRICS

#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 12
#: Intervals of more settings and arms than this take longer than a reader waits.
MOST_INTERVALS = 60
Drawing = dict[str, Any]


@dataclass(frozen=True)
class Compared:
    """What the answer stands on. ``reference``: the arm that the others are compared with;
    ``cells`` as the query of that name returns them."""

    found: Comparison
    sure: Confidence
    cells: pd.DataFrame
    reference: str = "baseline"


@dataclass(frozen=True)
class Answer:
    """``titles``: panel -> title; ``levels`` as ``panels.level_rows`` returns them."""

    headline: str
    against: str
    evidence: str
    badges: tuple[str, ...]
    titles: dict[str, str]
    levels: pd.DataFrame
    totals: Shown
    notes: tuple[str, ...]
    unmatched: Shown
    reference: str


def answer(known: Compared, statistic: str, metrics: tuple[str, ...] = panels.CHARTED) -> Answer:
    """The answer in words and tables to one comparison."""
    found = known.found
    levels = panels.level_rows(found, known.sure, statistic, metrics)
    badges = arm_badges(levels.set_index(["setting", "arm_id"]), known)
    levels = levels.assign(badge=badges.to_numpy())
    mine = levels[levels["metric"] == "output_throughput"]
    lines = _study_lines(found)
    rate = lines["metric"] == "output_throughput"
    totals = lines[rate]
    return Answer(
        headline=phrases.headline(totals, known.reference),
        against=phrases.losses(totals, mine) + phrases.trades(totals, lines[~rate]),
        evidence=_evidence(found),
        badges=tuple(sorted(set(levels["badge"]) - {""})),
        titles=panels.titles(levels),
        levels=levels,
        totals=shown(geomean_rows(found, known.sure)),
        notes=_notes(known.sure, found),
        unmatched=shown(unmatched_rows(found, known.cells)),
        reference=known.reference,
    )


def arm_badges(rows: pd.DataFrame, known: Compared) -> pd.Series:
    """The badge of the evidence, and that of an acceptance which nobody measured.

    ``rows``: indexed by setting and arm_id, with ``badge``.
    """
    pairs = known.found.pairs.rename(columns={"speculative_id": "cell_id"})
    by_hand = synthetic(pairs, known.cells)
    told = [
        joined_badge(b, key in by_hand) for key, b in zip(rows.index, rows["badge"], strict=True)
    ]
    return pd.Series(told, index=rows.index, dtype=object)


def _notes(sure: Confidence, found: Comparison) -> tuple[str, ...]:
    """What a reader of the intervals must know."""
    if sure.levels.empty and not found.levels.empty:
        return (
            f"Intervals are calculated for at most {MOST_INTERVALS} settings and arms: choose a "
            "model, a GPU or a dataset in the sidebar to see them.",
        )
    sampled = (sure.levels["covers"] == "sampling").any()
    return (f"An asterisk marks an interval of sampled requests. {SENTENCE}",) if sampled else ()


def _study_lines(found: Comparison) -> pd.DataFrame:
    rows = in_study_order(found.geomean).dropna(subset="improvement")
    return rows.join(panels.places(found), on=["setting", "arm_id"])


def _evidence(found: Comparison) -> str:
    pairs = found.pairs.drop_duplicates("speculative_id")
    if pairs.empty:
        return ""
    repeats = pairs.groupby(["setting", "arm_id", "concurrency"], dropna=False).size()
    return phrases.evidence(repeats, ([f.name for f in flags] for flags in pairs["flags"]))


def improvement_drawings(known: Answer, ends: pd.DataFrame, metric: str) -> list[Drawing]:
    """One chart per panel of the improvement of a metric, all on one scale.

    ``ends``: panel, arm, concurrency, where a gain ends.
    """
    marks = panels.improvements(known.levels[known.levels["metric"] == metric])
    if marks.empty:
        return [_unknown(metric)]
    scales = panels.improvement_scales(marks)
    return [
        drawn(
            charts.improvement_by_concurrency(
                panel_of(marks, name, scales), (title, ""), scales, ends[ends["panel"] == name]
            )
        )
        for name, title in _drawn_titles(known, marks)
    ]


def value_drawings(known: Answer, metric: str) -> list[Drawing]:
    """One chart per panel of a metric in its own unit, all on one scale."""
    rows = known.levels[known.levels["metric"] == metric]
    if rows.empty:
        return [_unknown(metric)]
    marks = panels.values(rows, METRICS[metric], known.reference)
    scales = panels.value_scales(marks)
    return [
        drawn(
            charts.metric_by_concurrency(
                panel_of(marks, name, scales), METRICS[metric], (title, ""), scales
            )
        )
        for name, title in _drawn_titles(known, marks)
    ]


def _drawn_titles(known: Answer, marks: pd.DataFrame) -> list[tuple[str, str]]:
    """Panel and title of those that are drawn: what has marks, those with most levels first."""
    there = set(marks["panel"])
    return [item for item in known.titles.items() if item[0] in there][:MOST_PANELS]


def _unknown(metric: str) -> Drawing:
    return drawn(charts.nothing(f"{METRICS[metric].label}: unknown"))


def metric_drawings(known: Answer, panel: str, statistic: str) -> list[Drawing]:
    """One chart per charted metric of one panel, in the order of ``panels.CHARTED``."""
    rows = known.levels[known.levels["panel"] == panel]
    return [_metric_drawing(rows, key, statistic, known) for key in panels.CHARTED]


def _metric_drawing(rows: pd.DataFrame, key: str, statistic: str, known: Answer) -> Drawing:
    metric = METRICS[key]
    chosen = rows[rows["metric"] == key]
    if chosen.empty:
        return _unknown(key)
    marks = panels.values(chosen, metric, known.reference)
    scales = panels.value_scales(marks)
    name = str(chosen["panel"].iloc[0])
    said = phrases.named(metric, panels.shown_statistic(metric, statistic))
    title = (f"{said}, {metric.unit}", known.titles[name])
    return drawn(charts.metric_by_concurrency(panel_of(marks, name, scales), metric, title, scales))


def ends_of_gains(known: Compared, metric: str, statistic: str) -> pd.DataFrame:
    """panel, arm, concurrency: where the gain of a metric ends between two measured loads."""
    ends = [one for one in crossovers(known.sure.levels, metric, statistic) if one.kind == ENDS]
    index = pd.MultiIndex.from_tuples(
        [(one.setting, one.arm_id) for one in ends], names=["setting", "arm_id"]
    )
    rows = pd.DataFrame({"concurrency": [one.at for one in ends]}, index=index)
    told = rows.join(panels.places(known.found))[["panel", "arm", "concurrency"]]
    return told.reset_index(drop=True)


def drawn(chart: charts.Chart) -> Drawing:
    """A chart as Vega-Lite, its data already in the bytes that a browser gets."""
    return specification(chart)
