"""Compare: how do arms compare, figure by figure, as the published study shows it?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import MATCH_FIELDS, stated_arguments
from answers.compare import values
from answers.compare.answer import compare, pair_lines
from answers.compare.kinds import HEADER, HOW, TITLES, UNTOLD, By, by_kind, kind_rows, reasons
from answers.compare.subjects import (
    ComparedSubject,
    NamedPair,
    PairRequests,
    answer,
    compared,
    configuration,
    offered,
    pairs,
    requests,
)
from answers.decide.answer import decide
from answers.decide.overview import NamedSubject
from answers.decide.values import DecideQuestion
from answers.ground import JUDGED
from answers.published.values import PublishedStudy
from answers.wording import bracketed
from dashboard.charts import Drawing, specification
from dashboard.charts import compare as charts
from dashboard.chosen import SubjectOffer, offer_of, one_of
from dashboard.components import badged, explanation, grid, listing, plain, segments, table, tabled
from dashboard.downloads import figure_files, rows_menu
from dashboard.filters import arms, cells, nothing
from dashboard.links import cell_link, choose, follow_first, lost, selected
from dashboard.shelf import Shelf, ask, cached
from dashboard.views import printed
from warehouse.catalogue import METRICS, STATISTICS, counted, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
ORDER = 20
#: The box of subjects.
_SUBJECT = "subject"
_NOTHING = "How do the arms compare? No result to compare yet."


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: the subject that is chosen; as on Decide what was measured on a GPU stands first, then
    published studies."""
    studies = printed.kept(shelf, Filters())
    studied = {study.title: study for study in studies if study.meets(filters)}
    if cells(shelf, filters).empty and not studied:
        st.header(_NOTHING)
        nothing(shelf)
        one_of(
            "Subject",
            (),
            _SUBJECT,
            _offer(shelf, values.CompareQuestion(filters), studies, {}).hidden,
        )
        return
    top, choice, body, folded = *(st.container() for _ in range(3)), st.empty()
    last = folded.container()
    with last:
        question = _question(arms(shelf, filters), filters, cells(shelf, filters))
    ours = _comparable(shelf, question)
    offer = _offer(shelf, question, studies, ours)
    if (
        studied
        and "figure" in st.query_params
        and not {_SUBJECT} & {*st.query_params, *st.session_state}
    ):
        # A link of when a published study stood first.
        choose(_SUBJECT, next(iter(studied)))
    with choice:
        name = one_of("Subject", offer.names, _SUBJECT, offer.hidden)
    if name in studied:
        folded.empty()
        with body:
            printed.render(studied[name], top)
    elif name not in ours and (name or offer.names):
        folded.empty()
        gone = f"Not here any more: {lost(_SUBJECT, offer.names)}"
        top.header(plain(gone if name is None else offer.why_hidden(name) or ""))
    else:
        # What the filters keep of a subject; all of it where there is none.
        about = None if name is None else ours[name]
        question = question if about is None else replace(question, filters=about.filters)
        comparison = ask(shelf, compare, question)
        subject = None if about is None else compared(comparison, about)
        with body:
            _subject(shelf, question, comparison, subject, top)
        with last:
            _left_out(comparison)
    with top:
        offer.say_default(_SUBJECT)


def _question(arms: list[str], filters: Filters, cells: pd.DataFrame) -> values.CompareQuestion:
    """Ask which cells are compared with which; folded, since most readers change nothing here.
    ``cells``: of them any server argument may be allowed alone."""
    with st.expander("Which cells are compared?"):
        left, right = st.columns([1, 2])
        reference: str = left.selectbox("Compared with", arms, key="reference", bind="query-params")
        allowed: list[str] = right.multiselect(
            "Cells are paired when they are equal in everything but the speculation. "
            "Also pair cells that differ in",
            [*MATCH_FIELDS, *stated_arguments(cells)], key="allow", bind="query-params", placeholder="nothing else",
        )  # fmt: skip
    return values.CompareQuestion(filters, tuple(sorted(allowed)), reference, _also())


