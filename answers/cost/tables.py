"""Costs as rows of text, the same on a terminal, on a page and in a report."""

from collections.abc import Callable, Sequence

from analysis.money.demand import Fleet
from answers.cost.values import Amount, Money, Side
from answers.cost.words import paid_back, per_million, usd
from answers.wording import UNKNOWN, interval, known, percent

#: A header, and rows of text.
Table = tuple[list[str], list[list[str]]]
#: What stands in front of a row.
_WHO = ["traffic", "model", "GPU", "TP", "at", "arm"]


def costs(rows: Sequence[Money]) -> Table:
    """A row per decision: what output and all tokens cost with both arms, and what is saved."""
    header = [
        *_WHO, "USD per million output tokens: baseline", "with it", "of all tokens: baseline",
        "all tokens with it", "saved", "95 % interval", "how sure", "basis",
    ]  # fmt: skip
    return header, [
        [
            *_who(row), per_million(row.baseline), per_million(row.speculative),
            _total(row.baseline), _total(row.speculative), *_saved(row),
            UNKNOWN if row.basis is None else row.basis.name,
        ]
        for row in rows
    ]  # fmt: skip


def demands(rows: Sequence[Money]) -> Table:
    """A row per decision: whole replicas, GPUs and money for the demand, and how sure they are."""
    header = [
        *_WHO, "GPUs", "GPUs saved", "busy", "USD a month", "USD a year", "saved a year, USD",
        "95 % interval", "how sure",
    ]  # fmt: skip
    return header, [
        [
            *_who(row),
            _change(row, lambda fleet: f"{fleet.gpus:,}"), _number(row.gpus_saved),
            _change(row, lambda fleet: f"{fleet.busy:.0%}"),
            _change(row, lambda fleet: f"{fleet.usd_per_month:,.0f}"),
            _change(row, lambda fleet: f"{fleet.usd_per_year:,.0f}"),
            _number(row.usd_saved_per_year), _ends(row.usd_saved_per_year),
            UNKNOWN if row.usd_saved_per_year is None else row.usd_saved_per_year.word,
        ]
        for row in rows
    ]  # fmt: skip


def others(rows: Sequence[Money]) -> Table:
    """A row per decision: break-even and energy, where they are known."""
    header = [*_WHO, "break-even, if the saving is as expected", "J per output token"]
    return header, [
        [
            *_who(row),
            UNKNOWN if row.break_even is None else paid_back(row.break_even),
            " → ".join(_joules(side) for side in (row.baseline, row.speculative)),
        ]
        for row in rows
        if row.break_even is not None or _joules(row.baseline) != UNKNOWN
    ]


def _who(row: Money) -> list[str]:
    about = row.decision.subject
    load = "no load" if row.load is None else row.load.text
    return [
        row.decision.traffic.name, known(about.model), known(about.gpu),
        known(about.tensor_parallel_size), load, row.arm,
    ]  # fmt: skip


def _total(side: Side | None) -> str:
    priced = None if side is None else side.cost
    return usd(None if priced is None else priced.usd_per_million_total_tokens)


def _saved(row: Money) -> list[str]:
    saving = row.saving
    if saving is None:
        return [UNKNOWN, UNKNOWN, UNKNOWN]
    ends = interval(saving.low, saving.high) or UNKNOWN
    return [percent(saving.per_output_token), ends, saving.word]


def _change(row: Money, told: Callable[[Fleet], str]) -> str:
    fleets = [None if side is None else side.fleet for side in (row.baseline, row.speculative)]
    return " → ".join(UNKNOWN if fleet is None else told(fleet) for fleet in fleets)


def _number(amount: Amount | None) -> str:
    return UNKNOWN if amount is None else f"{amount.value:,.0f}"


def _ends(amount: Amount | None) -> str:
    if amount is None or amount.low is None or amount.high is None:
        return UNKNOWN
    return f"{amount.low:,.0f} to {amount.high:,.0f}"


def _joules(side: Side | None) -> str:
    value = None if side is None else side.joules_per_output_token
    return UNKNOWN if value is None else f"{value:.3g}"
