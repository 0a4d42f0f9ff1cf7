"""What is folded under a forecast: its numbers, how far to trust it, the draft, textbook models."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.prediction.reach import DECODE_CAPS
from answers.predict import values as book
from answers.predict.acceptance import DraftAcceptance, acceptance_rows
from answers.predict.answer import ForecastSubject, measured
from answers.predict.values import (
    AskableQuestions,
    FittedPlace,
    ForecastAnswer,
    ForecastQuestion,
    TextbookParameters,
    TextTable,
    numbers,
    prompts_unknown,
)
from dashboard.charts.forecast import Sheet, withheld
from dashboard.charts.forecast import textbook as draw_textbook
from dashboard.charts.spec import specification
from dashboard.components import explanation, plain, shown, table
from dashboard.downloads import rows_menu
from warehouse.catalogue import METRICS


def asked(known: AskableQuestions) -> ForecastQuestion:
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
    return ForecastQuestion(
        k, load, rate, None,
        None if prompt == known.prompt.usual else float(prompt),
        None if output == span.usual else float(output),
    )  # fmt: skip


def _prompt(place: DeltaGenerator, known: AskableQuestions) -> int:
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


def _rate(known: AskableQuestions) -> float | None:
    own = st.toggle(
        "Another acceptance rate", not known.accepts, key="own_rate", bind="query-params",
        help=explanation(METRICS["acceptance_rate"], "mean"),
    )  # fmt: skip
    rate: float = st.slider(
        "Acceptance rate", 0.0, 1.0, 0.6, 0.01, key="rate", bind="query-params", disabled=not own,
        label_visibility="collapsed",
    )  # fmt: skip
    return rate if own else None


def parameters() -> TextbookParameters:
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
    return TextbookParameters(rate, k, text, share, cost)


MODEL = (
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


def in_numbers(found: ForecastAnswer) -> None:
    """Draw the answer as a table."""
    st.caption("How is this calculated?", help=MODEL)
    text(numbers(found), "rows")


def trust(found: ForecastAnswer, sheet: Sheet) -> None:
    """Draw how far predictions of withheld points were off."""
    for line in found.trust:
        st.caption(plain(line))
    st.vega_lite_chart(
        specification(withheld(sheet)),
        alt=f"Errors of predictions of withheld points. {found.trust[0]}",
    )
    rows_menu("withheld-points", lambda: _withheld(sheet.known))


def _withheld(known: FittedPlace) -> pd.DataFrame:
    """Return the withheld points with their predictions, for a file."""
    rows = [vars(one) | {"error": one.error, "held": one.held} for one in known.withheld]
    return pd.DataFrame(rows)


def accepted(found: Sequence[DraftAcceptance]) -> None:
    """Draw the acceptance of every dataset, K and load."""
    header, rows = acceptance_rows(found)
    text(TextTable(tuple(header), tuple(map(tuple, rows))), "levels")


def what_was_measured(found: Sequence[ForecastSubject]) -> None:
    """Draw what was measured of every family on every dataset."""
    text(measured(found), "arms")


def textbook() -> None:
    """Draw two models that need no measurement."""
    st.markdown(f"**{book.NOT_MEASURED.rstrip('.')}**", help=_BOOK)
    given = parameters()
    st.markdown(plain(book.headline(given)))
    st.vega_lite_chart(specification(draw_textbook(given)), alt=book.headline(given))
    text(book.table(given), "models")


def text(found: TextTable, what: str) -> None:
    """Draw rows of text as a table."""
    rows = [list(row) for row in found.rows]
    table(shown(pd.DataFrame(rows, columns=list(found.header))), what)
