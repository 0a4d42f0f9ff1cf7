"""What the page asks of the trend, kept for all sessions of a generation."""

from dataclasses import dataclass

from analysis.nightly.acceptance import Acceptance
from analysis.nightly.budgets import budgets
from answers.runs.notes import Placed
from answers.trend import read
from answers.trend.answer import Line, Trend, names, watch
from dashboard.charts.spec import Drawing, specification
from dashboard.charts.trends import run_chart
from dashboard.shelf import Shelf, ask, cached
from warehouse.filters import Filters


@dataclass(frozen=True)
class Asked:
    """What is watched, how much worse it may become (``itl=3% 5%``), and what was accepted."""

    filters: Filters
    budget: str
    accepted: tuple[Acceptance, ...]


@dataclass(frozen=True)
class Known:
    """The judged trend. ``places``: metric -> the names of its judged series, worst first -> the
    series."""

    trend: Trend
    places: dict[str, dict[str, Line]]


@cached
def trend_of(shelf: Shelf, asked: Asked) -> Known:
    """Judge every series; raises UnknownKey for a budget that cannot be read."""
    allowed = budgets(asked.budget.replace(",", " ").split())
    trend = watch(ask(shelf, read.watched, asked.filters), allowed, asked.accepted)
    places: dict[str, dict[str, Line]] = {}
    told = names([line.assessed.series for line in trend.judged])
    for name, line in zip(told, trend.judged, strict=True):
        places.setdefault(line.metric, {})[name] = line
    return Known(trend, places)


@cached
def drawing(
    shelf: Shelf, asked: Asked, metric: str, name: str, noted: tuple[Placed, ...]
) -> Drawing:
    """Draw the run chart of one series, with what people noted."""
    return specification(run_chart(trend_of(shelf, asked).places[metric][name], noted))
