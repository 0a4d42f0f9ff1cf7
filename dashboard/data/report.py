"""Collects a report from the pages' own answers, so that it says the same numbers as they do."""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from dashboard import answers, data
from dashboard.answers import report as answers_report
from dashboard.data import cost as data_cost
from dashboard.data import notes as data_notes
from dashboard.data import verdict as data_verdict
from dashboard.paying import Paying
from dashboard.report_parts import Report, Section
from dashboard.shelf import Shelf
from dashboard.subjects import Subject, of_subject
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.filters import Filters

#: The statistic of latencies in the charts.
_STATISTIC = "p50"


@dataclass(frozen=True)
class Wanted:
    """What a report is asked for. ``subject`` and ``arm``: names as on the Verdict page, None for
    the first that it offers; ``tokens_per_day``: a demand in output tokens, None for none;
    ``link``: the address of the same view, empty if there is none."""

    filters: Filters
    subject: str | None = None
    arm: str | None = None
    paying: Paying = Paying()
    tokens_per_day: float | None = None
    link: str = ""


def report(shelf: Shelf, wanted: Wanted) -> Report:
    """The report on one subject and arm of what the filters keep.

    Raises UnknownKey where they keep no cell or not that subject or arm, InvalidInput where no cell
    has a partner.
    """
    subject = _subject(shelf, wanted)
    arm = _arm(shelf, wanted, subject)
    filters = subject.filters(wanted.filters)
    found = data_verdict.verdict(shelf, wanted.filters, subject, arm)
    cells = of_subject(data.cells(shelf, filters), subject)
    return Report(
        question=answers_report.question(subject, wanted.filters),
        headline=found.headline,
        tiles=tuple((tile.label, tile.value, tile.note) for tile in found.tiles),
        against=found.against or ("nothing that was measured",),
        badges=tuple(note for note in [subject.note] if note),
        scope=(
            *answers_report.scope(subject, arm, wanted.filters, cells),
            *answers_report.excluded(data_notes.left_out(shelf, filters)),
        ),
        sections=_sections(shelf, wanted, subject, arm),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        link=wanted.link,
        version=_version(),
    )


def _sections(shelf: Shelf, wanted: Wanted, subject: Subject, arm: str) -> tuple[Section, ...]:
    filters = subject.filters(wanted.filters)
    found = data_verdict.verdict(shelf, wanted.filters, subject, arm)
    compared = data_verdict.judged(shelf, wanted.filters, subject).known
    known = answers.answer(compared, _STATISTIC)
    setting = next(iter(known.titles))
    asked = data_cost.Asked(filters, wanted.paying, tokens_per_day=wanted.tokens_per_day)
    return (
        answers_report.pays(found),
        answers_report.totals(found),
        answers_report.cost(data_cost.cost_answer(shelf, asked)),
        answers_report.speed(
            answers.metric_drawings(known, setting, _STATISTIC), known.titles[setting]
        ),
        answers_report.caveats(
            found, known, data_cost.without_price(shelf, filters, wanted.paying)
        ),
        *answers_report.noted(data_notes.of_view(shelf, filters)),
        answers_report.method(),
        answers_report.provenance(data.runs(shelf, filters)),
    )


def _subject(shelf: Shelf, wanted: Wanted) -> Subject:
    if data.cells(shelf, wanted.filters).empty:
        raise UnknownKey(
            "No cell matches these filters, so there is nothing to report; `draftboard runs` lists "
            "what there is."
        )
    known = data_verdict.subjects(shelf, wanted.filters)
    return known[_one_of(list(known), wanted.subject, "subject")]


def _arm(shelf: Shelf, wanted: Wanted, subject: Subject) -> str:
    known = data_verdict.arms(shelf, wanted.filters, subject)
    if not known:
        raise InvalidInput(
            f"No cell of {subject.name} has a partner, so there is no verdict to report; "
            "`draftboard compare` says why."
        )
    return _one_of(known, wanted.arm, "arm")


def _one_of(known: list[str], asked: str | None, what: str) -> str:
    if asked is not None and asked not in known:
        raise UnknownKey(f"There is no {what} {asked!r} here; choose one of: {'; '.join(known)}.")
    return known[0] if asked is None else asked


def _version() -> str:
    try:
        return version("draftboard")
    except PackageNotFoundError:
        return "(version unknown)"
