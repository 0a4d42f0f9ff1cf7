"""What the Cost page reads, cached by warehouse generation."""

from dataclasses import dataclass, field

from analysis.money.cost import MILLION
from analysis.money.demand import Demand
from analysis.money.paying import Paying
from answers.cost.answer import cost
from answers.cost.values import Costs, Terms
from answers.decide.values import Question
from dashboard.answers.cost import Answer, answer, step_rows
from dashboard.components import Shown
from dashboard.data import decide as data_decide
from dashboard.shelf import Shelf, cached
from warehouse.filters import Filters
from warehouse.loads import Load


@dataclass(frozen=True)
class Asked:
    """What the page is asked. ``load``: requests at once or a second, None for the largest that
    meets ``slo`` (its normal form). ``tokens_per_day``: output tokens, None for no demand."""

    filters: Filters
    paying: Paying = field(default_factory=Paying)
    load: float | None = None
    slo: str = ""
    tokens_per_day: float | None = None
    peak_to_mean: float = 1.0
    whole_instances: bool = False
    investment_usd: float | None = None

    @property
    def question(self) -> Question:
        """Which decisions are costed."""
        return Question(self.filters, load=self.load, slo=self.slo or None)

    @property
    def terms(self) -> Terms:
        """How their money is counted."""
        daily = self.tokens_per_day
        demand = None if daily is None else Demand(daily, self.peak_to_mean)
        return Terms(self.paying, demand, self.whole_instances, self.investment_usd)


@cached(8)
def loads(shelf: Shelf, filters: Filters) -> list[Load]:
    """The loads at which some decision was measured."""
    found = data_decide.found(shelf, Question(filters)).decisions
    known = {level.load for one in found for level in one.levels}
    return sorted((load for load in known if load.value is not None), key=lambda load: load.order)


@cached(16, Asked)
def costs(shelf: Shelf, asked: Asked) -> Costs:
    """The money of every decision that the filters show."""
    return cost(data_decide.found(shelf, asked.question), asked.terms)


@cached(16, Asked)
def cost_answer(shelf: Shelf, asked: Asked) -> Answer:
    """The same as tables, charts and rows for a file."""
    return answer(costs(shelf, asked))


@cached(32, Asked)
def steps(shelf: Shelf, asked: Asked, name: str) -> Shown:
    """The arithmetic of one decision of ``cost_answer(...).names``."""
    row = costs(shelf, asked).rows[cost_answer(shelf, asked).names[name]]
    return step_rows(row, asked.terms)


def tokens(millions: float) -> float:
    """A demand as the page asks for it, in tokens."""
    return millions * MILLION
