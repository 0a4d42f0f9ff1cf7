"""Predict: what a K, load, acceptance or length that was not measured would give, and how sure."""

from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.prediction.reach import DECODE_CAPS, Question, Textbook
from answers.predict import values as book
from answers.predict.acceptance import (
    DraftAcceptance,
    Measure,
    Over,
    acceptance_rows,
    accepted,
    headline,
    lines,
)
from answers.predict.answer import (
    DraftFamily,
    acceptance_of_family,
    families,
    fitted,
    forecast_answer,
    forecast_lines,
    measured,
    subjects,
)
from answers.predict.break_even import break_even, real_drafts
from answers.predict.values import (
    BAND,
    AskableQuestions,
    FittedPlace,
    ForecastAnswer,
    numbers,
    prompts_unknown,
)
from answers.wording import TextRows, bracketed
from dashboard.charts import Drawing, forecast, specification
from dashboard.chosen import SubjectOffer, one_of
from dashboard.components import (
    badged,
    explanation,
    fold,
    grid,
    plain,
    segments,
    table,
    tabled,
    titled,
)
from dashboard.downloads import charts_menu, rows_menu
from dashboard.filters import cells, nothing
from dashboard.shelf import Shelf, ask, cached
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

TITLE = "Predict"
URL_PATH = "predict"
ORDER = 40
FORMER = ("what-if",)
#: The box of arms.
_ARM = "whatif_arm"
_GONE = "Not here any more: what the link names"
_QUESTION = "What if K, load, acceptance or lengths were others?"
_METRICS = {METRICS[name].label: name for name in forecast.DRAWN}
_OVER: dict[str, Over] = {
    "by position": "position", "over draft tokens": "k", "over concurrency": "concurrency",
}  # fmt: skip
_SHARES: dict[str, Measure] = {"of all drafts": "of_all", "of drafts that got so far": "of_those"}
_MEASURES: dict[str, Measure] = {"Acceptance rate": "rate", "Tokens per step": "length"}
_BAND = (
    f"The {BAND} is meant to hold 90 of 100 new measurements like those behind the points: noise and "
    "doubt about the fit. Every measured K, and every measured load, is withheld in turn and "
    "predicted from the others; where the errors are larger than the band expects, it widens."
)
_DRAFT = (
    "Accepted tokens at a position / drafts; of drafts that got so far: accepted at a position / "
    "accepted at the one before it. Means over the loads. Higher is better."
)
_MODEL = (
    "ITL = T / L. Request latency = TTFT + (output tokens − 1) × ITL. Output throughput = "
    "e × concurrency × output tokens / latency. T, the time of a verification step, and TTFT are "
    "fitted to the measured points, by a roofline (flat, then linear in the tokens in flight) and by "
    "a sum of parts; whichever predicts withheld points better counts more. L, the tokens of a step, "
    "comes from the acceptance by position and its decay; e is what ramp and drain left of Little's "
    "law. Improvement: positive is better."
)
_BOOK = (
    "End to end: only decoding becomes faster (Amdahl's law), up to a cap for the kind of text. One "
    "stream: (1 + μ) / ((1 + μ) × c + 1) with μ accepted tokens a step and c the draft's cost. "
    "Both are read off articles, not off a server."
)


@dataclass(frozen=True)
class ForecastPlace:
    """One family on one dataset."""

    filters: Filters
    system: int
    family: str
    dataset: str


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    kept, every = _arms(shelf, filters), tuple(arm.name for arm in _arms(shelf, Filters()))
    offer = SubjectOffer(tuple(arm.name for arm in kept), every, next(iter(every), None))
    if kept:
        _measured(shelf, filters, kept, offer)
        return
    st.header(_QUESTION)
    one_of("Arm", (), _ARM, offer.hidden)
    if cells(shelf, filters).empty:
        nothing(shelf)
        if not cells(shelf, Filters()).empty:
            return
    else:
        nothing(
            shelf,
            "No speculative cell with latencies, lengths and acceptance is among these results, "
            "so only the textbook models can answer.",
        )
    textbook()


@cached
def _arms(shelf: Shelf, filters: Filters) -> tuple[DraftFamily, ...]:
    """Return the arms that the filters keep, in the order and by the names that they have without."""
    return families(ask(shelf, subjects, filters), ask(shelf, subjects, Filters()))


