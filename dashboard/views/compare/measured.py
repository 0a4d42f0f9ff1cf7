"""A measured subject on the Compare page: the study's figures of each dataset and size."""

import functools
from collections import Counter
from dataclasses import dataclass

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.comparison import STUDY_TABLE
from answers.compare.answer import compare, pair_lines
from answers.compare.subjects import ComparedSubject, SettingAnswer, answer
from answers.compare.values import (
    CAPPED,
    KEPT_UP,
    ArmComparison,
    ComparedSetting,
    CompareQuestion,
    MetricLine,
    PairLine,
    counted,
    level_row,
    mean_row,
    means_over,
    metric_name,
    short_name,
    why_none,
    with_unit,
)
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion as Decide
from answers.wording import bracketed
from dashboard.charts.compare import View, over_load
from dashboard.charts.compare import answer as said_by
from dashboard.charts.spec import Drawing, specification
from dashboard.components import explanation, plain, shown, table
from dashboard.downloads import rows_menu
from dashboard.links import follow_first, lost
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask, cached
from dashboard.views.compare import controls, pair
from dashboard.views.compare.pair import files, grid
from warehouse.catalogue import METRICS

# --- Tables of the Compare page: the study's means, every load, what has no partner.


_LEVELS = (
    "arm", "load", "metric", "reference", "this arm", "improvement", "95 % interval",
    "study-adjusted", "word", "launches",
)  # fmt: skip
_COLUMNS = {
    name: st.column_config.TextColumn(name, alignment="right")
    for name in ("reference", "this arm", "improvement", "95 % interval", "study-adjusted")
}


def means(setting: ComparedSetting, arm: str, reference: str) -> None:
    """Draw the study's table: geometric means of one arm beside the reference."""
    chosen = next(one for one in setting.arms if one.name == arm)
    st.subheader(plain(f"The study's table: {arm} against {reference} on {setting.name}"))
    st.caption(plain(means_over(chosen)))
    rows = [mean_row(mean)[:-1] for mean in chosen.means]
    header = ["metric, geometric mean", "reference", "this arm", "improvement"]
    table(shown(pd.DataFrame(rows, columns=header)), "rows", _COLUMNS)
    if not chosen.launches_stated:
        st.caption(plain(CAPPED))


def levels(shelf: Shelf, question: CompareQuestion, setting: ComparedSetting) -> None:
    """Draw every arm at every load, folded, and offer all pairs as a file."""
    with st.expander("Every arm and load, with interval and word"):
        rows = [(arm.name, *level_row(change)) for arm in setting.arms for change in arm.changes]
        table(shown(pd.DataFrame(rows, columns=list(_LEVELS))), "rows", _COLUMNS)
        make = functools.partial(ask, shelf, pair_lines, question)
        rows_menu("pairs", lambda: pair_rows(make()))


def left_out_table(found: ArmComparison) -> None:
    """Draw what has no partner, and what is shown but decides nothing."""
    lonely, excluded = len(found.unmatched), len(found.excluded)
    if not lonely and not excluded:
        st.caption("Every cell has a partner.")
        return
    told = f"Without a partner: {counted(lonely, 'cell')}"
    if excluded:
        told += f"; shown, but deciding nothing: {counted(excluded, 'cell')}"
    with st.expander(told, expanded=not found.settings):
        names = ("dataset", "arm", "load", "gpu", "model", "reason", "cell")
        rows = [[getattr(cell, name) for name in names] for cell in found.unmatched]
        if rows:
            table(shown(pd.DataFrame(rows, columns=list(names))), "cells")
        why = [(cell.cell, cell.why) for cell in found.excluded]
        if why:
            header = ["cell", "why it decides nothing"]
            table(shown(pd.DataFrame(why, columns=header)), "cells")


def pair_rows(lines: tuple[PairLine, ...]) -> pd.DataFrame:
    """Return one row per pair and line, values unrounded, for a file."""
    return pd.DataFrame(
        {
            "setting": line.setting, "arm": line.arm,
            "load": None if line.pair.load is None else line.pair.load.text,
            "repeat": line.pair.repeat, "metric": line.metric, "statistic": line.statistic,
            "reference": line.reference, "value": line.value, "improvement": line.improvement,
            "allowed": ", ".join(line.allowed), "flags": ", ".join(line.pair.flags),
            "reference_cell": line.pair.reference_cell, "cell": line.pair.arm_cell,
        }
        for line in lines
    )  # fmt: skip


