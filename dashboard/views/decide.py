"""Decide: turn speculation on or not, with which K, up to which load, and what that saves.

What is folded is made when a reader opens it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from urllib.parse import urlencode

import pandas as pd
import streamlit as st
from streamlit import column_config as col
from streamlit.delta_generator import DeltaGenerator

from answers.compare import values
from answers.compare.answer import compare
from answers.cost.answer import cost
from answers.cost.values import Terms
from answers.cost.words import with_and_without
from answers.decide import tables
from answers.decide.answer import decide
from answers.decide.contexts import HOW, arm_rows, by_context
from answers.decide.overview import NamedSubject, Overview, other_hardware, system
from answers.decide.values import DecideQuestion, Decision, Decisions
from answers.ground import cells_kept
from answers.predict.acceptance import accepted, rule_rows, rules
from answers.runs.read import origins
from dashboard import welcome
from dashboard.charts import Drawing, specification
from dashboard.charts import decide as charts
from dashboard.chosen import (
    LOAD,
    SUBJECT,
    TRAFFIC,
    ChosenDecision,
    against,
    bullets,
    choices,
    chosen,
    decidable,
    decided,
    gone,
    load_map,
    paste,
    question_of,
    say_gone,
    tiles,
    traffics,
)
from dashboard.components import fold, plain, table, texts
from dashboard.downloads import charts_menu, report_button, rows_menu
from dashboard.filters import keep, nothing
from dashboard.links import cell_link
from dashboard.shelf import Shelf, ask, cached
from dashboard.views import adding, printed
from warehouse import annotations
from warehouse.filters import UNKNOWN, Filters

TITLE = "Decide"
URL_PATH = "decide"
ORDER = 10
FORMER = ("verdict", "draft-tokens")
_UNKNOWN = "Not known yet: nothing to decide on."
#: More sentences than this are no headline.
_MOST_LEADS = 2
#: The field whose cells are shown: its box, its parameter.
SQUARE = "square"
#: The titles of the charts as files.
LOAD_MAP, _HEAT_MAP, SERVED = "Load map", "Method and K", "Output throughput"
_LINK = "measured in"


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: what was measured on a GPU, else a published study where the warehouse holds one,
    else the first decision."""
    above = st.container()
    studied = {study.title: study for study in printed.kept(shelf, Filters())}
    top = st.container()
    question, boxes = question_of(filters)
    known = decidable(shelf, question)
    offer = choices(shelf, question, known, tuple(studied.values()))
    choice = chosen(shelf, question, known, boxes, offer)
    lost = gone()
    decision = choice if isinstance(choice, ChosenDecision) and lost is None else None
    study = studied.get(str(st.session_state.get(SUBJECT)))
    if decision is not None:
        _show(shelf, decision, top, _in_short(shelf, filters, decision, known.values()))
    elif isinstance(choice, str):
        top.header(plain(_UNKNOWN))
        top.info(plain(choice))
    elif not offer.names:
        with top:
            _none(shelf, question)
    elif study is None or lost is not None:
        with top:
            say_gone(lost or "")
    else:
        st.set_page_config(page_title=f"{TITLE}: {study.title}")
        with top:
            printed.say(study)
        printed.overview(study)
    with top:
        offer.say_default(SUBJECT)
    with above if welcome.drops_files() else st.container():
        adding.folded(shelf, filters)
    if decision is not None:
        _details(shelf, decision)


def _none(shelf: Shelf, question: DecideQuestion) -> None:
    st.header(plain(_UNKNOWN))
    if not ask(shelf, cells_kept, question.filters):
        nothing(shelf)
        return
    st.info(plain(ask(shelf, decide, question).why_none or ""))
    lonely = ask(shelf, compare, values.CompareQuestion(question.filters, question.allow))
    if lonely.unmatched:
        st.markdown("These cells have no partner:")
        table(texts(values.UNMATCHED_HEADER, values.unmatched_rows(lonely)), "rows")


def _in_short(
    shelf: Shelf, filters: Filters, decision: ChosenDecision, known: Iterable[NamedSubject]
) -> Iterator[str]:
    """Yield, as markdown, what a million tokens cost, what was measured and what was not, and why other
    hardware may say otherwise."""
    (row,) = cost(Decisions((decision.one,)), Terms()).rows
    shown = {SUBJECT: decision.about.name, TRAFFIC: decision.traffic, LOAD: decision.question.load}
    yield (
        f"**Cost:** {plain(with_and_without(row))} [How so?]"
        f"(cost?{urlencode({name: value for name, value in shown.items() if value})})"
    )
    yield (
        f"**Measured:** {plain(ask(shelf, origins, filters))} All but a GPU's carry a badge. "
        "[Every run](data)"
    )
    for study in printed.kept(shelf, Filters()):
        yield (
            f"**Published, not measured here:** [{plain(study.soundness)}]"
            f"(compare?{urlencode({'subject': study.title})})"
        )
    if (other := other_hardware(decision.one.subject, known)) is not None:
        yield (f"**Elsewhere:** {plain(other[0])} [See it](?{urlencode({SUBJECT: other[1].name})})")


