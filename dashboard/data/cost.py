"""What the Cost page reads, cached by warehouse generation."""

from dataclasses import dataclass, replace

import pandas as pd

from analysis.money.break_even import pays_at
from analysis.money.cost import MILLION
from analysis.money.demand import Demand
from analysis.money.worth import Terms, Worth, worth
from analysis.service.operating_point import Rule
from analysis.service.slo import parse
from analysis.significance.comparison import METRICS_READ, STATISTICS_READ, Comparison, compare
from dashboard import data
from dashboard.answers import Drawing
from dashboard.answers.cost import Answer, Ground, answer, drawings, priced, unpriced
from dashboard.components import Shown
from dashboard.cost_tables import step_rows
from dashboard.paying import Paying, basis_or_refusal
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters


@dataclass(frozen=True)
class Asked:
    """What the page is asked. ``slo`` (its normal form) wins over ``concurrency``; without both
    each arm runs at its peak. ``tokens_per_day``: output tokens, None for no demand."""

    filters: Filters
    paying: Paying
    concurrency: int | None = None
    slo: str = ""
    tokens_per_day: float | None = None
    peak_to_mean: float = 1.0
    whole_instances: bool = False
    investment_usd: float | None = None

    @property
    def rule(self) -> Rule:
        """Where each arm runs."""
        return Rule(self.concurrency, parse(self.slo) if self.slo else None)

    @property
    def demand(self) -> Demand | None:
        """What is to be served."""
        if self.tokens_per_day is None:
            return None
        return Demand(self.tokens_per_day, self.peak_to_mean)

    @property
    def terms(self) -> Terms:
        """The question for ``analysis.money.worth``."""
        return Terms(
            self.rule, lambda keys: basis_or_refusal(self.paying, keys), self.demand,
            self.whole_instances, self.investment_usd,
        )  # fmt: skip


@cached(8)
def study(shelf: Shelf, filters: Filters, slo: str) -> Comparison:
    """The comparison behind a cost, with what ``slo`` (its text, may be empty) is about."""
    if not slo:
        return data.study(shelf, data.Question(filters, "mean", ()))
    bounds = parse(slo)
    metrics = [*METRICS_READ, *bounds.metrics]
    statistics = [*STATISTICS_READ, *bounds.statistics]
    chosen = data.cells(shelf, filters)
    measured = frame(queries.measurements(reader(shelf), filters, metrics, statistics))
    doubtful = list(chosen.loc[chosen["flags"] > 0, "cell_id"])
    doubts = frame(queries.flags(reader(shelf), doubtful)) if doubtful else None
    return compare(chosen, measured, (), doubts)


@cached(8)
def levels(shelf: Shelf, filters: Filters) -> list[int]:
    """The loads at which both arms of some pair were measured."""
    known = study(shelf, filters, "").levels["concurrency"].dropna()
    return sorted({int(level) for level in known})


@cached(16, Asked, Paying)
def _worths(shelf: Shelf, asked: Asked) -> list[Worth]:
    found = study(shelf, asked.filters, asked.slo)
    keys = priced(found, asked.paying)
    chosen = pd.MultiIndex.from_frame(found.pairs[["setting", "arm_id"]]).isin(list(keys))
    return worth(replace(found, pairs=found.pairs[chosen]), asked.terms)


@cached(16, Asked, Paying)
def cost_answer(shelf: Shelf, asked: Asked) -> Answer:
    """What the page says; see ``answers_cost.answer``."""
    return answer(_ground(shelf, asked))


@cached(16, Asked, Paying)
def cost_drawings(shelf: Shelf, asked: Asked) -> list[Drawing]:
    """The curves of ``cost_answer``, apart because a report has none of them."""
    return drawings(_ground(shelf, asked))


@cached(4, Asked, Paying)
def _ground(shelf: Shelf, asked: Asked) -> Ground:
    found = study(shelf, asked.filters, asked.slo)
    cells = data.cells(shelf, asked.filters)
    accepted = frame(queries.acceptance(reader(shelf), asked.filters))
    pays = pays_at(found.pairs, cells, accepted)
    return Ground(found, _worths(shelf, asked), asked.rule, asked.demand, cells, pays)


@cached(16, Paying)
def without_price(shelf: Shelf, filters: Filters, paying: Paying) -> tuple[str, ...]:
    """Why some settings have no price; see ``answers_cost.unpriced``."""
    return unpriced(study(shelf, filters, ""), paying)


@cached(32, Asked, Paying)
def steps(shelf: Shelf, asked: Asked, name: str) -> Shown:
    """The arithmetic of one setting and arm of ``cost_answer(...).names``."""
    row = _worths(shelf, asked)[cost_answer(shelf, asked).names[name]]
    return step_rows(row, asked.demand)


def tokens(millions: float) -> float:
    """A demand as the page asks for it, in tokens."""
    return millions * MILLION