def _measured(
    shelf: Shelf, filters: Filters, kept: tuple[DraftFamily, ...], offer: SubjectOffer
) -> None:
    # An arm was once called with its draft, by path.
    former = {a.name.replace(a.family.partition(" (")[0], a.family, 1): a.name for a in kept}
    if st.query_params.get(_ARM) in former.keys() - former.values():
        st.session_state[_ARM] = former[st.query_params[_ARM]]
    top, below = st.container(), st.container()
    arms, (left, right) = {arm.name: arm for arm in kept}, st.columns([3, 1])
    with left:
        name = one_of("Arm", offer.names, _ARM, offer.hidden)
    family, dataset = arms.get(name or ""), None
    if family is not None:
        with right:
            dataset = one_of("Dataset", list(family.datasets), "whatif_dataset")
    with below:
        offer.say_default(_ARM)
    if family is None or dataset is None:
        hidden = offer.why_hidden(name) if name is not None and family is None else None
        top.header(plain(hidden or _GONE))
        return
    _forecast(shelf, filters, family, dataset, top)


def _forecast(
    shelf: Shelf, filters: Filters, family: DraftFamily, dataset: str, top: DeltaGenerator
) -> None:
    place = ForecastPlace(filters, family.system, family.family, dataset)
    given = _controls(_known(shelf, place).offer)
    with st.spinner("Predicting each measured point from the others"):
        forecasts = _answer(shelf, place, given)
    with top:
        st.header(plain(forecasts.headline), help=_MODEL)
        with st.container(horizontal=True, vertical_alignment="center"):
            badged(("predicted", *family.badges))
        if forecasts.warnings:
            st.warning(plain(" ".join(forecasts.warnings)))
    note = bracketed(*family.badges)
    label = st.segmented_control(
        "Metric", list(_METRICS), default=next(iter(_METRICS)), required=True,
        key="whatif_metric", bind="query-params", help=_BAND,
    )  # fmt: skip
    sheet = forecast.ForecastSheet(_known(shelf, place), given, _METRICS[label], note)
    drawings = _drawn(shelf, place, given, sheet.metric, note)
    grid(drawings, [f"{one['title']['text']}, measured and predicted" for one in drawings])
    st.caption(
        f"Points were measured; lines are predicted, each with its {BAND}. "
        "Dotted rules: where measuring ends; dashed beyond them. Diamond: your question."
    )
    drafts = acceptance_of_family(ask(shelf, accepted, filters), family)
    of_drafts = [_draft(drafts, family, note)] if drafts else []
    charts_menu("predict", titled([*drawings, *of_drafts]))
    fold("In numbers", "fold_numbers", lambda: _text(numbers(forecasts), "rows", _MODEL))
    fold("How good must a draft be?", "fold_break_even",
         partial(_break_even, shelf, place, given, note))  # fmt: skip
    fold("How far can it be trusted?", "fold_trust", partial(_trust, forecasts, sheet))
    fold("Acceptance in numbers", "fold_accepted",
         lambda: table(tabled(*acceptance_rows(drafts)), "levels"))  # fmt: skip
    fold("What was measured", "fold_measured",
         lambda: _text(measured(ask(shelf, subjects, filters)), "arms"))  # fmt: skip
    fold("Textbook models, without a measurement", "fold_textbook", textbook)


def _controls(reach: AskableQuestions) -> Question:
    left, right = st.columns(2)
    k = left.select_slider(
        "Draft tokens K (0: no drafts)", reach.ks, reach.start[0], key="k", bind="query-params"
    )
    load = right.select_slider(
        "Concurrency", reach.loads, reach.start[1], key="load", bind="query-params"
    )
    one, two, three = st.columns(3)
    with one:
        own = st.toggle(
            "Another acceptance rate", not reach.accepts, key="own_rate", bind="query-params",
            help=explanation(METRICS["acceptance_rate"], "mean"),
        )  # fmt: skip
        rate: float = st.slider(
            "Acceptance rate", 0.0, 1.0, 0.6, 0.01, key="rate", bind="query-params",
            disabled=not own, label_visibility="collapsed",
        )  # fmt: skip
    span, output = reach.prompt, reach.output
    prompt = span.usual
    if reach.prompts_count:
        prompt = two.slider("Prompt tokens", span.low, span.high, span.usual, key="prompt",
                            bind="query-params", help="Per request.")  # fmt: skip
    else:
        two.caption(prompts_unknown(reach))
    tokens = three.slider("Output tokens", output.low, output.high, output.usual, key="output",
                          bind="query-params", help="Per request.")  # fmt: skip
    return Question(
        k, load, rate if own else None, None,
        None if prompt == span.usual else float(prompt),
        None if tokens == output.usual else float(tokens),
    )  # fmt: skip


