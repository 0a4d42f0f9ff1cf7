"""What speaks against it: what the server as pasted makes worse, settled or likely."""

from collections.abc import Iterator
from typing import Any

from analysis.evidence.words import LOSS
from analysis.frames import records
from analysis.matching.comparison import STUDY_TABLE
from answers.decide import words as said
from answers.decide.read import Ground
from answers.decide.shown import Shown, number
from answers.decide.values import Against, Difference
from warehouse.loads import Load

#: A smaller loss (ratio) is none that anybody weighs.
SMALLEST = 0.01


def losses(known: Ground, settings: tuple[int, ...], shown: Shown) -> Iterator[Against]:
    """Yield each loss of at least SMALLEST that the server has at a load where it drafts, once;
    settled ones first, the largest first."""
    arms = set(shown.drafts_at())
    lines = {*STUDY_TABLE, *shown.judged.lines}
    datasets = _datasets(known, settings)
    found: dict[tuple[Load, str, str], Against] = {}
    there = [known.losing[setting] for setting in settings if setting in known.losing]
    for row in (row for rows in there for row in records(rows)):
        load = known.found.loads[row["load"]]
        line = (row["metric"], row["statistic"])
        lost = -(number(row["improvement"]) or 0.0) >= SMALLEST
        if lost and line in lines and (load, row["arm_id"]) in arms:
            one = _against(row, load, shown, datasets.get(row["setting"]))
            found[load, *line] = min(found.get((load, *line), one), one, key=_weight)
    yield from sorted(found.values(), key=_weight)


def _datasets(known: Ground, settings: tuple[int, ...]) -> dict[int, str]:
    """Return setting -> its dataset where a mix has several settings; else nothing."""
    if len(settings) < 2:
        return {}
    named = known.found.keys["dataset"]
    return {setting: str(named.loc[setting].iloc[0]) for setting in settings}


def _against(row: dict[str, Any], load: Load, shown: Shown, dataset: str | None) -> Against:
    labels = {one.arm_id: one.label for one in shown.judged.field.candidates}
    names = ("improvement", "low", "high", "adjusted_low", "adjusted_high")
    difference = Difference(
        row["metric"], row["statistic"], row["word"], *(number(row[name]) for name in names)
    )
    arm = labels[row["arm_id"]]
    return Against(load, arm, difference, said.against(load, arm, difference, dataset))


def _weight(one: Against) -> tuple[bool, float]:
    return one.difference.word != LOSS, one.difference.improvement or 0.0
