"""What the SLO page says of loads: the largest within an SLO, in words, a table and strips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.matching.arm_levels import ArmLevels
from analysis.service.goodput import Goodput
from analysis.service.largest_load import Load
from analysis.service.slo import Slo
from dashboard.answers import MOST_PANELS, Drawing, drawn, slo_tables
from dashboard.answers.arm_loads import BASELINE, ArmLoad
from dashboard.charts.pareto import slo_strips
from dashboard.components import Shown, shown
from dashboard.phrases import counted

NOTHING = "Nothing that was measured has a concurrency, so there is no largest load."


@dataclass(frozen=True)
class Answer:
    """``goodputs``: by cell, only where they were asked for; ``unpriced``: sentences."""

    headline: str
    arms: tuple[ArmLoad, ...]
    totals: Shown
    levels: Shown
    strips: list[Drawing]
    panels: int
    badges: tuple[str, ...]
    unpriced: tuple[str, ...]
    rows: pd.DataFrame
    """Every load of every arm, unrounded, for a file."""


def answer(
    arms: Sequence[ArmLoad], levels: ArmLevels, slo: Slo, goodputs: Mapping[str, Goodput | None]
) -> Answer:
    """All that the page shows of an SLO; ``levels``: those that ``arms`` were judged by. Drawn are
    the settings with most measurements."""
    rows = slo_tables.level_rows(arms, levels, goodputs)
    most = set(levels.values["setting"].value_counts().index[:MOST_PANELS])
    panels = dict.fromkeys(arm.panel for arm in arms if arm.key[0] in most)
    return Answer(
        headline(arms, slo),
        tuple(arms),
        shown(slo_tables.totals(arms, rows)),
        shown(slo_tables.levels_told(rows, bool(goodputs))),
        [_strips([arm for arm in arms if arm.panel == name]) for name in panels],
        int(levels.values["setting"].nunique()),
        tuple(sorted({arm.badge for arm in arms} - {""})),
        tuple(dict.fromkeys(arm.unpriced for arm in arms if arm.unpriced)),
        slo_tables.file_rows(rows),
    )


def headline(arms: Sequence[ArmLoad], slo: Slo) -> str:
    """Whether speculation carries more load within the SLO."""
    if not arms:
        return NOTHING
    settings = _settings(arms)
    if not settings:
        meeting = sum(arm.load.largest is not None for arm in arms)
        return f"Within {slo.text}: {meeting} of {counted(len(arms), 'arm')} can be run."
    if len(settings) == 1:
        return _one(slo, *settings[0])
    return _many(slo, settings)


def _settings(arms: Sequence[ArmLoad]) -> list[tuple[ArmLoad, ArmLoad]]:
    """The baseline and the arm that carries most, of every setting that has both."""
    panels: dict[str, list[ArmLoad]] = {}
    for arm in arms:
        panels.setdefault(arm.panel, []).append(arm)
    return [
        (_largest(own, True), _largest(own, False))
        for own in panels.values()
        if len({arm.arm == BASELINE for arm in own}) == 2
    ]


def _largest(arms: Sequence[ArmLoad], baseline: bool) -> ArmLoad:
    mine = [arm for arm in arms if (arm.arm == BASELINE) == baseline]
    return max(mine, key=lambda arm: arm.load.largest or 0)


def _one(slo: Slo, old: ArmLoad, new: ArmLoad) -> str:
    return (
        f"Within {slo.text}, {new.arm} carries {_carried(new.load)} on {new.panel}; "
        f"the baseline carries {_carried(old.load)}."
    )


def _carried(load: Load) -> str:
    if load.largest is None:
        return "no load that was measured"
    least = "at least " if load.largest == load.levels[-1].concurrency else ""
    return f"{least}{counted(load.largest, 'concurrent request')}"


def _many(slo: Slo, settings: Sequence[tuple[ArmLoad, ArmLoad]]) -> str:
    loads = [(old.load.largest or 0, new.load.largest or 0) for old, new in settings]
    more, less = (sum(new > old for old, new in loads), sum(new < old for old, new in loads))
    nowhere = sum(old == new == 0 for old, new in loads)
    told = f"a larger load than the baseline in {more} of {len(loads)} settings"
    tail = f", a smaller one in {less}" if less else ""
    none = f"; in {nowhere} neither meets it at any load" if nowhere else ""
    return f"Within {slo.text}, speculation carries {told}{tail}{none}."


def _strips(arms: Sequence[ArmLoad]) -> Drawing:
    """The chart of one setting."""
    rows = pd.DataFrame([row for arm in arms for row in _strip(arm)])
    badges = sorted({arm.badge for arm in arms} - {""})
    title = arms[0].panel + "".join(f"  [{badge}]" for badge in badges)
    return drawn(slo_strips(rows, (title, "filled: meets the SLO; cross: misses it")))


def _strip(arm: ArmLoad) -> list[dict[str, Any]]:
    lowest = arm.load.levels[0].concurrency
    largest = arm.load.largest
    far = "no load" if largest is None else f"up to {largest}"
    return [
        {
            "arm": arm.arm,
            "concurrency": level.concurrency,
            "state": slo_tables.STATES[level.met],
            "solid": int(level.met is True),
            "told": slo_tables.why(level) or "all bounds hold",
            "repeats": f"{level.meeting} of {level.repeats}",
            "label": f"{arm.arm}: {far}" if level.concurrency == lowest else "",
            "largest": largest if level.concurrency == lowest else None,
        }
        for level in arm.load.levels
    ]
