"""What a reader asks of a forecast, as widgets; nothing far beyond what was measured can be asked."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.prediction.textbook import DECODE_CAPS
from answers.predict.textbook import Parameters
from answers.predict.values import Asked, Offer
from answers.predict.words import prompts_unknown
from dashboard.components import explanation
from warehouse.catalogue import METRICS


def asked(known: Offer) -> Asked:
    """Ask for K, load, acceptance and lengths."""
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
    """Ask for the prompts' length; nothing where no other length can be predicted."""
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


def parameters() -> Parameters:
    """Ask for the parameters of the textbook models."""
    left, middle, right = st.columns(3)
    rate = left.slider("Acceptance rate", 0.0, 1.0, 0.7, 0.01, key="book_rate", bind="query-params")
    k = left.slider("Draft tokens K", 1, 16, 4, key="book_k", bind="query-params")
    share = middle.slider("Share of the time that is decoding", 0.0, 1.0, 0.6, 0.05,
                          key="book_share", bind="query-params")  # fmt: skip
    cost = middle.slider("Cost of a drafted token / a step of the target", 0.0, 1.0, 0.1, 0.01,
                         key="book_cost", bind="query-params")  # fmt: skip
    text = right.selectbox("Kind of text", list(DECODE_CAPS), key="book_text",
                           bind="query-params")  # fmt: skip
    return Parameters(rate, k, text, share, cost)