# --- A measured subject on the Compare page: the study's figures of each dataset and size.


DRAFTS, ONE_METRIC, ONE_PAIR = "Draft tokens", "One metric, every dataset", "One pair"
#: Name of a figure -> the lines that it draws, as the published study groups them.
FIGURES: dict[str, tuple[MetricLine, ...]] = {
    "All metrics": STUDY_TABLE,
    "Throughput": (("output_throughput", "mean"), ("total_throughput", "mean")),
    "First token and latency": (("ttft", "p95"), ("request_latency", "p50")),
    "Between tokens": (("itl", "p95"), ("tpot", "p95")),
    DRAFTS: (("output_throughput", "mean"), ("request_latency", "p50")),
}
_ALL = (*FIGURES, ONE_METRIC, ONE_PAIR)
#: Charts that are drawn at once; settings that are offered side by side, and of more in a list.
_MOST = _FEW = 6
_HOW = (
    "Grey is the reference. Click on a faint line's point to see that arm in colour. Bands reach "
    "from the lowest to the highest repeat; hollow: a single one."
)
_HOW_IMPROVED = (
    "Above the dashed line is better than the reference. Bands are 95 % intervals from server "
    "starts; hollow: a single one. Throughput at a rate that every arm keeps up with is what was "
    f"offered and is not compared ({KEPT_UP})."
)


@dataclass(frozen=True)
class Chosen:
    """What was asked and found, and the subject that is shown; None where nothing has a partner."""

    question: CompareQuestion
    found: ArmComparison
    subject: ComparedSubject | None


@dataclass(frozen=True)
class _Shown:
    """One setting of a subject, its answer, and the arm in colour."""

    question: CompareQuestion
    subject: ComparedSubject
    setting: ComparedSetting
    told: SettingAnswer
    arm: str

    def link(self, figure: str) -> dict[str, str]:
        """Return the parameters that show a figure again."""
        return {
            "subject": self.subject.name, "setting": self.setting.name, "chart": figure,
            "in_colour": self.arm,
        }  # fmt: skip