@cached
def _known(shelf: Shelf, place: ForecastPlace) -> FittedPlace:
    """Return what forecasts rest on. Raises InvalidInput where there is none."""
    wanted = (place.system, place.family, place.dataset)
    (subject,) = (
        each
        for each in ask(shelf, subjects, place.filters)
        if (each.place.system, each.place.family, each.place.dataset) == wanted
    )
    return fitted(subject)


@cached
def _answer(shelf: Shelf, place: ForecastPlace, given: Question) -> ForecastAnswer:
    return forecast_answer(_known(shelf, place), given)


@cached
def _drawn(
    shelf: Shelf, place: ForecastPlace, given: Question, metric: str, note: str
) -> list[Drawing]:
    sheet = forecast.ForecastSheet(_known(shelf, place), given, metric, note)
    around = forecast_lines(sheet.known, given)
    return [
        specification(forecast.over_load(sheet, around)),
        specification(forecast.over_k(sheet, around)),
    ]


def _draft(drafts: tuple[DraftAcceptance, ...], family: DraftFamily, note: str) -> Drawing:
    ks = sorted({draft.k for draft in drafts}, reverse=True)
    st.subheader("How good is the draft?", help=_DRAFT)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        over = _OVER[segments("Acceptance", list(_OVER), "draft_acceptance")]
        if over == "position":
            measure = _SHARES[segments("Share", list(_SHARES), "draft_position")]
        else:
            measure = _MEASURES[segments("Measure", list(_MEASURES), "draft_measure")]
        k = int(segments("K", [str(k) for k in ks], "draft_k")) if over != "k" else ks[0]
    title = (f"{headline(drafts, k)}{note}", f"{family.name.partition(',')[0]}; a line per dataset")
    drawing = specification(
        forecast.acceptance(
            lines(drafts, over, measure, k),
            over,
            measure,
            forecast.arm_name(family.family, k),
            title,
        )
    )
    st.vega_lite_chart(drawing, alt=title[0])
    return drawing


# --- What is folded under a forecast; what is closed is neither computed nor drawn.


def _trust(forecasts: ForecastAnswer, sheet: forecast.ForecastSheet) -> None:
    for line in forecasts.trust:
        st.caption(plain(line))
    st.vega_lite_chart(
        specification(forecast.withheld(sheet)),
        alt=f"Errors of predictions of withheld points. {forecasts.trust[0]}",
    )
    rows_menu("withheld-points", lambda: pd.DataFrame([
        vars(point) | {"error": point.error, "held": point.held} for point in sheet.known.model.withheld
    ]))  # fmt: skip


def _break_even(shelf: Shelf, place: ForecastPlace, given: Question, note: str) -> None:
    """Draw from which acceptance on the arm pays with the chosen K, over the measured loads."""
    known = _known(shelf, place)
    loads = sorted({*known.model.reach.loads, given.concurrency})
    try:
        found = break_even(known, ask(shelf, real_drafts), given.k or known.offer.start[0], loads)
    except InvalidInput as error:
        st.info(plain(str(error)))
        return
    here = next(step for step in found.steps if step.concurrency == given.concurrency)
    said = found.sentence(here)
    st.markdown(plain(said))
    st.vega_lite_chart(specification(forecast.break_even(found, here, note)), alt=said)
    st.caption(plain(found.stands_on))


def textbook() -> None:
    """Draw two models that need no measurement."""
    st.markdown(f"**{book.NOT_MEASURED.rstrip('.')}**", help=_BOOK)
    left, middle, right = st.columns(3)
    rate = left.slider("Acceptance rate", 0.0, 1.0, 0.7, 0.01, key="book_rate", bind="query-params")
    k = left.slider("Draft tokens K", 1, 16, 4, key="book_k", bind="query-params")
    share = middle.slider("Share of the time that is decoding", 0.0, 1.0, 0.6, 0.05,
                          key="book_share", bind="query-params")  # fmt: skip
    cost = middle.slider("Cost of a drafted token / a step of the target", 0.0, 1.0, 0.1, 0.01,
                         key="book_cost", bind="query-params")  # fmt: skip
    text = right.selectbox("Kind of text", list(DECODE_CAPS), key="book_text",
                           bind="query-params")  # fmt: skip
    given = Textbook(rate, k, text, share, cost)
    st.markdown(plain(book.headline(given)))
    st.vega_lite_chart(specification(forecast.textbook(given)), alt=book.headline(given))
    _text(book.table(given), "models")


def _text(rows: TextRows, what: str, how: str | None = None) -> None:
    if how is not None:
        st.caption("How is this calculated?", help=how)
    table(tabled(*rows), what)
