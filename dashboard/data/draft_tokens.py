"""What the Draft tokens page reads, cached by warehouse generation.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass

import pandas as pd

from analysis.drafts.best_k import Goal
from analysis.drafts.tuning import Inputs, advice
from analysis.matching.arms import BASELINE
from analysis.verdicts.methods import Ranking, rankings
from dashboard import data
from dashboard.answers import Drawing, draft_drawings
from dashboard.answers import draft_tokens as words
from dashboard.answers.draft_tokens import Setting
from dashboard.cells import BEHIND, linked
from dashboard.charts.drafts import Axis
from dashboard.components import Shown
from dashboard.data import families as data_families
from dashboard.families import Family
from dashboard.shelf import Shelf, cached
from warehouse.filters import Filters


@dataclass(frozen=True)
class Question:
    """``goal``: what is best; ``margin``: what a change of K between two loads has to gain."""

    filters: Filters
    family: Family
    goal: Goal
    margin: float


@cached(32, Question)
def settings(shelf: Shelf, question: Question) -> dict[str, Setting]:
    """Dataset -> what to draft there; empty where the metric was not measured."""
    filters, of_cells = question.filters, data_families.of_cells
    cells = data_families.cells(shelf, filters, question.family)
    given = Inputs(
        cells,
        of_cells(_measured(shelf, question), cells),
        of_cells(data_families.acceptance(shelf, filters), cells),
        of_cells(data.positions(shelf, filters), cells),
    )
    found = advice(given, question.goal, question.margin)
    return words.settings(found, cells, given.measurements, question.goal)


@cached(64, Question)
def _ranked(shelf: Shelf, question: Question, cell_id: str) -> list[Ranking]:
    """The arms of all families in the setting of one cell."""
    cells = data_families.alike(shelf, question.filters, cell_id)
    measured = data_families.of_cells(_measured(shelf, question), cells)
    return rankings(cells, measured, question.goal)


def _measured(shelf: Shelf, question: Question) -> pd.DataFrame:
    metrics, statistics = _read(question.goal)
    return data_families.measurements(shelf, question.filters, metrics, statistics)


def _read(goal: Goal) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The metrics and statistics that a goal and its SLO name."""
    metrics, statistics = {goal.metric}, {goal.statistic}
    if goal.slo is not None:
        metrics.update(goal.slo.metrics)
        statistics.update(goal.slo.statistics)
    return tuple(sorted(metrics)), tuple(sorted(statistics))


@cached(64, Question)
def gains(shelf: Shelf, question: Question) -> list[Drawing]:
    """A heat map per dataset."""
    return draft_drawings.gain_drawings(settings(shelf, question))


@cached(32, Question)
def squares(shelf: Shelf, question: Question) -> dict[str, tuple[str, int, int]]:
    """Name of a square of the heat maps -> setting, K, load; see ``words.squares``."""
    return words.squares(settings(shelf, question))


@cached(32, Question)
def square_cells(shelf: Shelf, question: Question, square: str) -> Shown:
    """The cells behind a square, each with a link into the Runs page."""
    name, k, load = squares(shelf, question)[square]
    best = settings(shelf, question)[name].advice.best
    placed = data_families.placed(shelf, question.filters)
    mine = placed["setting"] == placed.at[best.cell_id, "setting"]
    mine &= placed["family"].isin([BASELINE, best.family])
    mine &= (placed["k"] == k) & (placed["concurrency"] == load)
    cells = data.cells(shelf, question.filters)
    chosen = cells.loc[cells["cell_id"].isin(placed.index[mine]), [*BEHIND, "cell_id"]]
    return linked(chosen.rename(columns=BEHIND))


@cached(64, Question)
def values(shelf: Shelf, question: Question, name: str) -> list[Drawing]:
    """A chart over K per load of one setting."""
    return draft_drawings.value_drawings(settings(shelf, question)[name])


def rows(shelf: Shelf, question: Question) -> pd.DataFrame:
    """What the page stands on, for a file: one row per dataset, load and K."""
    return words.rows(settings(shelf, question))


@cached(64, Question)
def positions(shelf: Shelf, question: Question, conditional: bool) -> list[Drawing]:
    """Acceptance by position, a chart per dataset."""
    return draft_drawings.position_drawings(settings(shelf, question), conditional)


@cached(64, Question)
def accepted(shelf: Shelf, question: Question, over: Axis, metric: str) -> list[Drawing]:
    """Acceptance rate or mean acceptance length, a chart per dataset."""
    return draft_drawings.acceptance_drawings(settings(shelf, question), over, metric)


@cached(64, Question)
def tables(shelf: Shelf, question: Question, name: str) -> dict[str, Shown]:
    """The tables of one setting by name; ``ranking`` only where arms can be ranked."""
    known = settings(shelf, question)[name]
    return words.tables(known, _ranked(shelf, question, known.advice.best.cell_id))
