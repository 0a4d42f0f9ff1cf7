"""Draft tokens: how many to draft at which load, why, and what to give vLLM for it."""

import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.drafts.best_k import Goal
from analysis.service.slo import EXAMPLE, parse
from analysis.tables import percent
from dashboard import data, panels
from dashboard.answers import Drawing
from dashboard.answers import draft_tokens as words
from dashboard.answers.draft_drawings import MOST_PANELS
from dashboard.answers.draft_tokens import Setting
from dashboard.cells import LINK_COLUMNS
from dashboard.charts.drafts import CHOSEN, SQUARE, Axis
from dashboard.components import Shown, explanation, plain, table
from dashboard.data import draft_tokens as drafts
from dashboard.data import families as data_families
from dashboard.data.draft_tokens import Question
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from dashboard.side_by_side import places
from warehouse.catalogue import METRICS, PERCENTILES, percentile_label
from warehouse.filters import Filters

TITLE = "Draft tokens"
URL_PATH = "draft-tokens"
_QUESTION = "How many draft tokens, at which load?"
_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1)
_GOALS = {METRICS[key].label: key for key in panels.CHARTED}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}
_MEASURES = {METRICS[key].label: key for key in ("acceptance_rate", "mean_acceptance_length")}
_BY_POSITION = "by position"
_OVER: dict[str, Axis] = {"over draft tokens": "k", "over concurrency": "concurrency"}
_OF_ALL, _OF_THOSE = "of all drafts", "of drafts that got so far"
_TAKEN = (
    "At each load the K with the best value leads; K that differ from it by no more than the share "
    "that counts as a tie, or not measurably (95 % interval over repeats), are tied with it, and "
    "the smallest of them is taken. 'No drafts' is the baseline."
)
_POSITION = (
    "Accepted tokens at a position / drafts; of drafts that got so far: accepted at a position / "
    "accepted at the one before it. Sums over the repeats of a level. Higher is better."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(_QUESTION)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    wide = data_families.with_baseline(filters)
    names = data_families.names(shelf, wide)
    if not names:
        st.header(_QUESTION)
        nothing(shelf, "No speculative cell with a known K is among these results.")
        return
    _page(shelf, wide, list(names))


def _page(shelf: Shelf, filters: Filters, names: list[str]) -> None:
    top, controls = st.container(), st.container()
    with controls:
        follow_first("draft_arm", names)
        name = st.selectbox("Arm", names, key="draft_arm", bind="query-params")
        goal, margin = _goal()
    question = Question(filters, data_families.names(shelf, filters)[name], goal, margin)
    with st.spinner("Comparing every K at every load"):
        known = drafts.settings(shelf, question)
    if not known:
        top.header(_QUESTION)
        st.info(plain(f"{METRICS[goal.metric].label} is unknown for this arm; choose another."))
    else:
        _body(shelf, question, known, top)
    st.subheader("What was measured")
    table(data_families.measured(shelf, filters), "arms")


def _body(shelf: Shelf, question: Question, known: dict[str, Setting], top: DeltaGenerator) -> None:
    chosen = next(iter(known))
    if len(known) > 1:
        chosen = st.selectbox("Dataset", list(known), key="draft_dataset", bind="query-params")
    with top:
        _answer(known[chosen], question)
    _gains(shelf, question, known)
    tables = drafts.tables(shelf, question, chosen)
    _values(shelf, question, chosen, tables)
    _serve(known[chosen])
    _acceptance(shelf, question, tables)
    _rules(tables)


def _goal() -> tuple[Goal, float]:
    """What is best, and what a change of K has to gain; an SLO that cannot be read is raised."""
    left, right, slo = st.columns([2, 1, 3])
    label = left.selectbox("Best in", list(_GOALS), key="goal", bind="query-params")
    metric = METRICS[_GOALS[label]]
    statistic = "mean"
    if metric.distribution:
        statistic = right.selectbox(
            "Statistic", list(_STATISTICS), key="goal_statistic", bind="query-params"
        )
    text = slo.text_input(
        "Only K that meet this SLO", key="draft_slo", bind="query-params", placeholder=EXAMPLE
    )
    with st.expander("What counts as a tie, and as worth a change"):
        tie = _share("Differences up to this are a tie", "tie")
        margin = _share("A change of K between two loads has to gain more than", "change")
    found = parse(text) if text and text.strip() else None
    shown = panels.shown_statistic(metric, _STATISTICS[statistic])
    return Goal(metric.key, shown, found, tie), margin


def _share(label: str, key: str) -> float:
    chosen: float = st.select_slider(
        label, _SHARES, _SHARES[2], format_func=percent, key=key, bind="query-params"
    )
    return chosen


def _answer(setting: Setting, question: Question) -> None:
    st.header(plain(words.headline(setting)))
    st.markdown(plain(words.gain_sentence(setting)))
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in question.family.badges:
            st.badge(text, color="gray")
        st.caption(plain(words.evidence(setting)), help=_TAKEN)


def _gains(shelf: Shelf, question: Question, known: dict[str, Setting]) -> None:
    goal = question.goal
    st.subheader("Which K at which load?", help=explanation(METRICS[goal.metric], goal.statistic))
    st.caption(
        "Blue is better than the baseline, orange worse; hatched is not settled by the repeats. "
        "Outlined: the K to take; dashed: tied with the best."
    )
    if len(known) > MOST_PANELS:
        st.caption(f"{MOST_PANELS} of {len(known)} datasets are drawn; choose one in the sidebar.")
    alt = "Gain over the baseline by load and K, as a heat map; the numbers stand in tables too."
    for at, (place, drawing) in enumerate(places(drafts.gains(shelf, question))):
        key = f"gains_{at}"
        if "params" in drawing:
            react = functools.partial(_choose, key)
            place.vega_lite_chart(drawing, alt=alt, key=key, on_select=react)
        else:  # It says what is unknown: there is nothing to click on.
            place.vega_lite_chart(drawing, alt=alt)
    _cells(shelf, question)


def _choose(key: str) -> None:
    """A click on a square chooses it in the box below, which is what the link holds."""
    picked = st.session_state[key]["selection"].get(CHOSEN)
    if picked:
        st.session_state[SQUARE] = picked[0][SQUARE]


def _cells(shelf: Shelf, question: Question) -> None:
    chosen = st.selectbox(
        "The cells behind a square: choose it here or click on it",
        list(drafts.squares(shelf, question)), index=None, key=SQUARE, bind="query-params",
        placeholder="no square chosen",
    )  # fmt: skip
    if chosen is not None:
        table(drafts.square_cells(shelf, question, chosen), "cells", LINK_COLUMNS)


def _values(shelf: Shelf, question: Question, name: str, tables: dict[str, Shown]) -> None:
    metric = METRICS[question.goal.metric]
    st.subheader(
        plain(f"{metric.label} over K, {name}"),
        help=explanation(metric, question.goal.statistic),
    )
    st.caption(
        plain(f"{metric.unit}; {metric.better} is better. Whiskers: lowest and highest repeat. "
              "Hollow: a single repeat. Lowest, middle and highest load; the table has all.")
    )  # fmt: skip
    drawings = drafts.values(shelf, question, name)
    _draw(drawings, f"{metric.label} over the draft tokens, by load")
    table(tables["loads"], "loads")
    with st.container(horizontal=True):
        rows_menu("draft-tokens", functools.partial(drafts.rows, shelf, question))
        charts_menu("draft-tokens", titled([*drafts.gains(shelf, question), *drawings]))
    if "ranking" in tables:
        st.markdown("All arms on this dataset, best first:")
        table(tables["ranking"], "arms")


def _serve(setting: Setting) -> None:
    st.subheader("What to give vLLM")
    advice = setting.advice
    if advice.table is None:
        st.caption("No K meets the SLO at any load, so there is nothing to serve with.")
        return
    st.code(words.entries(setting), language=None, wrap_lines=True)
    if advice.serve is not None:
        st.code(advice.serve, language=None, wrap_lines=True)
    st.caption("From, to and K for batches of so many sequences; vLLM looks K up in every step.")
    for note in advice.notes:
        st.caption(plain(note))


def _acceptance(shelf: Shelf, question: Question, tables: dict[str, Shown]) -> None:
    st.subheader("How good is the draft?", help=_POSITION)
    left, right = st.columns(2)
    drawn = left.segmented_control(
        "Acceptance", [_BY_POSITION, *_OVER], default=_BY_POSITION, required=True,
        key="draft_acceptance", bind="query-params",
    )  # fmt: skip
    if drawn == _BY_POSITION:
        of = _segments(right, "Share", [_OF_ALL, _OF_THOSE], "draft_position")
        drawings = drafts.positions(shelf, question, of == _OF_THOSE)
    else:
        label = _segments(right, "Measure", list(_MEASURES), "draft_measure")
        metric = METRICS[_MEASURES[label]]
        st.caption("How is this calculated?", help=explanation(metric, "mean"))
        drawings = drafts.accepted(shelf, question, _OVER[drawn], metric.key)
    _draw(drawings, f"Acceptance {drawn}, a chart per dataset")
    charts_menu("acceptance", titled(drawings))
    if "acceptance" in tables:
        with st.expander("Acceptance in numbers"):
            table(tables["acceptance"], "levels")


def _segments(place: DeltaGenerator, label: str, options: list[str], key: str) -> str:
    chosen: str = place.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params"
    )
    return chosen


def _rules(tables: dict[str, Shown]) -> None:
    st.subheader("Rules of thumb beside the measurement")
    if "rules" not in tables:
        st.caption("Acceptance or the best K is unknown, so no rule can be checked.")
        return
    st.caption(
        "What published rules say of each arm, and at which concurrency the measurement agrees. "
        "They contradict one another; the measurement wins."
    )
    table(tables["rules"], "rules")


def _draw(drawings: list[Drawing], alt: str) -> None:
    for place, drawing in places(drawings):
        place.vega_lite_chart(drawing, alt=alt)
