"""The small panels of the Verdict page: an arm over the load, a panel for each setting."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.verdicts.decision import DECISIVE
from analysis.verdicts.overall import Overall
from dashboard import charts, panels
from dashboard import phrases_verdict as said
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.answers.judged import Judged, of_arm
from dashboard.ends import panel_of

#: A small panel, px: two rows of them stand above the fold.
PANEL_HEIGHT = 190

#: More datasets than this do not fit side by side.
_ACROSS = 4


def grid(about: Judged, one: Overall) -> tuple[tuple[tuple[Drawing | None, ...], ...], int]:
    """Datasets side by side, tensor parallel sizes below one another; as they come where other
    things tell settings apart."""
    found = about.known.found
    mine = replace(
        found, pairs=of_arm(found.pairs, one.arm_id), levels=of_arm(found.levels, one.arm_id)
    )
    levels = panels.level_rows(mine, about.known.sure, "mean", ("output_throughput",))
    marks = panels.improvements(levels)
    if marks.empty:
        return (), 0
    marks = marks.assign(end_label=[f"{v * 100:+.0f}\u202f%" if text else "" for v, text in
                                    zip(marks["value"], marks["end_label"], strict=True)])  # fmt: skip
    places = _places(about, one)
    by_setting = rates(about, one)
    drawn_ones = {s: _panel(about, one, by_setting[s], marks) for s in places[:MOST_PANELS]}
    rows = _rows(about, places[:MOST_PANELS])
    grid = tuple(tuple(None if s is None else drawn_ones[s] for s in row) for row in rows)
    return grid, max(len(places) - MOST_PANELS, 0)


def _places(about: Judged, one: Overall) -> list[int]:
    """The settings of an arm by tensor parallel size, then by name."""
    keys = about.known.found.keys["tensor_parallel_size"].astype("float64")
    size = {s.setting: keys.loc[(s.setting, one.arm_id)] for s in one.settings}
    # An unknown size is sorted last.
    return sorted(size, key=lambda s: (bool(np.isnan(size[s])), size[s], about.names[s]))


def _rows(about: Judged, settings: list[int]) -> list[list[int | None]]:
    keys = about.known.found.keys.reset_index().drop_duplicates("setting").set_index("setting")
    told = keys.loc[settings, ["dataset", "tensor_parallel_size"]]
    told = told.astype(object).where(told.notna(), "unknown")
    datasets = sorted(told["dataset"].unique(), key=str)
    if told.duplicated().any() or len(datasets) > _ACROSS:
        padded: list[int | None] = [*settings, *[None] * (-len(settings) % _ACROSS)]
        return [padded[i : i + _ACROSS] for i in range(0, len(padded), _ACROSS)]
    by_place = {(row.tensor_parallel_size, row.dataset): setting
                for setting, row in zip(told.index, told.itertuples(), strict=True)}  # fmt: skip
    sizes = told["tensor_parallel_size"].unique()
    return [[by_place.get((size, name)) for name in datasets] for size in sizes]


def _panel(about: Judged, one: Overall, row: dict[str, Any], marks: pd.DataFrame) -> Drawing:
    """The chart of one setting; ``row``: the interval of its output throughput."""
    setting = int(row["setting"])
    decision = next(s for s in one.settings if s.setting == setting)
    scales = panels.improvement_scales(marks)
    name = about.names[setting]
    rows = panel_of(marks, name, scales)
    end = decision.crossover.at if decision.crossover.kind == "ends" else None
    ends = pd.DataFrame({"arm": rows["arm"].iloc[:1], "concurrency": end}).dropna()
    note = "".join(f"  [{badge}]" for badge in about.badges[one.arm_id])
    title = (said.panel_answer(decision.answer, row, end), name + note)
    return drawn(charts.improvement_by_concurrency(rows, title, scales, ends, PANEL_HEIGHT))


def rates(about: Judged, one: Overall) -> dict[int, dict[str, Any]]:
    """Setting -> the interval of the output throughput of an arm."""
    rows = of_arm(about.known.sure.geomean, one.arm_id)
    metric, statistic = DECISIVE
    chosen = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    return {int(row["setting"]): row for row in records(chosen)}
