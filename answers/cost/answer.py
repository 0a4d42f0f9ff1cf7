"""From decisions to money, at the operating load of each: savings are the decision's own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import pandas as pd

from analysis.frames import records
from analysis.money.cost import (
    HOURS_PER_YEAR,
    Basis,
    BreakEven,
    Fleet,
    break_even,
    energy,
    fleet,
    usd_per_million,
)
from analysis.money.cost import cost as cost_of
from analysis.money.paying import Hardware, Refusal, basis_of
from answers.cost import words as said
from answers.cost.capacity import Ends, amount, ends_of
from answers.cost.values import Amount, Costs, Money, Point, Side, Terms
from answers.decide.values import Cell, Decision, Decisions, Level, Rates
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

# --- Joules per output token of both arms of each cost, where the power of the GPUs was recorded.


def with_energy(reader: Reader, found: Costs) -> Costs:
    """Add energy to each cost, measured over the cells at the operating load; None where one has no
    power recorded before, in and after its load. A mix of datasets has no energy of its own."""
    spans = _spans(reader, {cell for row in found.rows for each in _cells(row) for cell in each})
    return replace(found, rows=tuple(_with(reader, row, spans) for row in found.rows))


@dataclass(frozen=True)
class _Span:
    """When a cell's load ran (unix s), and how many output tokens it made."""

    begin: float
    end: float
    tokens: float


