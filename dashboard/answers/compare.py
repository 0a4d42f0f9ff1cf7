"""What the Compare page shows: the decision's headline, tables and drawings of the compared arms."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from answers.compare import words
from answers.compare.values import Arm, Comparison, PairLine, Setting
from answers.decide.values import Decision, Decisions
from answers.decide.words import title
from dashboard import charts
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.answers import compare_marks as marks_of
from dashboard.answers.compare_marks import Line, shown_statistic
from dashboard.charts import Scales
from dashboard.components import Shown, shown
from dashboard.ends import panel_of
from dashboard.load_places import LoadPlaces, load_places
from dashboard.panels import CHARTED
from warehouse.catalogue import METRICS


@dataclass(frozen=True)
class Page:
    """``headline``, ``about`` and ``against``: those of the decision; ``titles``: setting -> its
    title with badges, those with most loads first."""

    headline: str
    about: str
    against: tuple[str, ...]
    evidence: str
    badges: tuple[str, ...]
    titles: dict[str, str]
    totals: Shown
    notes: tuple[str, ...]
    unmatched: Shown
    excluded: Shown
    reference: str


def page(found: Comparison, decided: Decisions) -> Page:
    """The page in words and tables."""
    arms = [arm for setting in found.settings for arm in setting.arms]
    first = decided.decisions[0] if decided.decisions else None
    return Page(
        headline=first.headline if first else decided.why_none or words.why_none(True, ()),
        about=_about(first, len(decided.decisions)),
        against=tuple(one.sentence for one in first.against[:_LISTED]) if first else (),
        evidence=words.evidence(found) if arms else "",
        badges=tuple(sorted({badge for arm in arms for badge in arm.badges})),
        titles=_titles(found.settings),
        totals=shown(_totals(found)),
        notes=tuple(dict.fromkeys(filter(None, map(_note, arms)))),
        unmatched=shown(_unmatched(found)),
        excluded=shown(pd.DataFrame([(x.cell, x.why) for x in found.excluded], columns=["cell", "why it decides nothing"])),
        reference=found.reference,
    )  # fmt: skip


#: Losses that are told above the charts.
_LISTED = 3


def _about(first: Decision | None, decisions: int) -> str:
    if first is None:
        return ""
    more = decisions - 1
    beside = f" {words.counted(more, 'more decision')} stand on the page Decide." if more else ""
    return f"This is the decision on {title(first)}.{beside}"


def _note(arm: Arm) -> str:
    return "" if arm.launches_stated else words.CAPPED


def _titles(settings: Sequence[Setting]) -> dict[str, str]:
    order = sorted(settings, key=lambda one: -sum(len(arm.changes) for arm in one.arms))
    return {one.name: one.name + "".join(f"  [{b}]" for b in _badges(one)) for one in order}


def _badges(setting: Setting) -> list[str]:
    return sorted({badge for arm in setting.arms for badge in arm.badges})


def _totals(found: Comparison) -> pd.DataFrame:
    """One row per setting, arm and line of the study's table."""
    header = ["setting", "arm", *MEAN_COLUMNS]
    rows = [
        (setting.name, arm.name, *words.mean_row(mean))
        for setting in found.settings for arm in setting.arms for mean in arm.means
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=header)


MEAN_COLUMNS = ("metric", "reference", "this arm", "improvement", "at loads")
LEVEL_COLUMNS = (
    "arm", "load", "metric", "reference", "this arm", "improvement", "95 % interval",
    "study-adjusted", "word", "launches",
)  # fmt: skip


def level_table(found: Comparison, name: str) -> Shown:
    """Every load of one setting with its interval and word."""
    arms = [arm for setting in found.settings if setting.name == name for arm in setting.arms]
    rows = [(arm.name, *words.level_row(change)) for arm in arms for change in arm.changes]
    return shown(pd.DataFrame(rows, columns=list(LEVEL_COLUMNS)))


