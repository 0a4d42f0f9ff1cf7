"""Predict: what a K, load, acceptance or length that was not measured would give, and how sure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import streamlit as st

from answers.predict.acceptance import AcceptanceQuestion as Accepting
from answers.predict.acceptance import DraftAcceptance, Measure, Over, accepted, headline, lines
from answers.predict.answer import (
    DraftFamily,
    ForecastSubject,
    acceptance_of_family,
    families,
    fitted,
    forecast_answer,
    subjects,
)
from answers.predict.answer import forecast_lines as predicted_lines
from answers.predict.values import BAND, FittedPlace, ForecastAnswer, ForecastQuestion
from answers.wording import bracketed
from dashboard import offered
from dashboard.charts import forecast
from dashboard.charts.acceptance import acceptance
from dashboard.charts.forecast import DRAWN, Sheet
from dashboard.charts.spec import Drawing, specification
from dashboard.chosen import Offer, offer, one_of
from dashboard.components import plain, titled
from dashboard.downloads import charts_menu
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask, cached
from dashboard.views.predict import folds
from dashboard.views.predict.folds import asked
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

TITLE = "Predict"
URL_PATH = "predict"
ORDER = 40
FORMER = ("what-if",)
#: The box of arms.
_ARM = "whatif_arm"
_GONE = "Not here any more: what the link names"
_QUESTION = "What if K, load, acceptance or lengths were others?"
_METRICS = {METRICS[name].label: name for name in DRAWN}
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


@dataclass(frozen=True)
class Place:
    """One family on one dataset. ``lengths``: fit to all datasets, which together tell what a
    prompt token costs."""

    filters: Filters
    system: int
    family: str
    dataset: str
    lengths: bool = False


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    known, every = _arms(shelf, filters), [one.name for one in _arms(shelf, Filters())]
    there = offer([one.name for one in known], every, next(iter(every), None))
    if known:
        _measured(shelf, filters, known, there)
        return
    st.header(_QUESTION)
    one_of("Arm", (), _ARM, there.hidden)
    if offered.cells(shelf, filters).empty:
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        if not offered.cells(shelf, Filters()).empty:
            return
    else:
        nothing(
            shelf,
            "No speculative cell with latencies, lengths and acceptance is among these results, "
            "so only the textbook models can answer.",
        )
    folds.textbook()


@cached
def _arms(shelf: Shelf, filters: Filters) -> tuple[DraftFamily, ...]:
    """Return the arms that the filters keep, in the order and by the names that they have without."""
    return families(ask(shelf, subjects, filters), ask(shelf, subjects, Filters()))


def _measured(shelf: Shelf, filters: Filters, known: tuple[DraftFamily, ...], there: Offer) -> None:
    top, below = st.container(), st.container()
    chosen = _chosen({one.name: one for one in known}, there)
    with below:
        there.say_default(_ARM)
    if isinstance(chosen, str):
        top.header(plain(chosen))
        return
    family, dataset = chosen
    place = Place(filters, family.system, family.family, dataset, lengths=True)
    # Prompts may be asked for as far as all datasets together reach.
    given = asked(_known(shelf, place).offer)
    if given.prompt is None:
        place = replace(place, lengths=False)
    with st.spinner("Predicting each measured point from the others"):
        found = _answer(shelf, place, given)
    with top:
        st.header(plain(found.headline), help=folds.MODEL)
        with st.container(horizontal=True, vertical_alignment="center"):
            for text in ("predicted", *family.badges):
                st.badge(text, color="gray")
        if found.warnings:
            st.warning(plain(" ".join(found.warnings)))
    note = bracketed(*family.badges)
    sheet, drawings = _lines(shelf, place, given, note)
    drafts = acceptance_of_family(ask(shelf, accepted, filters), family)
    drawings += _draft(drafts, family, note) if drafts else []
    charts_menu("predict", titled(drawings))
    _below(found, sheet, drafts, ask(shelf, subjects, filters))


def _chosen(known: dict[str, DraftFamily], there: Offer) -> tuple[DraftFamily, str] | str:
    """Return the arm and the dataset of the boxes; a sentence where the filters hide the arm, or the
    link names one that is gone."""
    left, right = st.columns([3, 1])
    with left:
        name = one_of("Arm", there.names, _ARM, there.hidden)
    if name is None or name not in known:
        return _GONE if name is None else there.why_hidden(name) or _GONE
    with right:
        dataset = one_of("Dataset", list(known[name].datasets), "whatif_dataset")
    return _GONE if dataset is None else (known[name], dataset)


def _lines(
    shelf: Shelf, place: Place, given: ForecastQuestion, note: str
) -> tuple[Sheet, list[Drawing]]:
    """Draw the chosen metric over the load and over K; ``note`` ends the titles."""
    label = st.segmented_control(
        "Metric", list(_METRICS), default=next(iter(_METRICS)), required=True,
        key="whatif_metric", bind="query-params", help=_BAND,
    )  # fmt: skip
    sheet = Sheet(_known(shelf, place), given, _METRICS[label], note)
    drawings = _drawn(shelf, place, given, (sheet.metric, note))
    for column, drawing in zip(st.columns(2), drawings, strict=True):
        column.vega_lite_chart(drawing, alt=f"{drawing['title']['text']}, measured and predicted")
    st.caption(
        f"Points were measured; lines are predicted, each with its {BAND}. "
        "Dotted rules: where measuring ends; dashed beyond them. Diamond: your question."
    )
    return sheet, list(drawings)


@cached
def _known(shelf: Shelf, place: Place) -> FittedPlace:
    """Return what forecasts rest on. Raises InvalidInput where there is none."""
    wanted = (place.system, place.family, place.dataset)
    (subject,) = (
        one
        for one in ask(shelf, subjects, place.filters)
        if (one.place.system, one.place.family, one.place.dataset) == wanted
    )
    return fitted(subject, place.lengths)


@cached
def _answer(shelf: Shelf, place: Place, given: ForecastQuestion) -> ForecastAnswer:
    return forecast_answer(_known(shelf, place), given)


@cached
def _drawn(
    shelf: Shelf, place: Place, given: ForecastQuestion, words: tuple[str, str]
) -> list[Drawing]:
    """Return the charts over the load and over K. ``words``: the metric, and what ends the
    titles."""
    sheet = Sheet(_known(shelf, place), given, *words)
    around = predicted_lines(sheet.known, given)
    return [
        specification(forecast.over_load(sheet, around)),
        specification(forecast.over_k(sheet, around)),
    ]


def _draft(found: tuple[DraftAcceptance, ...], family: DraftFamily, note: str) -> list[Drawing]:
    """Draw how good the draft is: one chart, a line per dataset."""
    ks = sorted({one.k for one in found}, reverse=True)
    st.subheader("How good is the draft?", help=_DRAFT)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        over = _OVER[_segments("Acceptance", list(_OVER), "draft_acceptance")]
        if over == "position":
            measure = _SHARES[_segments("Share", list(_SHARES), "draft_position")]
        else:
            measure = _MEASURES[_segments("Measure", list(_MEASURES), "draft_measure")]
        k = int(_segments("K", [str(k) for k in ks], "draft_k")) if over != "k" else ks[0]
    told = lines(found, Accepting(over, measure, k))
    title = (f"{headline(found, k)}{note}", f"{family.family}; a line per dataset")
    drawing = specification(
        acceptance(told, over, measure, forecast.arm_name(family.family, k), title)
    )
    st.vega_lite_chart(drawing, alt=title[0])
    return [drawing]


def _segments(label: str, options: list[str], key: str) -> str:
    chosen: str = st.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params"
    )
    return chosen


def _below(
    found: ForecastAnswer,
    sheet: Sheet,
    drafts: tuple[DraftAcceptance, ...],
    there: tuple[ForecastSubject, ...],
) -> None:
    """Draw the folds; what is closed is neither computed nor drawn."""
    parts: dict[str, tuple[str, Callable[[], None]]] = {
        "In numbers": ("fold_numbers", lambda: folds.in_numbers(found)),
        "How far can it be trusted?": ("fold_trust", lambda: folds.trust(found, sheet)),
        "Acceptance in numbers": ("fold_accepted", lambda: folds.accepted(drafts)),
        "What was measured": ("fold_measured", lambda: folds.what_was_measured(there)),
        "Textbook models, without a measurement": ("fold_textbook", folds.textbook),
    }
    for label, (key, draw) in parts.items():
        with st.expander(label, key=key, on_change="rerun", bind="query-params") as fold:
            if fold.open:
                draw()