def render(shelf: Shelf, chosen: Chosen, top: DeltaGenerator) -> None:
    """Draw the subject: its answer at the top, the figure, the study's table."""
    found, subject = chosen.found, chosen.subject
    if subject is None:
        top.header(plain(found.why_none or why_none(True, ())))
        nothing(shelf, "No cell has a partner among these filters. The reasons stand below.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        setting = _setting(subject)
        if setting is None:
            names = [one.name for one in subject.settings]
            top.header(plain(f"Not here any more: {lost('setting', names)}"))
            return
        decisions = ask(shelf, decide, Decide(chosen.question.filters)).decisions
        told = answer(setting, decisions, found.reference)
        arm = _arm(setting, told)
    shown = _Shown(chosen.question, subject, setting, told, arm)
    figure = _figure()
    with top:
        _say(shown)
    if figure == ONE_PAIR:
        pair.render(shelf, found, setting)
    elif figure == ONE_METRIC:
        _one_metric(shelf, shown)
    else:
        _draw(shelf, shown, figure)
    means(setting, arm, found.reference)
    levels(shelf, chosen.question, setting)


def left_out(found: ArmComparison) -> None:
    """Draw what has no partner, and what decides nothing."""
    left_out_table(found)


def _setting(subject: ComparedSubject) -> ComparedSetting | None:
    """Ask for the dataset and tensor parallel size; None where the link names one that is gone."""
    names = [one.name for one in subject.settings]
    follow_first("setting", names)
    gone = lost("setting", names)
    if len(names) == 1 and gone is None:
        return subject.settings[0]
    label, first = "Dataset and tensor parallel size", None if gone else names[0]
    if len(names) > _FEW:
        index = None if gone else 0
        name = st.selectbox(label, names, index=index, key="setting", bind="query-params")
    else:
        name = st.segmented_control(
            label, names, default=first, required=not gone, key="setting", bind="query-params"
        )
    return None if name is None else subject.setting(name)


def _figure() -> str:
    """Ask for the figure; a former link that names a metric or requests leads to where they are
    now."""
    asked = st.query_params
    first = ONE_METRIC if "metric" in asked else ONE_PAIR if "requests" in asked else _ALL[0]
    chosen: str = st.segmented_control(
        "Figure", list(_ALL), default=first, required=True, key="chart", bind="query-params"
    )
    return chosen


def _arm(setting: ComparedSetting, told: SettingAnswer) -> str:
    names = sorted((arm.name for arm in setting.arms), key=lambda name: name != told.arm)
    if len(names) == 1:
        return names[0]
    follow_first("in_colour", names)
    chosen: str = st.selectbox("Arm in colour", names, key="in_colour", bind="query-params")
    return chosen


def _say(shown: _Shown) -> None:
    st.header(plain(shown.told.headline))
    badges = sorted({badge for arm in shown.setting.arms for badge in arm.badges})
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in badges:
            st.badge(text, color="gray")
        st.caption(plain(f"Decided on {shown.setting.name}. {_against(shown.told)}"))


def _against(told: SettingAnswer) -> str:
    return f"Against it: {'; '.join(told.against)}." if told.against else ""


def _draw(shelf: Shelf, shown: _Shown, figure: str) -> None:
    """Draw a figure of the study: each metric with its own statistic."""
    seen = _every_k(shown) if figure == DRAFTS else (shown.arm,)
    st.caption(_HOW)
    reference, badge = shown.question.reference, _badge(shown.setting)
    views = [View(line, seen, reference, True, _title(line) + badge) for line in FIGURES[figure]]
    drawings = [_drawing(shelf, shown.question, shown.setting.name, view) for view in views]
    name = f"{figure}: {shown.setting.name}"
    grid(drawings, [_alt(shown.setting, view) for view in views])
    files(name, drawings, shown.link(figure))


def _one_metric(shelf: Shelf, shown: _Shown) -> None:
    """Draw one metric over the load, a panel for each setting of the subject, on one scale."""
    one = controls.one_metric()
    settings = shown.subject.settings
    unit = METRICS[one.line[0]].unit if one.absolute else "improvement"
    name = f"{metric_name(*one.line)}, {unit}"
    st.subheader(plain(name), help=explanation(METRICS[one.line[0]], one.line[1]))
    st.caption(_HOW if one.absolute else _HOW_IMPROVED)
    if len(settings) > _MOST:
        st.caption(
            f"{_MOST} of {len(settings)} settings are drawn, those with most loads. Choose a "
            "dataset or a GPU in the sidebar to see the others."
        )
    reference = shown.question.reference
    views = {
        each.name: View(one.line, (_same(each, shown.arm),), reference, one.absolute,
                        f"{each.name}{_badge(each)}")
        for each in settings[:_MOST]
    }  # fmt: skip
    beside = tuple(views)
    drawings = [_drawing(shelf, shown.question, each, view, beside) for each, view in views.items()]
    grid(drawings, [_alt(each, views[each.name]) for each in settings[:_MOST]])
    files(name, drawings, shown.link(ONE_METRIC))


def _same(setting: ComparedSetting, arm: str) -> str:
    """Return the arm's name in another setting; where it was not measured there, the first
    arm's."""
    names = [one.name for one in setting.arms]
    return arm if arm in names else names[0]


def _badge(setting: ComparedSetting) -> str:
    return bracketed(*sorted({badge for arm in setting.arms for badge in arm.badges}))


def _every_k(shown: _Shown) -> tuple[str, ...]:
    """Return the chosen arm and every K of its method; where it has only one K, those of the method
    with most."""
    names = [arm.name for arm in shown.setting.arms]
    count = Counter(map(_without_k, names))
    mine = _without_k(shown.arm)
    family = mine if count[mine] > 1 else count.most_common(1)[0][0]
    return tuple(dict.fromkeys((shown.arm, *(n for n in names if _without_k(n) == family))))


def _without_k(arm: str) -> tuple[str, str]:
    method, _, rest = arm.partition(" K=")
    return method, rest.partition(" ")[2]


def _title(line: MetricLine) -> str:
    return f"{short_name(*line)}, {METRICS[line[0]].unit}"


def _alt(setting: ComparedSetting, view: View) -> str:
    """Describe a chart in words for those who do not see it."""
    told = said_by(setting, view.line, view.seen[0])
    return f"{with_unit(*view.line)} over the load on {setting.name}: {told}."


@cached
def _drawing(
    shelf: Shelf, question: CompareQuestion, name: str, view: View, beside: tuple[str, ...] = ()
) -> Drawing:
    """Return the chart of a setting, by its name."""
    settings = {one.name: one for one in ask(shelf, compare, question).settings}
    others = [settings[other] for other in beside if other != name]
    return specification(over_load(settings[name], view, others))
