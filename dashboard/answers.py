"""All that the Compare page shows of one comparison, made once per question and then cached."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.comparison import Comparison, in_study_order
from dashboard import charts, panels, phrases
from dashboard.components import Shown, shown
from dashboard.ends import panel_of
from dashboard.tables import geomean_rows, unmatched_rows
from warehouse.catalogue import METRICS

#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 12
Drawing = dict[str, Any]


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
    unmatched: Shown


def answer(found: Comparison, cells: pd.DataFrame, statistic: str) -> Answer:
    """The answer in words and tables to one comparison of ``cells``."""
    levels = panels.level_rows(found, statistic)
    mine = levels[levels["metric"] == "output_throughput"]
    lines = _study_lines(found)
    rate = lines["metric"] == "output_throughput"
    totals = lines[rate]
    return Answer(
        headline=phrases.headline(totals),
        against=phrases.losses(totals, mine) + phrases.trades(totals, lines[~rate]),
        evidence=_evidence(found),
        badges=tuple(sorted(set(levels["badge"]) - {""})),
        titles=panels.titles(levels),
        levels=levels,
        totals=shown(geomean_rows(found)),
        unmatched=shown(unmatched_rows(found, cells)),
    )


def _study_lines(found: Comparison) -> pd.DataFrame:
    rows = in_study_order(found.geomean).dropna(subset="improvement")
    return rows.join(panels.places(found), on=["setting", "arm_id"])


def _evidence(found: Comparison) -> str:
    pairs = found.pairs.drop_duplicates("speculative_id")
    if pairs.empty:
        return ""
    repeats = pairs.groupby(["setting", "arm_id", "concurrency"], dropna=False).size()
    return phrases.evidence(repeats, ([f.name for f in flags] for flags in pairs["flags"]))


def improvement_drawings(known: Answer, metric: str) -> list[Drawing]:
    """One chart per panel of the improvement of a metric, all on one scale."""
    marks = panels.improvements(known.levels[known.levels["metric"] == metric])
    if marks.empty:
        return [drawn(charts.nothing(f"{METRICS[metric].label}: unknown"))]
    scales = panels.improvement_scales(marks)
    return [
        drawn(charts.improvement_by_concurrency(panel_of(marks, name, scales), title, scales))
        for name, title in list(known.titles.items())[:MOST_PANELS]
    ]


def metric_drawings(known: Answer, panel: str, statistic: str) -> list[Drawing]:
    """One chart per charted metric of one panel, in the order of ``panels.CHARTED``."""
    rows = known.levels[known.levels["panel"] == panel]
    return [_metric_drawing(rows, key, statistic, known.titles[panel]) for key in panels.CHARTED]


def _metric_drawing(rows: pd.DataFrame, key: str, statistic: str, setting: str) -> Drawing:
    metric = METRICS[key]
    chosen = rows[rows["metric"] == key]
    if chosen.empty:
        return drawn(charts.nothing(f"{metric.label}: unknown"))
    marks = panels.values(chosen, metric)
    scales = panels.value_scales(marks)
    panel = panel_of(marks, str(chosen["panel"].iloc[0]), scales)
    name = phrases.named(metric, panels.shown_statistic(metric, statistic))
    title = (f"{name}, {metric.unit}", setting)
    return drawn(charts.metric_by_concurrency(panel, metric, title, scales))


def drawn(chart: charts.Chart) -> Drawing:
    """A chart as Vega-Lite, its data already in the bytes that a browser gets."""
    spec: Drawing = chart.to_dict()
    return spec | {"datasets": {name: _sent(rows) for name, rows in spec["datasets"].items()}}


def _sent(rows: Iterable[Any]) -> bytes:
    table, sink = pa.Table.from_pylist(list(rows)), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    sent: bytes = sink.getvalue().to_pybytes()
    return sent