def _also() -> tuple[values.MetricLine, ...]:
    """Return the lines beside those of the study's table that the metric's controls ask for."""
    state, link = st.session_state, st.query_params
    key = _METRIC_LABELS.get(str(state.get("metric", link.get("metric"))))
    if key is None:
        return ()
    chosen = str(state.get("statistic", link.get("statistic")))
    line = (key, _STATISTIC_LABELS.get(chosen, "p50") if METRICS[key].distribution else "mean")
    return () if line in STUDY_TABLE else (line,)


def _offer(
    shelf: Shelf,
    question: values.CompareQuestion,
    studies: Sequence[PublishedStudy],
    ours: Mapping[str, NamedSubject],
) -> SubjectOffer:
    unfiltered = replace(question, filters=Filters())
    return offer_of(
        question.filters, ours, studies, lambda: ask(shelf, offered, unfiltered),
        lambda named: _has_pair(shelf, unfiltered, named),
    )  # fmt: skip


def _comparable(shelf: Shelf, question: values.CompareQuestion) -> dict[str, NamedSubject]:
    """Return name -> subject, the first of them one that has a pair; empty where none has."""
    known = ask(shelf, offered, question)
    for at, named in enumerate(known):
        if _has_pair(shelf, question, named):
            return {each.name: each for each in (*known[at:], *known[:at])}
    return {}


def _has_pair(shelf: Shelf, question: values.CompareQuestion, about: NamedSubject) -> bool:
    return (
        compared(ask(shelf, compare, replace(question, filters=about.filters)), about) is not None
    )


# --- A measured subject: its figures of each dataset and size, one metric of all of them, or one pair.

#: Metrics that other places show: a baseline has none of them, or they judge a cell or its machine.
_ELSEWHERE = (
    "request_attainment", "error_rate", "acceptance_rate", "mean_acceptance_length", "gpu_clock",
    "gpu_power", "cpu_clock", "cpu_steal", "launches_beside", "repeating_answers", "json_answers",
)  # fmt: skip
#: The metrics that can be drawn, those of the study's table first, and the statistics of latencies, by
#: what their boxes call them.
_METRIC_LABELS = {
    METRICS[key].label: key
    for key in dict.fromkeys(
        (*(metric for metric, _ in STUDY_TABLE), *(key for key in METRICS if key not in _ELSEWHERE))
    )
}
_OF_LATENCIES = {statistic for metric, statistic in JUDGED if METRICS[metric].distribution}
_STATISTIC_LABELS = {percentile_label(name): name for name in STATISTICS if name in _OF_LATENCIES}
_RELATIVE, _ABSOLUTE = "Improvement, %", "Own unit"
DRAFTS, ONE_METRIC, ONE_PAIR = "Draft tokens", "One metric, every dataset", "One pair"
#: What is told kind by kind, by its name.
KINDS: dict[str, By] = {name: by for by, name in TITLES.items()}
#: Name of a figure -> the lines that it draws, as the published study groups them.
FIGURES: dict[str, tuple[values.MetricLine, ...]] = {
    "All metrics": STUDY_TABLE,
    "Throughput": (("output_throughput", "mean"), ("total_throughput", "mean")),
    "First token and latency": (("ttft", "p95"), ("request_latency", "p50")),
    "Between tokens": (("itl", "p95"), ("tpot", "p95")),
    DRAFTS: (("output_throughput", "mean"), ("request_latency", "p50")),
}
_ALL = (*FIGURES, *KINDS, ONE_METRIC, ONE_PAIR)
#: Charts that are drawn at once; settings that are offered side by side, and of more in a list.
_MOST = _FEW = 6
_HOW = (
    "Grey is the reference. Click on a faint line's point to see that arm in colour. Bands reach "
    "from the lowest to the highest repeat; hollow: a single one."
)
_HOW_IMPROVED = (
    "Above the dashed line is better than the reference. Bands are 95 % intervals from server "
    "starts; hollow: a single one. Throughput at a rate that every arm keeps up with is what was "
    f"offered and is not compared ({values.KEPT_UP})."
)


