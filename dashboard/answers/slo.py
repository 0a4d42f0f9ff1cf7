"""What the SLO page says of loads: the largest within an SLO, in words, a table and strips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.matching.arm_levels import ArmLevels
from analysis.service.goodput import Goodput
from analysis.service.slo import Slo
from dashboard.answers import MOST_PANELS, Drawing, drawn, slo_tables
from dashboard.answers.arm_loads import ArmLoad
from dashboard.charts.pareto import slo_strips
from dashboard.components import Shown, shown
from dashboard.phrases import counted

NOTHING = "Of nothing that was measured the load is known, so there is no largest one."


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
    drawable = [arm for arm in arms if arm.key[0] in most and _has_values(arm)]
    panels = dict.fromkeys(arm.panel for arm in drawable)
    return Answer(
        headline(arms, slo),
        tuple(arms),
        shown(slo_tables.totals(arms, rows)),
        shown(slo_tables.levels_told(rows, bool(goodputs))),
        [_strips([arm for arm in drawable if arm.panel == name]) for name in panels],
        int(levels.values["setting"].nunique()),
        tuple(sorted({arm.badge for arm in arms} - {""})),
        tuple(dict.fromkeys(arm.unpriced for arm in arms if arm.unpriced)),
        slo_tables.file_rows(rows),
    )


def headline(arms: Sequence[ArmLoad], slo: Slo) -> str:
    """How many arms meet the SLO at all. Which arm to take is the decision's to say."""
    if not arms:
        return NOTHING
    meeting = sum(arm.load.largest is not None for arm in arms)
    settings = counted(len({arm.key[0] for arm in arms}), "setting")
    return (
        f"{meeting} of {counted(len(arms), 'arm')} in {settings} meet {slo.text} at some load; "
        "the largest load of each stands below."
    )


def _has_values(arm: ArmLoad) -> bool:
    """Whether its loads stand on an axis: a trace has no number."""
    return all(level.load.value is not None for level in arm.load.levels)


def _strips(arms: Sequence[ArmLoad]) -> Drawing:
    """The chart of one setting."""
    rows = pd.DataFrame([row for arm in arms for row in _strip(arm)])
    badges = sorted({arm.badge for arm in arms} - {""})
    title = arms[0].panel + "".join(f"  [{badge}]" for badge in badges)
    name = "requests a second" if arms[0].load.levels[0].load.is_rate else "requests at once"
    return drawn(slo_strips(rows, (title, "filled: meets the SLO; cross: misses it"), name))


def _strip(arm: ArmLoad) -> list[dict[str, Any]]:
    lowest, largest = arm.load.levels[0].load, arm.load.largest
    far = "no load" if largest is None else f"up to {largest.short}"
    return [
        {
            "arm": arm.arm,
            "concurrency": level.load.value,
            "load": level.load.text,
            "state": slo_tables.STATES[level.met],
            "solid": int(level.met is True),
            "told": slo_tables.why(level) or "all bounds hold",
            "repeats": f"{level.meeting} of {level.repeats}",
            "label": f"{arm.arm}: {far}" if level.load == lowest else "",
            "largest": None if largest is None or level.load != lowest else largest.value,
        }
        for level in arm.load.levels
    ]
