"""What the Trends page asks, cached by warehouse generation and by what was accepted."""

from dataclasses import dataclass
from pathlib import Path

from analysis.nightly.acceptance import Acceptance
from analysis.nightly.budgets import budgets
from analysis.nightly.nights import Series
from analysis.nightly.releases import comparable
from answers.trend import read
from answers.trend.answer import trend
from answers.trend.releases import Release, release
from dashboard.answers import Drawing
from dashboard.answers import releases as answers_releases
from dashboard.answers import trends as answers_trends
from dashboard.answers.notes import Placed
from dashboard.answers.trends import Overview
from dashboard.components import Shown
from dashboard.shelf import Shelf, cached, reader
from warehouse.filters import Filters


@dataclass(frozen=True)
class Watch:
    """What is watched and how much worse it may become (``itl=3% 5%``, as ``draftboard gate``)."""

    filters: Filters
    budget: str


@cached(8)
def series(shelf: Shelf, filters: Filters) -> list[Series]:
    """Every setting and line of the study's table over its nights."""
    return read.series(reader(shelf), filters)


def overview(shelf: Shelf, watch: Watch) -> Overview:
    """All series judged; raises UnknownKey for a budget that cannot be read."""
    return _overview(shelf, watch, read.accepted(Path(shelf.root)))


@cached(16, Watch, Acceptance)
def _overview(shelf: Shelf, watch: Watch, accepted: tuple[Acceptance, ...]) -> Overview:
    allowed = budgets(watch.budget.replace(",", " ").split())
    return answers_trends.overview(trend(series(shelf, watch.filters), allowed, accepted))


def one_series(
    shelf: Shelf, watch: Watch, place: int, notes: tuple[Placed, ...] = ()
) -> tuple[Drawing, Shown, Shown]:
    """Chart of one series of the overview, its changes, its nights; with what people noted."""
    return _one_series(shelf, watch, place, read.accepted(Path(shelf.root)), notes)


@cached(64, Watch, Acceptance, Placed)
def _one_series(
    shelf: Shelf,
    watch: Watch,
    place: int,
    accepted: tuple[Acceptance, ...],
    notes: tuple[Placed, ...],
) -> tuple[Drawing, Shown, Shown]:
    line = _overview(shelf, watch, accepted).trend.lines[place]
    return (
        answers_trends.run_chart(line, notes),
        answers_trends.changes(line),
        answers_trends.nights(line, notes),
    )


@cached(16)
def releases(shelf: Shelf, filters: Filters) -> dict[str, tuple[str, ...]]:
    """Engine version -> those that it can be held against, oldest first."""
    return comparable(series(shelf, filters))


@cached(16)
def released(shelf: Shelf, filters: Filters, before: str, after: str) -> Release:
    """Every series that knows both releases, judged between them."""
    return release(series(shelf, filters), before, after)


@cached(32)
def forest(shelf: Shelf, filters: Filters, pair: tuple[str, str], line: str) -> Drawing | None:
    """One metric line of every series between the two releases of ``pair``."""
    return answers_releases.forest(released(shelf, filters, *pair), line)