_UNMATCHED = {name: name for name in ("dataset", "arm", "load", "gpu", "model", "reason", "cell")}
_EXCLUDED = {"cell": "cell", "why": "why it decides nothing"}
_LEVELS = (
    "arm", "load", "metric", "reference", "this arm", "improvement", "95 % interval",
    "study-adjusted", "word", "launches",
)  # fmt: skip


def _subject(
    shelf: Shelf,
    question: values.CompareQuestion,
    comparison: values.ArmComparison,
    subject: ComparedSubject | None,
    top: DeltaGenerator,
) -> None:
    if subject is None:
        top.header(plain(comparison.why_none or values.why_none(True, ())))
        nothing(shelf, "No cell has a partner among these filters. The reasons stand below.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        setting = _setting(subject)
        if setting is None:
            names = [each.name for each in subject.settings]
            top.header(plain(f"Not here any more: {lost('setting', names)}"))
            return
        decisions = ask(shelf, decide, DecideQuestion(question.filters)).decisions
        found = answer(setting, decisions, comparison.reference)
        names = sorted((arm.name for arm in setting.arms), key=lambda name: name != found.arm)
        arm = names[0] if len(names) == 1 else selected("Arm in colour", names, "in_colour")
    # A former link that names a metric or requests leads to where they are now.
    link = st.query_params
    first = ONE_METRIC if "metric" in link else ONE_PAIR if "requests" in link else _ALL[0]
    figure = segments("Figure", _ALL, "chart", first)
    with top:
        st.header(plain(found.headline))
        against = f"Against it: {'; '.join(found.against)}." if found.against else ""
        with st.container(horizontal=True, vertical_alignment="center"):
            badged(_badges(setting))
            st.caption(plain(f"Decided on {setting.name}. {against}"))
    again = {"subject": subject.name, "setting": setting.name, "chart": figure, "in_colour": arm}
    if figure == ONE_PAIR:
        _one_pair(shelf, comparison, setting)
    elif figure in KINDS:
        _kinds(shelf, question, setting, again)
    elif figure == ONE_METRIC:
        _one_metric(shelf, question, subject, arm, again)
    else:
        _figure(shelf, question, setting, arm, again)
    # The study's table: geometric means of one arm beside the reference.
    chosen = next(each for each in setting.arms if each.name == arm)
    st.subheader(
        plain(f"The study's table: {arm} against {comparison.reference} on {setting.name}")
    )
    st.caption(plain(values.means_over(chosen)))
    header = ["metric, geometric mean", "reference", "this arm", "improvement"]
    table(tabled(header, [values.mean_row(m)[:-1] for m in chosen.means]), "rows")
    if not chosen.launches_stated:
        st.caption(plain(values.CAPPED))
    with st.expander("Every arm and load, with interval and word"):
        table(
            tabled(
                _LEVELS,
                [(each.name, *values.level_row(c)) for each in setting.arms for c in each.changes],
            ),
            "rows",
        )
        rows_menu("pairs", lambda: pair_rows(ask(shelf, pair_lines, question)))


def _left_out(comparison: values.ArmComparison) -> None:
    lonely, excluded = len(comparison.unmatched), len(comparison.excluded)
    if not lonely and not excluded:
        st.caption("Every cell has a partner.")
        return
    label = f"Without a partner: {counted(lonely, 'cell')}"
    if excluded:
        label += f"; shown, but deciding nothing: {counted(excluded, 'cell')}"
    with st.expander(label, expanded=not comparison.settings):
        if lonely:
            table(listing(comparison.unmatched, _UNMATCHED), "cells")
        if excluded:
            table(listing(comparison.excluded, _EXCLUDED), "cells")


def pair_rows(lines: tuple[values.PairLine, ...]) -> pd.DataFrame:
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


def _setting(subject: ComparedSubject) -> values.ComparedSetting | None:
    names = [each.name for each in subject.settings]
    follow_first("setting", names)
    gone = lost("setting", names)
    if len(names) == 1 and gone is None:
        return subject.settings[0]
    label = "Dataset and tensor parallel size"
    if len(names) > _FEW:
        name = st.selectbox(
            label, names, index=None if gone else 0, key="setting", bind="query-params"
        )
    else:
        name = st.segmented_control(
            label, names, default=None if gone else names[0], required=not gone, key="setting",
            bind="query-params",
        )  # fmt: skip
    return None if name is None else subject.setting(name)


def _badges(setting: values.ComparedSetting) -> list[str]:
    return sorted({badge for arm in setting.arms for badge in arm.badges})


# --- Its figures.


def _figure(
    shelf: Shelf,
    question: values.CompareQuestion,
    setting: values.ComparedSetting,
    arm: str,
    again: Mapping[str, str],
) -> None:
    figure = again["chart"]
    names = [each.name for each in setting.arms]
    seen: tuple[str, ...] = (arm,)
    if figure == DRAFTS:
        # Every K of the arm's method; where it has only one K, those of the method with most.
        count, family = Counter(map(_without_k, names)), _without_k(arm)
        family = family if count[family] > 1 else count.most_common(1)[0][0]
        seen = tuple(dict.fromkeys((arm, *(n for n in names if _without_k(n) == family))))
    st.caption(_HOW)
    badge = bracketed(*_badges(setting))
    views = [
        charts.LineView(line, seen, question.reference, True,
                 f"{values.short_name(*line)}, {METRICS[line[0]].unit}{badge}")
        for line in FIGURES[figure]
    ]  # fmt: skip
    drawings = [_drawing(shelf, question, setting.name, view) for view in views]
    grid(drawings, [_alt(setting, view) for view in views])
    figure_files(f"{figure}: {setting.name}", drawings, again)


def _without_k(arm: str) -> tuple[str, str]:
    method, _, rest = arm.partition(" K=")
    return method, rest.partition(" ")[2]


def _one_metric(
    shelf: Shelf,
    question: values.CompareQuestion,
    subject: ComparedSubject,
    arm: str,
    again: Mapping[str, str],
) -> None:
    """Draw one metric over the load, a panel for each setting of the subject, on one scale."""
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    label = left.selectbox("Metric", list(_METRIC_LABELS), key="metric", bind="query-params")
    metric, names = METRICS[_METRIC_LABELS[label]], list(_STATISTIC_LABELS)
    statistic = middle.selectbox(
        "Statistic of latencies", names, index=names.index("median"), key="statistic",
        bind="query-params",
    )  # fmt: skip
    view = right.segmented_control(
        "Drawn as", [_RELATIVE, _ABSOLUTE], default=_RELATIVE, required=True,
        disabled=metric.better == "neither", key="view", bind="query-params",
    )  # fmt: skip
    absolute = view == _ABSOLUTE or metric.better == "neither"
    line = (metric.key, _STATISTIC_LABELS[statistic] if metric.distribution else "mean")
    name = f"{values.metric_name(*line)}, {metric.unit if absolute else 'improvement'}"
    st.subheader(plain(name), help=explanation(metric, line[1]))
    st.caption(_HOW if absolute else _HOW_IMPROVED)
    if len(subject.settings) > _MOST:
        st.caption(
            f"{_MOST} of {len(subject.settings)} settings are drawn, those with most loads. Choose a "
            "dataset or a GPU in the sidebar to see the others."
        )
    views = {}
    for setting in subject.settings[:_MOST]:
        # Where the arm was not measured, the first one.
        names = [each.name for each in setting.arms]
        seen = (arm if arm in names else names[0],)
        views[setting.name] = charts.LineView(
            line,
            seen,
            question.reference,
            absolute,
            f"{setting.name}{bracketed(*_badges(setting))}",
        )
    drawings = [_drawing(shelf, question, each, view, tuple(views)) for each, view in views.items()]
    grid(drawings, [_alt(each, views[each.name]) for each in subject.settings[:_MOST]])
    figure_files(name, drawings, again)


def _alt(setting: values.ComparedSetting, view: charts.LineView) -> str:
    text = charts.answer(setting, view.line, view.seen[0])
    return f"{values.with_unit(*view.line)} over the load on {setting.name}: {text}."


@cached
def _drawing(
    shelf: Shelf,
    question: values.CompareQuestion,
    name: str,
    view: charts.LineView,
    beside: tuple[str, ...] = (),
) -> Drawing:
    settings = {each.name: each for each in ask(shelf, compare, question).settings}
    return specification(
        charts.over_load(
            settings[name], view, [settings[other] for other in beside if other != name]
        )
    )


# --- Kinds of prompts that its load mixes, or turns of its sessions.


def _kinds(
    shelf: Shelf,
    question: values.CompareQuestion,
    setting: values.ComparedSetting,
    again: Mapping[str, str],
) -> None:
    name = again["chart"]
    found = ask(shelf, by_kind, question, by := KINDS[name])
    known = next((one for one in found.settings if one.name == setting.name), None)
    if known is None:
        st.markdown(plain(found.why_none or UNTOLD[by]))
        return
    loads = {values.load_name(at.load): at for at in known.loads}
    names = list(reversed(loads))  # The largest load is spoken about, as everywhere.
    at = loads[names[0] if len(names) == 1 else selected("Load", names, "kinds_at")]
    st.subheader(plain(at.one.sentence))
    st.caption(plain(HOW[by]))
    drawings = [specification(charts.kind_matrix(at, name, bracketed(*known.badges)))]
    grid(drawings, [f"{name} by arm: {at.one.sentence}"])
    figure_files(f"{name}: {setting.name}", drawings, again)
    table(tabled(HEADER[by], kind_rows(at, by)), "rows")
    for why in reasons(at, by):
        st.caption(plain(why))


# --- One pair of cells.


def _one_pair(
    shelf: Shelf, comparison: values.ArmComparison, setting: values.ComparedSetting
) -> None:
    named = {pair.name: pair for pair in pairs(comparison, setting)}
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    chosen = named[selected("Pair", list(named), "pair", left)]
    if right.toggle("Load single requests", key="requests", bind="query-params"):
        with st.spinner("Reading the requests of both cells"):
            _requests(chosen, ask(shelf, requests, chosen))
    links = " and ".join(f"[{plain(arm)}]({cell_link(cell)})" for arm, cell in chosen.cells)
    changes = ask(shelf, configuration, chosen)
    with st.expander("Configuration: what differs between the two", expanded=True):
        st.markdown(f"The cells: {links}.")
        if not changes:
            st.caption("Nothing that is recorded differs.")
            return
        rows = [(c.setting, c.reference or "not stated", c.arm or "not stated") for c in changes]
        table(tabled(["setting", *(arm for arm, _ in chosen.cells)], rows), "settings")


def _requests(chosen: NamedPair, found: PairRequests) -> None:
    note = bracketed(*chosen.badges)
    if not found.distributions:
        st.caption(
            "No requests are held of these cells (their reports had none, or they were removed since), "
            "so there is no distribution."
        )
    grid(
        [specification(charts.distribution(each, note)) for each in found.distributions],
        [f"{METRICS[each.metric].label}: share of requests at most so long, by arm"
         for each in found.distributions],
    )  # fmt: skip
    if there := [each for each in found.first_tokens if each.points]:
        longest, latest = (max(p[i] for each in there for p in each.points) for i in (0, 1))
        grid(
            [specification(charts.first_token_by_prompt(each, note, (longest, latest)))
             for each in there],
            [f"Time to first token over prompt length, {each.arm}" for each in there],
        )  # fmt: skip
    st.markdown("Did both arms answer the same?")
    for sentence in found.outputs:
        st.markdown(f"- {plain(sentence)}")