def _show(
    shelf: Shelf, decision: ChosenDecision, top: DeltaGenerator, in_short: Iterable[str]
) -> None:
    overview, one = decision.overview, decision.one
    st.set_page_config(page_title=f"{TITLE}: {overview.name}")
    # Several sentences where the sizes that lead differ and nobody chose one.
    whole = one is overview.leads[0] and len(overview.leads) <= _MOST_LEADS
    top.header(plain(overview.headline if whole else f"{decision.traffic}: {one.headline}"))
    top.caption(plain(one.details))
    drawn = drawings(shelf, decision.question, decision.about, decision.traffic)
    # One load draws no line.
    places = st.columns([4, 3] if SERVED in drawn else 1)
    with places[-1]:
        load_map(drawn[LOAD_MAP], overview, "load_map", partial(_load_clicked, overview))
    if SERVED in drawn:
        alt = f"Output tokens per second over the load. {charts.served_title(one)}."
        places[0].vega_lite_chart(drawn[SERVED], alt=alt)
    tiles(one)
    st.markdown("  \n".join(in_short))
    paste(one)
    with st.container(horizontal=True):
        report_button(shelf, decision.question, overview.name)
        if not decision.alone:
            facts = vars(overview.decisions[0].subject)
            only = {name: UNKNOWN if facts[name] is None else facts[name]
                    for name in ("model", "gpu", "engine_version")}  # fmt: skip
            st.button(
                "Only this on all pages", on_click=keep, args=(only,), key="only", type="tertiary"
            )


def _load_clicked(overview: Overview) -> None:
    picked = st.session_state["load_map"]["selection"].get(charts.CHOSEN)
    if not picked:
        return
    loads = {level.load.short: level.load for one in overview.decisions for level in one.levels}
    st.session_state[TRAFFIC] = picked[0][charts.TRAFFIC]
    load = loads[picked[0][charts.LOAD]]
    if load.value is not None:
        st.session_state[LOAD] = f"{load.value:g}{'/s' if load.is_rate else ''}"


def rows_of(of_subject: Sequence[Decision]) -> pd.DataFrame:
    return pd.DataFrame([
        {
            "model": one.subject.model, "gpu": one.subject.gpu,
            "tensor_parallel_size": one.subject.tensor_parallel_size,
            "engine_version": one.subject.engine_version, "evidence": one.subject.evidence,
            "traffic": one.traffic.name, "load": cell.load.text, "arm": cell.arm,
            "metric": cell.difference.metric, "statistic": cell.difference.statistic,
            "expected": cell.difference.improvement, "low": cell.difference.low,
            "high": cell.difference.high, "adjusted_low": cell.difference.adjusted_low,
            "adjusted_high": cell.difference.adjusted_high, "word": cell.difference.word,
            "launches": cell.launches, "taken": cell.taken,
        }
        for one in of_subject
        for cell in one.arms
    ])  # fmt: skip


@cached
def drawings(
    shelf: Shelf, question: DecideQuestion, about: NamedSubject, traffic: str
) -> dict[str, Drawing]:
    """Return the charts of a decision by their titles; ``traffic``: its name."""
    overview = decided(shelf, question, about).overview
    assert overview is not None  # Whoever asks was told of it.
    one = traffics(overview)[traffic]
    drawn = {LOAD_MAP: charts.load_map(overview, one), _HEAT_MAP: charts.heat_map(one)}
    if len(one.levels) > 1:
        drawn[SERVED] = charts.throughput(one)
    return {name: specification(chart) for name, chart in drawn.items()}