def _cells(row: Money) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the baseline's cells and of the arm's at the operating load."""
    if row.decision.traffic.mix:
        return (), ()
    pairs = {
        pair
        for cell in row.decision.arms
        if (cell.load, cell.arm) == (row.load, row.arm)
        for pair in cell.pairs
    }
    old, new = (tuple(sorted({pair[side] for pair in pairs})) for side in (0, 1))
    return old, new if row.decision.operating.drafts else old


def _with(reader: Reader, row: Money, spans: dict[str, _Span]) -> Money:
    old, new = _cells(row)
    return replace(
        row,
        baseline=_told(reader, row.baseline, old, spans),
        speculative=_told(reader, row.speculative, new, spans),
    )


def _told(
    reader: Reader, side: Side | None, cells: Sequence[str], spans: dict[str, _Span]
) -> Side | None:
    if side is None:
        return None
    return replace(side, joules_per_output_token=_pooled(reader, cells, spans))


def _pooled(reader: Reader, cells: Sequence[str], spans: dict[str, _Span]) -> float | None:
    joules = tokens = 0.0
    for cell in cells:
        span = spans.get(cell)
        if span is None:
            return None
        samples = queries.samples(reader, cell).to_pandas()
        found = energy(samples, (span.begin, span.end), span.tokens)
        if found is None:
            return None
        joules, tokens = joules + found.joules, tokens + span.tokens
    return joules / tokens if tokens else None


def _spans(reader: Reader, wanted: set[str]) -> dict[str, _Span]:
    """Return the spans of the wanted cells whose start, length and output throughput are known."""
    if not wanted:
        return {}
    cells = queries.cells(reader, Filters()).to_pandas()
    mine = cells[cells["cell_id"].isin(wanted)]
    rates = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"]).to_pandas()
    known = dict(zip(rates["cell_id"], rates["value"], strict=True))
    return {
        str(row["cell_id"]): _Span(
            row["started_at"].timestamp(),
            row["started_at"].timestamp() + float(row["duration"]),
            float(known[row["cell_id"]]) * float(row["duration"]),
        )
        for row in records(mine)
        if row["cell_id"] in known and not (pd.isna(row["started_at"]) or pd.isna(row["duration"]))
    }


# --- From decisions to money, at the operating load of each: savings are the decision's own.


_SPEED = "output_throughput"


def cost(decisions: Decisions, terms: Terms) -> Costs:
    """Return what each decision is worth in money.

    Raises InvalidInput or UnknownKey for a price, an investment or a utilisation that cannot be;
    what is unknown is said in ``Money.missing``.
    """
    rows = tuple(_money(one, terms) for one in decisions.decisions)
    return Costs(rows, terms, said.title(rows), tuple(said.notes(rows)), decisions.why_none)


def _money(decision: Decision, terms: Terms) -> Money:
    about = decision.subject
    found = basis_of(terms.paying, Hardware(about.gpu, about.gpu_count, about.tensor_parallel_size))
    basis = None if isinstance(found, Refusal) else found
    at = _At(decision, basis, terms)
    told = (at.missing, found.sentence if isinstance(found, Refusal) else None)
    paid = at.break_even()
    yearly = at.usd_saved_per_year()
    return Money(
        decision, decision.operating_load, at.level.arm, at.level.num_speculative_tokens,
        basis, at.baseline, at.speculative, decision.saving, at.usd_saved_per_million(),
        at.gpus_saved(), yearly, paid, tuple(_curve(decision, basis)),
        said.headline(decision, at.baseline, at.speculative, yearly, at.served),
        tuple(one for one in told if one),
    )  # fmt: skip


@dataclass(frozen=True)
class _At:
    """One decision at its operating load, with what is paid for hardware and asked of it."""

    decision: Decision
    basis: Basis | None
    terms: Terms

    @property
    def level(self) -> Level:
        """The operating level."""
        return self.decision.operating

    @property
    def rates(self) -> Rates:
        """The throughputs at the operating load."""
        return self.level.rates

    @property
    def missing(self) -> str | None:
        """Why no throughput or no saving can be told; None where both can."""
        return said.missing(self.decision)

    @property
    def ends(self) -> Ends | None:
        """The arm's throughput as a multiple of the baseline's, with its interval; None without a
        saving."""
        saving = self.decision.saving
        return None if saving is None else ends_of(saving, self.level.difference)

    @property
    def baseline(self) -> Side | None:
        """The baseline's throughput as measured, with what it costs."""
        return self._side(self.rates.baseline_output, self.rates.baseline_total)

    @property
    def speculative(self) -> Side | None:
        """What is served, as the decision expects it, with what it costs: the baseline's where
        nothing is drafted, or both arms keep up with a rate."""
        old, ends = self.rates.baseline_output, self.ends
        if ends is None or old is None:
            alike = said.keeps_up(self.decision) or not self.level.drafts
            return self.baseline if alike else None
        return self._side(old * ends.expected, self._total(old * ends.expected))

    def _total(self, output: float) -> float | None:
        """Return all tokens per second that go with so many output tokens, by the arm's own
        proportion."""
        if self.rates.total is None or self.rates.output is None:
            return None
        return output * self.rates.total / self.rates.output

    def _side(self, output: float | None, total: float | None) -> Side | None:
        if output is None and total is None:
            return None
        # Fewer tokens in all than output tokens is a report's mistake: then they are unknown.
        total = None if total is not None and output is not None and total < output else total
        priced = None if self.basis is None else cost_of(output, total, self.basis)
        return Side(output, total, priced, self._fleet(output))

    @property
    def served(self) -> said.Served | None:
        """The demand that is served and the basis of its price; None without one of them."""
        demand, basis = self.terms.demand, self.basis
        return None if demand is None or basis is None else (demand, basis)

    def _fleet(self, output: float | None) -> Fleet | None:
        if self.served is None or output is None:
            return None
        demand, basis = self.served
        return fleet(demand, output, basis, self.terms.whole_instances)

    def usd_saved_per_million(self) -> Amount | None:
        """Return the USD saved for a million output tokens; None where that is unknown."""
        old, basis, saving = self.rates.baseline_output, self.basis, self.decision.saving
        if old is None or basis is None or saving is None:
            return None
        price = usd_per_million(old, basis)
        low, high = (None if x is None else x * price for x in (saving.low, saving.high))
        return Amount(saving.per_output_token * price, low, high, saving.word)

    def gpus_saved(self) -> Amount | None:
        """Return by how many GPUs the arm's fleet for the demand is smaller."""
        return self._of_fleets(lambda one: float(one.gpus))

    def usd_saved_per_year(self) -> Amount | None:
        """Return the USD that the arm's fleet for the demand costs less in a year."""
        return self._of_fleets(lambda one: one.usd_per_year)

    def _of_fleets(self, figure: Callable[[Fleet], float]) -> Amount | None:
        old, saving, ends = self.rates.baseline_output, self.decision.saving, self.ends
        taken = self._fleet(old)
        if old is None or taken is None or saving is None or ends is None:
            return None

        def saved(times: float) -> float:
            # No fleet serves the demand with no throughput at all; with one beyond all numbers none is needed.
            if not 0 < old * times < inf:
                return -inf if times <= 0 else figure(taken)
            with_arm = self._fleet(old * times)
            return 0.0 if with_arm is None else figure(taken) - figure(with_arm)

        return amount(saved, ends, saving)

    def break_even(self) -> BreakEven | None:
        """Return when the investment is paid back, as the decision expects it."""
        spent, per_million = self.terms.investment_usd, self.usd_saved_per_million()
        if spent is None or per_million is None:
            return None
        return break_even(spent, per_million.value, self._saved_per_hour())

    def _saved_per_hour(self) -> float:
        """Return the USD saved an hour: by the smaller fleet; without a demand, by GPUs that do in
        an hour what took them longer."""
        yearly, ends = self.usd_saved_per_year(), self.ends
        if yearly is not None:
            return yearly.value / HOURS_PER_YEAR
        if ends is None or self.basis is None:
            return 0.0
        return self.basis.usd_per_hour_charged * (ends.expected - 1)


def _curve(decision: Decision, basis: Basis | None) -> Iterator[Point]:
    """Yield what a token costs at each load that throughput judges: with the baseline, then each
    arm."""
    level = decision.operating
    load = level.stands_for or level.load
    seen: set[Load] = set()
    for cell in sorted(decision.arms, key=lambda one: (one.load.order, not one.taken)):
        old, times = cell.rates.baseline_output, cell.difference.improvement
        if basis is None or old is None or times is None or cell.difference.metric != _SPEED:
            continue
        price = usd_per_million(old, basis)
        if cell.load not in seen:
            seen.add(cell.load)
            here = load == cell.load
            yield Point(cell.load, None, price, None, None, False, here)
        yield _point(cell, price, level.drafts and (load, level.arm) == (cell.load, cell.arm))


def _point(cell: Cell, price: float, here: bool) -> Point:
    told = cell.difference
    expected = price / (1 + (told.improvement or 0.0))
    low, high = (_at(price, gain) for gain in (told.high, told.low))
    return Point(cell.load, cell.arm, expected, low, high, cell.taken, here)


def _at(price: float, gain: float | None) -> float | None:
    if gain is None:
        return None
    return inf if gain <= -1 else price / (1 + gain)
