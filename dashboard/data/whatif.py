"""What the What-if page reads, cached by warehouse generation.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass, replace

import pandas as pd

from answers.predict import answer as answering
from answers.predict import textbook as book
from answers.predict import words
from answers.predict.read import Subject
from answers.predict.read import subjects as read_subjects
from answers.predict.textbook import Parameters
from answers.predict.values import Answer, Asked, Known, Lines, Offer, Table
from dashboard.answers import Drawing, whatif_drawings
from dashboard.answers.textbook import textbook_drawing
from dashboard.answers.whatif_drawings import Sheet
from dashboard.components import Shown, shown
from dashboard.data import families as data_families
from dashboard.depth import bracketed
from dashboard.families import Family
from dashboard.shelf import Shelf, cached, reader
from warehouse.filters import Filters


@dataclass(frozen=True)
class Place:
    """One family on one dataset. ``lengths``: fit to all datasets, which together tell what a
    prompt token costs."""

    filters: Filters
    family: Family
    dataset: str
    lengths: bool = False


@cached(16)
def _subjects(shelf: Shelf, filters: Filters) -> tuple[Subject, ...]:
    return read_subjects(reader(shelf), filters)


@cached(16)
def families(shelf: Shelf, filters: Filters) -> dict[str, Family]:
    """Name -> family, those alone of which a draft was measured with latencies and acceptance."""
    drafted = {(one.place.system, one.place.family) for one in _subjects(shelf, filters)}
    known = data_families.names(shelf, filters)
    return {
        name: family for name, family in known.items() if (family.system, family.family) in drafted
    }


def datasets(shelf: Shelf, filters: Filters, family: Family) -> list[str]:
    """The datasets on which the family was measured."""
    mine = (family.system, family.family)
    places = (one.place for one in _subjects(shelf, filters))
    return sorted(place.dataset for place in places if (place.system, place.family) == mine)


@cached(32, Place)
def known(shelf: Shelf, place: Place) -> Known:
    """What forecasts rest on. Raises InvalidInput where there is none."""
    wanted = (place.family.system, place.family.family, place.dataset)
    (subject,) = (
        one
        for one in _subjects(shelf, place.filters)
        if (one.place.system, one.place.family, one.place.dataset) == wanted
    )
    return answering.known(subject, place.lengths)


def offer(shelf: Shelf, place: Place) -> Offer:
    """What may be asked; prompts as far as all datasets together reach."""
    return known(shelf, replace(place, lengths=True)).offer


@cached(64, Place, Asked)
def answer(shelf: Shelf, place: Place, asked: Asked) -> Answer:
    """The answer to one question."""
    return answering.answer(known(shelf, place), asked)


@cached(64, Place, Asked)
def numbers(shelf: Shelf, place: Place, asked: Asked) -> Shown:
    """The answer as a table."""
    return _shown(words.numbers(answer(shelf, place, asked)))


@cached(64, Place, Asked)
def _lines(shelf: Shelf, place: Place, asked: Asked) -> Lines:
    return answering.lines(known(shelf, place), asked)


@cached(64, Place, Asked)
def drawings(shelf: Shelf, place: Place, asked: Asked, metric: str) -> list[Drawing]:
    """Over the load, over K, and the errors of withheld points."""
    note = "".join(bracketed(text) for text in place.family.badges)
    sheet = Sheet(known(shelf, place), asked, metric, note)
    lines = _lines(shelf, place, asked)
    return [
        whatif_drawings.over_load(sheet, lines),
        whatif_drawings.over_k(sheet, lines),
        whatif_drawings.withheld(sheet),
    ]


def withheld(shelf: Shelf, place: Place) -> pd.DataFrame:
    """The withheld points with their predictions, for a download."""
    rows = [
        vars(one) | {"error": one.error, "held": one.held} for one in known(shelf, place).withheld
    ]
    return pd.DataFrame(rows)


@cached(64, Parameters)
def textbook(shelf: Shelf, given: Parameters) -> tuple[Drawing, Shown]:
    """Both textbook models, drawn and with their parameters; no measurement stands behind them."""
    return textbook_drawing(given), _shown(book.table(given))


def _shown(table: Table) -> Shown:
    return shown(pd.DataFrame([list(row) for row in table.rows], columns=list(table.header)))
