"""Collects a report from the pages' own answers, so that it says the same numbers as they do."""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from analysis.money.paying import Paying
from answers.cost.answer import cost
from answers.decide.outputs import Outputs
from answers.decide.overview import Overview
from answers.decide.values import Decisions, Question
from dashboard import data
from dashboard.answers import cost as answers_cost
from dashboard.answers import report as answers_report
from dashboard.data import compare as data_compare
from dashboard.data import cost as data_cost
from dashboard.data import decide as data_decide
from dashboard.data import notes as data_notes
from dashboard.report_parts import Report, Section
from dashboard.shelf import Shelf
from warehouse.errors import InvalidInput, UnknownKey

#: The statistic of latencies in the charts.
_STATISTIC = "p50"


@dataclass(frozen=True)
class Wanted:
    """What a report is asked for. ``subject``: named as on the Verdict page, None for the first that
    it offers; ``tokens_per_day``: a demand in output tokens, None for none; ``link``: the address of
    the same view, empty if there is none."""

    question: Question
    subject: str | None = None
    paying: Paying = Paying()
    tokens_per_day: float | None = None
    link: str = ""


def report(shelf: Shelf, wanted: Wanted) -> Report:
    """The report on one subject of what the filters keep.

    Raises UnknownKey where they keep no cell or not that subject, InvalidInput where nothing can be
    decided.
    """
    overview = _overview(shelf, wanted)
    chosen = wanted.question.filters
    filters = data_decide.narrowed(overview, chosen)
    note = overview.name.partition("  [")[2].partition("]")[0]
    return Report(
        question=answers_report.question(overview, chosen),
        headline=overview.headline,
        tiles=answers_report.tiles(overview.leads[0]),
        against=answers_report.against(overview),
        badges=(note,) if note else (),
        scope=(
            *answers_report.scope(overview, chosen, data.cells(shelf, filters)),
            *answers_report.excluded(data_notes.left_out(shelf, filters)),
        ),
        sections=_sections(shelf, wanted, overview),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        link=wanted.link,
        version=_version(),
    )


def _sections(shelf: Shelf, wanted: Wanted, overview: Overview) -> tuple[Section, ...]:
    filters = data_decide.narrowed(overview, wanted.question.filters)
    compared = data_compare.Question(filters, _STATISTIC, wanted.question.allow)
    known = data_compare.page(shelf, compared)
    asked = data_cost.Asked(filters, wanted.paying, tokens_per_day=wanted.tokens_per_day)
    money = cost(Decisions(overview.decisions), asked.terms)
    return (
        answers_report.pays(overview),
        answers_report.loads(overview),
        answers_report.cost(answers_cost.answer(money)),
        *(
            answers_report.speed(data_compare.metric_drawings(shelf, compared, name), title)
            for name, title in list(known.titles.items())[:1]
        ),
        answers_report.caveats(
            overview,
            known,
            _same(shelf, wanted, overview),
            data_cost.costs(shelf, asked).notes,
        ),
        *answers_report.noted(data_notes.of_view(shelf, filters)),
        answers_report.method(),
        answers_report.provenance(data.runs(shelf, filters)),
    )


def _same(shelf: Shelf, wanted: Wanted, overview: Overview) -> list[Outputs]:
    """Whether the arms that lead answer as the baseline does."""
    places = [
        data_decide.Place(overview.name, name)
        for name, one in data_decide.traffics(overview).items()
        if one in overview.leads
    ]
    found = (data_decide.same(shelf, wanted.question, place) for place in places)
    return [one for one in found if one is not None]


def _overview(shelf: Shelf, wanted: Wanted) -> Overview:
    if data.cells(shelf, wanted.question.filters).empty:
        raise UnknownKey(
            "No cell matches these filters, so there is nothing to report; `draftboard runs` lists "
            "what there is."
        )
    known = data_decide.subjects(shelf, wanted.question)
    if not known:
        why = data_decide.found(shelf, wanted.question).why_none or ""
        raise InvalidInput(f"{why} So there is no verdict to report.")
    return known[_one_of(list(known), wanted.subject, "subject")]


def _one_of(known: list[str], asked: str | None, what: str) -> str:
    if asked is not None and asked not in known:
        raise UnknownKey(f"There is no {what} {asked!r} here; choose one of: {'; '.join(known)}.")
    return known[0] if asked is None else asked


def _version() -> str:
    try:
        return version("draftboard")
    except PackageNotFoundError:
        return "(version unknown)"
