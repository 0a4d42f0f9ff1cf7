"""What there is to decide on, found from the cells alone, and the decision on one of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pandas as pd

from analysis.frames import plain
from analysis.matching.comparison import settings_of
from answers.decide.answer import decide, subject_of
from answers.decide.configurations import configurations
from answers.decide.overview import Overview, System, names_apart, narrowed, overviews, system
from answers.decide.values import Decisions, Question, Subject
from answers.ground import excluded_cells, whole_studies
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader


@dataclass(frozen=True)
class Named:
    """One model on one hardware with one engine, of one study. ``filters``: the chosen ones, kept to
    it, so that its answer reads no other study."""

    name: str
    system: System
    filters: Filters


@dataclass(frozen=True)
class One:
    """The decisions on one subject; without any, ``why_none`` is a sentence."""

    overview: Overview | None
    why_none: str | None = None


def subjects(reader: Reader, filters: Filters) -> tuple[Named, ...]:
    """Return every subject with a baseline and a speculative cell that the filters keep, in the
    order of the results. Some may have no decision: their cells need not be comparable."""
    cells, shown = whole_studies(reader, filters)
    flags = queries.flags(reader, list(cells.loc[cells["flags"] > 0, "cell_id"])).to_pandas()
    deciding = cells[~cells["cell_id"].isin(excluded_cells(cells, flags))]
    found = list(_subjects(deciding, shown))
    names = names_apart(found)
    first = {system(one): one for one in reversed(found)}
    return tuple(Named(name, at, narrowed(first[at], filters)) for at, name in names.items())


def _subjects(cells: pd.DataFrame, shown: frozenset[str]) -> Iterator[Subject]:
    """Yield what each setting with a baseline and a shown speculative cell is about."""
    if cells.empty:
        return
    setting, keys = settings_of(cells)
    plain_server = (cells["spec_method"] == "none").to_numpy()
    asked = cells["cell_id"].isin(shown).to_numpy() & ~plain_server
    words = configurations(keys)
    for one in sorted({*setting[plain_server]} & {*setting[asked]}):
        facts = {str(name): plain(value) for name, value in keys.loc[one].iloc[0].items()}
        yield subject_of(facts, words.get(one))


def decide_one(reader: Reader, question: Question, about: Named) -> One:
    """Decide on one of ``subjects``: the same as ``decide`` on all of them says of it.

    Raises InvalidInput for an SLO, a load or a mix that does not fit the results.
    """
    found = decide(reader, replace(question, filters=about.filters))
    return One(overview_of(found, about), found.why_none)


def overview_of(found: Decisions, about: Named) -> Overview | None:
    """Return the overview of a subject, by the name that it has among all; None without one."""
    there = (one for one in overviews(found.decisions) if one.about == about.system)
    return next((replace(one, name=about.name) for one in there), None)
