"""What the Verdict page reads, cached by warehouse generation."""

import pandas as pd

from analysis.significance.comparison import (
    METRICS_READ,
    STATISTICS_READ,
    Comparison,
    compare,
    in_study_order,
)
from analysis.significance.confidence import intervals
from analysis.verdicts.decision import decisions
from analysis.verdicts.overall import overalls
from dashboard import data
from dashboard.answers import Compared
from dashboard.answers import judged as answers_judged
from dashboard.answers import verdict as answers_verdict
from dashboard.answers.judged import Judged
from dashboard.answers.verdict import Verdict
from dashboard.components import Shown, shown
from dashboard.shelf import Shelf, cached, frame, reader
from dashboard.subjects import Subject, of_subject
from dashboard.subjects import subjects as all_subjects
from dashboard.tables import unmatched_rows
from warehouse import queries
from warehouse.filters import Filters


@cached(16)
def subjects(shelf: Shelf, filters: Filters) -> dict[str, Subject]:
    """Name -> what a verdict can be about."""
    return all_subjects(data.cells(shelf, filters))


@cached(16, Subject)
def judged(shelf: Shelf, filters: Filters, subject: Subject) -> Judged:
    """The comparison of one subject, its intervals, and the decision on each arm."""
    found, cells = _compared(shelf, filters, subject)
    # Intervals of one series know nothing of others: those that no sentence tells cost only time.
    sure = intervals(in_study_order(found.pairs))
    made = overalls(found, sure, decisions(found, sure))
    return answers_judged.judged(Compared(found, sure, cells), made)


def _compared(shelf: Shelf, filters: Filters, subject: Subject) -> tuple[Comparison, pd.DataFrame]:
    """The comparison of one subject and its cells."""
    mine = subject.filters(filters)
    there = data.cells(shelf, mine)
    cells = of_subject(there, subject).reset_index(drop=True)
    if len(cells) == len(there):
        # The comparison that other pages and the report have of the same cells.
        return data.study(shelf, data.Question(mine, "mean", ())), cells
    measured = frame(queries.measurements(reader(shelf), mine, METRICS_READ, STATISTICS_READ))
    doubtful = list(cells.loc[cells["flags"] > 0, "cell_id"])
    doubts = frame(queries.flags(reader(shelf), doubtful)) if doubtful else None
    own = measured[measured["cell_id"].isin(cells["cell_id"])]
    return compare(cells, own, (), doubts), cells


def arms(shelf: Shelf, filters: Filters, subject: Subject) -> list[str]:
    """The arms that can be judged, the best first."""
    about = judged(shelf, filters, subject)
    return [about.arms[one.arm_id] for one in about.overalls]


@cached(32, Subject)
def verdict(shelf: Shelf, filters: Filters, subject: Subject, arm: str) -> Verdict:
    """The verdict on one arm; see ``answers_verdict.verdict``."""
    return answers_verdict.verdict(judged(shelf, filters, subject), arm)


@cached(16, Subject)
def unmatched(shelf: Shelf, filters: Filters, subject: Subject) -> Shown:
    """The cells of a subject that have no partner, and why."""
    known = judged(shelf, filters, subject).known
    return shown(unmatched_rows(known.found, known.cells))