def _unmatched(found: Comparison) -> pd.DataFrame:
    """What each cell without a partner is, and why it has none."""
    names = ("dataset", "arm", "load", "gpu", "model", "reason", "cell")
    rows = [[getattr(cell, name) for name in names] for cell in found.unmatched]
    return pd.DataFrame(rows, columns=[*names[:-1], "cell_id"])


def pair_rows(lines: Sequence[PairLine]) -> pd.DataFrame:
    """One row per pair and line, values unrounded, for a file."""
    rows = [
        {
            "setting": line.setting, "arm": line.arm,
            "load": None if line.pair.load is None else line.pair.load.text,
            "repeat": line.pair.repeat, "metric": line.metric, "statistic": line.statistic,
            "reference": line.reference, "value": line.value, "improvement": line.improvement,
            "allowed": ", ".join(line.allowed), "flags": ", ".join(line.pair.flags),
            "reference_cell": line.pair.reference_cell, "cell": line.pair.arm_cell,
        }
        for line in lines
    ]  # fmt: skip
    return pd.DataFrame(rows)


def improvement_drawings(found: Comparison, titles: dict[str, str], line: Line) -> list[Drawing]:
    """One chart per setting of the improvement of a line, all on one scale."""
    places = _places(found.settings, line)
    marks = marks_of.improvements(found.settings, line, places)
    if marks.empty:
        return [_unknown(line[0])]
    scales = marks_of.improvement_scales(marks, places)
    return [
        drawn(charts.improvement_by_concurrency(panel_of(marks, name, scales), (told, ""), scales))
        for name, told in _drawn_titles(titles, marks)
    ]


def value_drawings(found: Comparison, titles: dict[str, str], line: Line) -> list[Drawing]:
    """One chart per setting of a line in its own unit, all on one scale."""
    marks, scales = _values(found.settings, line, found.reference)
    if scales is None:
        return [_unknown(line[0])]
    return [
        _value_drawing(marks, name, line, (told, ""), scales)
        for name, told in _drawn_titles(titles, marks)
    ]


def metric_drawings(found: Comparison, name: str, told: str, statistic: str) -> list[Drawing]:
    """One chart per charted metric of one setting, in the order of CHARTED."""
    mine = [setting for setting in found.settings if setting.name == name]
    lines = [(key, shown_statistic(METRICS[key], statistic)) for key in CHARTED]
    return [_metric_drawing(mine, line, told, found.reference) for line in lines]


def _metric_drawing(settings: Sequence[Setting], line: Line, told: str, reference: str) -> Drawing:
    marks, scales = _values(settings, line, reference)
    if scales is None:
        return _unknown(line[0])
    said = f"{words.metric_name(*line)}, {METRICS[line[0]].unit}"
    return _value_drawing(marks, settings[0].name, line, (said, told), scales)


def _values(
    settings: Sequence[Setting], line: Line, reference: str
) -> tuple[pd.DataFrame, Scales | None]:
    places = _places(settings, line)
    marks = marks_of.values(settings, line, places, reference)
    return marks, None if marks.empty else marks_of.value_scales(marks, places)


def _places(settings: Sequence[Setting], line: Line) -> LoadPlaces:
    return load_places(change.load for _, _, change in marks_of.changes(settings, line))


def _value_drawing(
    marks: pd.DataFrame, name: str, line: Line, title: tuple[str, str], scales: Scales
) -> Drawing:
    rows = panel_of(marks, name, scales)
    return drawn(charts.metric_by_concurrency(rows, METRICS[line[0]], title, scales))


def _drawn_titles(titles: dict[str, str], marks: pd.DataFrame) -> list[tuple[str, str]]:
    """Setting and title of those that are drawn: what has marks, those with most loads first."""
    there = set(marks["panel"])
    return [item for item in titles.items() if item[0] in there][:MOST_PANELS]


def _unknown(metric: str) -> Drawing:
    return drawn(charts.nothing(f"{METRICS[metric].label}: unknown"))
