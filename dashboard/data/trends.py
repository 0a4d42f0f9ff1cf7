"""What the Trends page reads, cached by warehouse generation."""

from dataclasses import dataclass

import pandas as pd

from analysis.nightly.budgets import budgets
from analysis.nightly.nights import Series, series_over_nights
from analysis.nightly.regressions import Assessment, assess
from analysis.nightly.releases import against, comparable
from analysis.significance.comparison import STUDY_TABLE
from dashboard import data
from dashboard.answers import Drawing
from dashboard.answers import releases as answers_releases
from dashboard.answers import trends as answers_trends
from dashboard.answers.notes import Placed
from dashboard.answers.trends import Overview
from dashboard.components import Shown
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters


@dataclass(frozen=True)
class Watch:
    """What is watched and how much worse it may become (``itl=3% 5%``, as ``draftboard gate``)."""

    filters: Filters
    budget: str


@cached(8)
def series(shelf: Shelf, filters: Filters) -> list[Series]:
    """Every setting and line of the study's table over its nights."""
    metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE, strict=True))
    values = frame(queries.measurements(reader(shelf), filters, metrics, statistics))
    lines = pd.DataFrame(list(STUDY_TABLE), columns=["metric", "statistic"])
    known = values.merge(lines, on=["metric", "statistic"])
    return series_over_nights(data.cells(shelf, filters), known)


@cached(16, Watch)
def overview(shelf: Shelf, watch: Watch) -> Overview:
    """All series judged; raises UnknownKey for a budget that cannot be read."""
    allowed = budgets(watch.budget.replace(",", " ").split())
    return answers_trends.overview(assess(series(shelf, watch.filters), allowed))


@cached(64, Watch, Placed)
def one_series(
    shelf: Shelf, watch: Watch, place: int, notes: tuple[Placed, ...] = ()
) -> tuple[Drawing, Shown, Shown]:
    """Chart of one series of the overview, its changes, its nights; with what people noted."""
    one = overview(shelf, watch).found[place]
    return (
        answers_trends.run_chart(one, notes),
        answers_trends.changes(one),
        answers_trends.nights(one, notes),
    )


@cached(16)
def releases(shelf: Shelf, filters: Filters) -> dict[str, tuple[str, ...]]:
    """Engine version -> those that it can be held against, oldest first."""
    return comparable(series(shelf, filters))


@cached(16, Watch)
def released(shelf: Shelf, watch: Watch, before: str, after: str) -> list[Assessment]:
    """Every series that knows both releases, judged between them."""
    allowed = budgets(watch.budget.replace(",", " ").split())
    return assess(against(series(shelf, watch.filters), before, after), allowed)


@cached(32, Watch)
def forest(shelf: Shelf, watch: Watch, pair: tuple[str, str], line: str) -> Drawing | None:
    """One metric line of every series between the two releases of ``pair``."""
    return answers_releases.forest(released(shelf, watch, *pair), line)
