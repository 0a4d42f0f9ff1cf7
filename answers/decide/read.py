"""What a decision stands on: whole studies, and what an SLO bounds."""

from analysis.service.slo import Slo
from answers.decide.values import Question
from answers.ground import Asked
from answers.ground import Ground as Ground
from answers.ground import Rows as Rows
from answers.ground import ground as read
from answers.ground import ground_of as ground_of
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader


def ground(reader: Reader, question: Question, slo: Slo | None) -> Ground:
    """Compare all cells of every study that the filters touch.

    Raises UnknownKey for a field in ``question.allow`` that pairs need not share anyway.
    """
    bounds = () if slo is None else slo.bounds
    also = tuple((bound.metric, bound.statistic) for bound in bounds)
    return read(reader, Asked(question.filters, question.allow, also))


def measured(reader: Reader, filters: Filters) -> int:
    """Return how many cells the filters keep."""
    return int(queries.cells(reader, filters).num_rows)