def _details(shelf: Shelf, decision: ChosenDecision) -> None:
    overview, one = decision.overview, decision.one
    drawn = drawings(shelf, decision.question, decision.about, decision.traffic)
    changed = tables.changes(overview.decisions, annotations.last_decisions(shelf.root))
    left = tuple(tables.left_out(one))
    parts: list[tuple[str, str, Callable[[], None]]] = [
        ("which_k", "Which method and K at which load?", partial(_which_k, shelf, one, drawn[_HEAT_MAP])),
        ("against", _counted("What speaks against it", one.against), partial(against, one)),
        ("stake", f"What is at stake ({tables.at_stake(one)}), and what would settle it?", partial(_stake, one)),
        ("by_length", "Which K for long prompts?", partial(_by_length, shelf, decision)),
        ("by_load", "By load, by arm, by traffic: all figures", partial(_figures, overview, one)),
        ("same", "Do the arms answer the same?", partial(_same, shelf, one)),
        ("left_out", _counted("What was left out", left),
         partial(bullets, left, "Nothing: every cell that was measured decides.")),
        ("rules", "Rules of thumb beside the measurement", partial(_rules, shelf, decision.question.filters, one)),
        ("changed", _counted("What changed since the last decision", changed),
         partial(bullets, changed, "Nothing that was recorded; record it with: draftboard verdict --record")),
    ]  # fmt: skip
    for key, label, draw in parts:
        if key != "rules" or not one.traffic.mix:
            fold(plain(label), key, draw, key == "which_k" and SQUARE in st.query_params)
    with st.container(horizontal=True):
        rows_menu("decide", lambda: rows_of(overview.decisions))
        charts_menu("decide", drawn)


def _counted(label: str, things: Sequence[object]) -> str:
    return f"{label}: {len(things) or 'nothing'}"


def _which_k(shelf: Shelf, one: Decision, drawing: Drawing) -> None:
    taken = "; ".join(f"at {level.load.text} {tables.taken(level)}" for level in one.levels)
    st.markdown(f"Taken: {plain(taken)}. At stake: {plain(tables.at_stake(one))}.")
    alt = f"Expected improvement by load and arm, as a heat map. Taken: {taken}."
    # A chart that says what is unknown has nothing to click on.
    clicked = _field_clicked if "params" in drawing else None
    st.vega_lite_chart(drawing, alt=alt, key=clicked and "map", on_select=clicked or "ignore")
    cells = {field.name: field.cells for field in tables.fields(one)}
    field = st.selectbox(
        "The cells behind a field: choose it here or click on it", list(cells), index=None,
        key=SQUARE, bind="query-params", placeholder="no field chosen",
    )  # fmt: skip
    if field is not None:
        header = ["arm", "repeat", "completed", "errored", "flags", "run", _LINK]
        lines = [
            [each.arm, each.repeat, each.completed, each.errored, each.flags, each.run,
             cell_link(each.cell)]
            for each in ask(shelf, tables.behind, cells[field])
        ]  # fmt: skip
        table(texts(header, lines), "cells", {_LINK: col.LinkColumn(_LINK, display_text="open")})


def _field_clicked() -> None:
    if picked := st.session_state["map"]["selection"].get(charts.CHOSEN):
        st.session_state[SQUARE] = picked[0][charts.FIELD]


def _stake(one: Decision) -> None:
    rivals = f"; may be better: {plain(', '.join(one.rivals))}" if one.rivals else ""
    st.markdown(f"At stake in the choice: {plain(tables.at_stake(one))}{rivals}.")
    bullets(tables.doubts(one))


def _by_length(shelf: Shelf, decision: ChosenDecision) -> None:
    found = ask(shelf, by_context, decision.question)
    if isinstance(found, str):
        st.markdown(plain(found))
        return
    mine = [one for one in found if system(one.one.subject) == decision.overview.about]
    for one in mine:
        place = f"{decision.overview.place(one.one)}: " if len(mine) > 1 else ""
        st.markdown(plain(f"{place}{one.sentence}"))
        bullets([*(reach.sentence for reach in one.arms), *one.doubts])
        lengths = tuple(each.decision for each in one.contexts)
        overview = Overview(decision.overview.name, one.sentence, lengths, lengths)
        drawing = specification(charts.load_map(overview, lengths[0]))
        st.vega_lite_chart(drawing, alt=f"Load map by length of prompt. {one.sentence}")
        table(texts(*arm_rows(one)), "arms")
    st.caption(plain(HOW))


def _figures(overview: Overview, one: Decision) -> None:
    st.markdown(plain(one.paragraph))
    table(texts(*tables.summary(overview.decisions)), "decisions")
    st.markdown("**By load**")
    table(texts(*tables.by_load(one)), "loads")
    st.markdown("**Every arm**")
    table(texts(*tables.by_arm(one)), "fields")


def _same(shelf: Shelf, one: Decision) -> None:
    cell = tables.operating_cell(one)
    same = None if cell is None else ask(shelf, tables.outputs_of, cell)
    if same is None:
        st.markdown("Unknown: no outputs of both arms are known at your load.")
        return
    st.markdown(f"{plain(same.arm)} beside the baseline, at {plain(same.load)}:")
    bullets(same.sentences)


def _rules(shelf: Shelf, filters: Filters, one: Decision) -> None:
    st.caption(
        "What published rules say of each arm, and at which concurrency the expected gains agree. "
        "They contradict one another; the measurement wins."
    )
    table(texts(*rule_rows(rules(one, ask(shelf, accepted, filters)))), "rules")
