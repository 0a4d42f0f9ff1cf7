"""What-if: what a K, load, acceptance or length that was not measured would give, and how sure."""

import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.prediction.textbook import DECODE_CAPS
from answers.predict import textbook as book
from answers.predict.textbook import NOT_MEASURED, Parameters
from answers.predict.values import Answer, Asked, Offer
from answers.predict.words import BAND, prompts_unknown
from dashboard import data
from dashboard.answers.whatif_drawings import DRAWN
from dashboard.components import explanation, plain, table
from dashboard.data import families as data_families
from dashboard.data import whatif
from dashboard.data.whatif import Place
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

TITLE = "What-if"
URL_PATH = "what-if"
ORDER = 60
_QUESTION = "What if K, load, acceptance or lengths were others?"
_MEASURED, _TEXTBOOK = "what was measured", "textbook models"
_METRICS = {METRICS[name].label: name for name in DRAWN}
_MODEL = (
    "ITL = T / L. Request latency = TTFT + (output tokens − 1) × ITL. Output throughput = "
    "e × concurrency × output tokens / latency. T, the time of a verification step, and TTFT are "
    "fitted to the measured points, by a roofline (flat, then linear in the tokens in flight) and by "
    "a sum of parts; whichever predicts withheld points better counts more. L, the tokens of a step, "
    "comes from the acceptance by position and its decay; e is what ramp and drain left of Little's "
    "law. Improvement: positive is better."
)
_BAND = (
    f"The {BAND} is meant to hold 90 of 100 new measurements like those behind the points: noise and "
    "doubt about the fit. Every measured K, and every measured load, is withheld in turn and "
    "predicted from the others; where the errors are larger than the band expects, it widens."
)
_BOOK = (
    "End to end: only decoding becomes faster (Amdahl's law), up to a cap for the kind of text. One "
    "stream: (1 + μ) / ((1 + μ) × c + 1) with μ accepted tokens a step and c the draft's cost. "
    "Both are read off articles, not off a server."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(_QUESTION)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        if data.cells(shelf, Filters()).empty:
            _textbook(shelf)
        return
    wide = data_families.with_baseline(filters)
    if not whatif.families(shelf, wide):
        st.header(_QUESTION)
        sentence = (
            "No speculative cell with latencies, lengths and acceptance is among these results, "
            "so only the textbook models can answer."
        )
        nothing(shelf, sentence)
        _textbook(shelf)
        return
    top = st.container()
    basis = st.segmented_control(
        "Predict from", [_MEASURED, _TEXTBOOK], default=_MEASURED, required=True, key="basis",
        bind="query-params",
    )  # fmt: skip
    if basis == _TEXTBOOK:
        top.header(_QUESTION)
        _textbook(shelf)
    else:
        _measured(shelf, wide, top)


def _measured(shelf: Shelf, filters: Filters, top: DeltaGenerator) -> None:
    place = _place(shelf, filters)
    given = _asked(whatif.offer(shelf, place))
    if given.prompt is not None:
        place = Place(filters, place.family, place.dataset, lengths=True)
    with st.spinner("Predicting each measured point from the others"):
        found = whatif.answer(shelf, place, given)
    with top:
        _answer(found, place)
    _drawings(shelf, place, given)
    st.subheader("In numbers", help=_MODEL)
    table(whatif.numbers(shelf, place, given), "rows")
    for line in found.trust:
        st.caption(plain(line))
    st.subheader("What was measured")
    table(data_families.measured(shelf, filters), "arms")


def _place(shelf: Shelf, filters: Filters) -> Place:
    names = whatif.families(shelf, filters)
    left, right = st.columns([3, 1])
    follow_first("whatif_arm", list(names))
    name = left.selectbox("Arm", list(names), key="whatif_arm", bind="query-params")
    known = whatif.datasets(shelf, filters, names[name])
    follow_first("whatif_dataset", known)
    dataset = right.selectbox("Dataset", known, key="whatif_dataset", bind="query-params")
    return Place(filters, names[name], dataset)


def _asked(known: Offer) -> Asked:
    """What is asked; nothing far beyond what was measured can be."""
    left, right = st.columns(2)
    k = left.select_slider(
        "Draft tokens K (0: no drafts)", known.ks, known.start[0], key="k", bind="query-params"
    )
    load = right.select_slider(
        "Concurrency", known.loads, known.start[1], key="load", bind="query-params"
    )
    one, two, three = st.columns(3)
    with one:
        rate = _rate(known)
    prompt = _prompt(two, known)
    span = known.output
    output = three.slider("Output tokens", span.low, span.high, span.usual, key="output",
                          bind="query-params", help="Per request.")  # fmt: skip
    return Asked(
        k, load, rate, None,
        None if prompt == known.prompt.usual else float(prompt),
        None if output == span.usual else float(output),
    )  # fmt: skip


def _prompt(place: DeltaGenerator, known: Offer) -> int:
    """What is asked of the prompts' length; nothing where no other length can be predicted."""
    span = known.prompt
    if not known.prompts_count:
        place.caption(prompts_unknown(known))
        return span.usual
    chosen: int = place.slider(
        "Prompt tokens", span.low, span.high, span.usual, key="prompt", bind="query-params",
        help="Per request.",
    )  # fmt: skip
    return chosen


def _rate(known: Offer) -> float | None:
    own = st.toggle(
        "Another acceptance rate", not known.accepts, key="own_rate", bind="query-params",
        help=explanation(METRICS["acceptance_rate"], "mean"),
    )  # fmt: skip
    rate: float = st.slider(
        "Acceptance rate", 0.0, 1.0, 0.6, 0.01, key="rate", bind="query-params", disabled=not own,
        label_visibility="collapsed",
    )  # fmt: skip
    return rate if own else None


def _answer(found: Answer, place: Place) -> None:
    st.header(plain(found.headline))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge("predicted", color="gray")
        for text in place.family.badges:
            st.badge(text, color="gray")
        st.caption("How is this calculated?", help=_MODEL)
    if found.warnings:
        st.warning(plain(" ".join(found.warnings)))


def _drawings(shelf: Shelf, place: Place, given: Asked) -> None:
    st.subheader("Measured and predicted", help=_BAND)
    label = st.segmented_control(
        "Metric", list(_METRICS), default=next(iter(_METRICS)), required=True,
        key="whatif_metric", bind="query-params",
    )  # fmt: skip
    st.caption(
        f"Points were measured; lines are predicted, each with its {BAND}. "
        "Dotted rules: where measuring ends; dashed beyond them. Diamond: your question."
    )
    drawings = whatif.drawings(shelf, place, given, _METRICS[label])
    load, by_k, errors = drawings
    left, right = st.columns(2)
    left.vega_lite_chart(load, alt=f"{label} over concurrency, measured and predicted")
    right.vega_lite_chart(by_k, alt=f"{label} over draft tokens, measured and predicted")
    st.vega_lite_chart(errors, alt=f"Errors of predictions of withheld points, {label}")
    st.caption("As files: the withheld points with their predictions, and the charts.")
    with st.container(horizontal=True):
        rows_menu("withheld-points", functools.partial(whatif.withheld, shelf, place))
        charts_menu("what-if", titled(drawings))


def _textbook(shelf: Shelf) -> None:
    """Two models that need no measurement."""
    st.subheader(NOT_MEASURED.rstrip("."), help=_BOOK)
    left, middle, right = st.columns(3)
    rate = left.slider("Acceptance rate", 0.0, 1.0, 0.7, 0.01, key="book_rate", bind="query-params")
    k = left.slider("Draft tokens K", 1, 16, 4, key="book_k", bind="query-params")
    share = middle.slider("Share of the time that is decoding", 0.0, 1.0, 0.6, 0.05,
                          key="book_share", bind="query-params")  # fmt: skip
    cost = middle.slider("Cost of a drafted token / a step of the target", 0.0, 1.0, 0.1, 0.01,
                         key="book_cost", bind="query-params")  # fmt: skip
    text = right.selectbox("Kind of text", list(DECODE_CAPS), key="book_text",
                           bind="query-params")  # fmt: skip
    given = Parameters(rate, k, text, share, cost)
    st.markdown(plain(book.headline(given)))
    drawing, numbers = whatif.textbook(shelf, given)
    st.vega_lite_chart(drawing, alt="Speedup over the acceptance rate by two textbook models")
    table(numbers, "models")
