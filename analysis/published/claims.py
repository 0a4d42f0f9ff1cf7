"""Published tables, judged: which figures do not follow from their own row, and why."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from math import isclose
from typing import Any

from analysis.matching.comparison import geometric_mean, improvement
from analysis.metric_words import read_metric
from analysis.money.cost import DAYS_PER_YEAR, MILLION, Basis, saving, usd_per_million
from analysis.money.paying import PRICES, Price, instances_at, is_gpu
from analysis.published.claims_file import Row, Tables, number, positive
from analysis.published.printed import (
    NAMED,
    Figure,
    Finding,
    Printed,
    PrintedRange,
    convention_of,
    decimal,
    decimals,
    exactly,
    follows,
    gains,
    measures,
    printed,
    propagated,
    shown,
    told,
)
from warehouse.catalogue import METRICS, Better
from warehouse.errors import InvalidInput

# --- Published costs and savings, recomputed from the throughput and the price beside them.
#
# A row has one price and one or two arms: throughputs ``baseline_tok_s`` (or ``tok_s``) and
# ``speculative_tok_s``, and the costs printed for them. Prices and demands are taken as exact,
# throughputs as printed.


#: Printed cost -> USD per million tokens (and tokens a day) -> that cost in USD.
_COSTS: dict[str, Callable[[float, float], float]] = {
    "usd": lambda usd, _: usd,
    "usd_per_1m": lambda usd, _: usd,
    "usd_per_million_output_tokens": lambda usd, _: usd,
    "usd_per_1k": lambda usd, _: usd / 1000,
    "usd_per_day": lambda usd, daily: usd * daily / MILLION,
}
_ARMS = {"baseline": ("baseline_", ""), "speculative": ("speculative_",)}


@dataclass(frozen=True)
class _Bill:
    """A row's price and throughputs, and what is known of the GPUs behind both: how many are
    ``priced`` and how many ``measured``."""

    row: Row
    price: float
    rates: Mapping[str, PrintedRange]
    tokens_per_day: float
    priced: int | None
    measured: int | None

    def usd_per_million(self, rate: PrintedRange) -> PrintedRange:
        """Return an arm's cost at the whole price, as a printed formula has it that knows no
        basis."""
        return propagated(lambda tok_s: usd_per_million(tok_s, Basis(self.price)), rate)

    def figure(self, name: str, follows: PrintedRange, unit: str) -> Figure:
        """Return a printed number of the row, with what follows for it."""
        about = {x: text for x, text in self.row.about.items() if x in ("dataset", "tp")}
        about["usd_per_hour"] = f"{self.price:g}"
        claimed = printed(number(self.row, name))
        return Figure(self.row.section, about, name, claimed, follows, unit)


def _cost_findings(
    rows: Sequence[Row], tables: Sequence[Row], prices: Sequence[Price] = PRICES
) -> list[Finding]:
    """Return every printed cost and saving. ``tables``: the improvement rows of the same file,
    which may say of how many GPUs a throughput is.

    A cost that follows from its row is flagged all the same where the price is that of another
    number of GPUs than the throughput: by the row (``gpus_per_instance``, ``gpus_used``, ``tp``),
    else by the price list and the tables' ``tp``. Savings in percent do not depend on the basis.
    """
    bills = []
    for row in rows:
        rates = {
            arm: printed(positive(row, f"{prefix}tok_s"))
            for arm, prefixes in _ARMS.items()
            for prefix in prefixes
            if f"{prefix}tok_s" in row.fields
        }
        price = positive(row, "usd_per_hour")
        daily = positive(row, "tokens_per_day") if "tokens_per_day" in row.fields else 0
        bills.append(
            _Bill(
                row, float(decimal(price)), rates, float(decimal(daily)),
                _stated(row, "gpus_per_instance") or _listed(row, price, prices),
                _stated(row, "gpus_used") or _stated(row, "tp") or _tp_beside(row, tables),
            )
        )  # fmt: skip
    return [finding for bill in bills for finding in _judged_bill(bill)]


def _judged_bill(bill: _Bill) -> Iterator[Finding]:
    for arm, rate in bill.rates.items():
        for prefix, (cost, convert) in product(_ARMS[arm], _COSTS.items()):
            name = f"{prefix}{cost}"
            if name in bill.row.fields and (bill.tokens_per_day or cost != "usd_per_day"):
                follows = propagated(
                    lambda usd, c=convert: c(usd, bill.tokens_per_day), bill.usd_per_million(rate)
                )
                yield _judged_sum(bill, name, follows)
    if len(bill.rates) < len(_ARMS):
        return
    old, new = (bill.usd_per_million(bill.rates[arm]) for arm in _ARMS)
    saved = propagated(lambda one, other: one - other, old, new)
    if "saving_pct" in bill.row.fields:
        share = propagated(lambda b, s: 100 * saving(1 / b, 1 / s), *bill.rates.values())
        figure = bill.figure("saving_pct", share, "%")
        reason = "Follows from the throughputs, whatever the price and its basis."
        yield figure.finding(reason) if figure.agrees else figure.differs()
    if "saving_usd" in bill.row.fields:
        yield _judged_sum(bill, "saving_usd", saved)
    if "usd_saved_per_year" in bill.row.fields and bill.tokens_per_day:
        yearly = saved.scaled(bill.tokens_per_day / MILLION * DAYS_PER_YEAR)
        yield _judged_sum(bill, "usd_saved_per_year", yearly)


def _judged_sum(bill: _Bill, name: str, follows: PrintedRange) -> Finding:
    figure = bill.figure(name, follows, "USD")
    if not figure.agrees:
        return figure.differs()
    if bill.priced is None or bill.measured is None:
        return figure.finding(
            "Follows from its own row, which does not say how many GPUs the price buys."
        )
    if bill.priced == bill.measured:
        return figure.finding()
    share = follows.value * bill.measured / bill.priced
    gpus = f"{bill.measured} GPU" + ("" if bill.measured == 1 else "s")
    return figure.finding(
        f"{shown(figure.printed.value, 'USD')} is on the instance basis: {bill.price:,.2f} USD/h "
        f"buys {bill.priced} GPUs, and the throughput is that of {gpus}. On the per-GPU basis "
        f"it is {share:,.3f} USD.",
        "basis",
    )


def _stated(row: Row, name: str) -> int | None:
    if name not in row.fields:
        return None
    value = decimal(positive(row, name))
    if value != int(value):
        raise InvalidInput(f"{row.place}: {name} counts GPUs, and {value} is no whole number.")
    return int(value)


def _listed(row: Row, price: Decimal, prices: Sequence[Price]) -> int | None:
    """Return how many GPUs a price buys by the price list: that of its name (``price``), else that
    of the same sum, among those of the row's ``gpu`` where it names one. None for a round sum,
    which may be anybody's, and where the list says different numbers."""
    named = str(row.fields.get("price", "")).casefold()
    listed = [p for p in prices if p.name.casefold() == named]
    if not listed and decimals(price):
        listed = instances_at(float(decimal(price)), decimals(price), prices)
    gpu = row.fields.get("gpu")
    counts = {p.gpus_per_instance for p in listed if gpu is None or is_gpu(str(gpu), p)}
    return counts.pop() if len(counts) == 1 else None


def _tp_beside(row: Row, tables: Sequence[Row]) -> int | None:
    """Return the ``tp`` of a table row that prints the same throughputs; None without one."""
    names = [f"{prefix}tok_s" for prefixes in _ARMS.values() for prefix in prefixes]
    rates = {row.fields[name] for name in names if name in row.fields}
    same = (
        table for table in tables
        if rates and rates <= {table.fields.get(arm) for arm in _VALUES} and "tp" in table.fields
    )  # fmt: skip
    table = next(same, None)
    return None if table is None else _stated(table, "tp")


# --- Published improvements and geometric means, recomputed from their rows.
#
# A column of a section is read by the convention that most of its rows follow (``conventions``); only
# what contradicts its row under that convention is flagged.


#: What a row's ``concurrency`` says where it is the mean over the levels.
MEAN = ("geomean", "geometric mean", "geometric_mean")
_VALUES = ("baseline", "speculative")


def _gain_findings(rows: Sequence[Row]) -> tuple[list[Finding], list[str]]:
    """Return every printed gain, in order, and a sentence on the convention of each column; two
    whose values are exchanged say so."""
    columns: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    read = []
    for row in rows:
        old, new = (printed(positive(row, name)) for name in _VALUES)
        for name in gains(row.fields):
            one = Printed(name, str(number(row, name)), (old, new), better_of(row))
            columns[row.section, one.column, one.form].append(one)
            read.append((row, one))
    chosen = {key: convention_of(found) for key, found in columns.items()}
    figures = []
    for row, one in read:
        by = chosen[row.section, one.column, one.form]
        figures.append(
            Figure(
                row.section, row.about, row.name, printed(one.text),
                by.follows(one.values, one.better), by.unit, by.name, one.better,
            )
        )  # fmt: skip
    said = [f"{key[0]}, {key[1]}: {told(columns[key], one)}" for key, one in chosen.items()]
    return [_judge(one, figures) for one in figures], said


def as_improvement(finding: Finding) -> Finding:
    """Return a printed gain in ``%`` with positive being better, whatever its convention."""
    by, better = NAMED[finding.convention], finding.better
    if better is None or by.name == "improvement":
        return finding
    ends = (finding.published, finding.recomputed, finding.low, finding.high)
    published, recomputed, *span = (by.improvement(value, better) for value in ends)
    return replace(
        finding, published=published, recomputed=recomputed, low=min(span), high=max(span),
        unit="%", convention="improvement",
    )  # fmt: skip


def _mean_findings(rows: Sequence[Row]) -> Iterator[Finding]:
    groups: dict[tuple[str, ...], dict[bool, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        about = (f"{k}={v}" for k, v in sorted(row.about.items()) if k != "concurrency")
        is_mean = str(row.fields.get("concurrency", "")).strip().casefold() in MEAN
        groups[row.section, row.name, *about][is_mean].append(row)
    for group in groups.values():
        levels = group[False]
        if len([level for level in levels if "concurrency" in level.fields]) < 2:
            continue
        for row, arm in product(group[True], _VALUES):
            values = [printed(positive(level, arm)) for level in levels]
            mean = geometric_mean([one.value for one in values]) or float("nan")
            low = geometric_mean([one.low for one in values])
            high = geometric_mean([one.high for one in values]) or float("nan")
            follows = exactly(mean) if low is None else PrintedRange(mean, low, high)
            named = {**row.about, "arm": arm, "levels": str(len(levels))}
            claimed = printed(positive(row, arm))
            name = f"geometric mean of {row.name}"
            figure = Figure(row.section, named, name, claimed, follows, "")
            yield figure.finding() if figure.agrees else figure.differs()


def better_of(row: Row) -> Better:
    """Return the direction of a row's metric. Raises InvalidInput where neither file nor catalogue
    say."""
    told = row.fields.get("better")
    if told in ("higher", "lower"):
        return "higher" if told == "higher" else "lower"
    metric = read_metric(row.name)
    if metric is None:
        raise InvalidInput(
            f"{row.place}: {row.name!r} is no metric of the catalogue; add better: higher or "
            "better: lower to the row."
        )
    return METRICS[metric.metric].better


def _judge(figure: Figure, others: Sequence[Figure]) -> Finding:
    if figure.agrees:
        return figure.finding()
    if figure.unit == "%" and figure.printed.scaled(-1).meets(figure.follows):
        loses = (figure.follows.value < 0) == (
            figure.convention != "change" or figure.better == "higher"
        )
        word = "regression" if loses else "improvement"
        return figure.finding(
            f"Its own row is a {word} of {abs(figure.follows.value):.1f} %, printed as "
            f"{shown(figure.printed.value, '%')}: the sign is wrong.",
            "sign",
        )
    for other in others:
        # Two rows of one printed table are alike in all but the metric.
        together = (figure.section, figure.about) == (other.section, other.about)
        crosswise = figure.printed.meets(other.follows) and other.printed.meets(figure.follows)
        if other is not figure and together and crosswise and not other.agrees:
            return figure.finding(
                f"Its own row gives {shown(figure.follows.value, figure.unit)}; the printed "
                f"{shown(figure.printed.value, figure.unit)} is what the {other.metric} row gives: "
                "the two are swapped.",
                "swapped",
            )
    return figure.differs()


# --- Published acceptance, recomputed wherever it stands in a table, and speedups that it cannot explain.


_METRICS = {"length": "mean_acceptance_length", "rate": "acceptance_rate"}
#: Fields that say which servers a row is about.
_LABEL = re.compile(
    r"(.*[ _])?(model|method|arm|dataset|task|tp|k|num_speculative_tokens|concurrency|batch[ _]size)"
)
#: Prompts are not drafted, and drafts are not gained from drafts.
_NOT_DRAFTED = ("ttft", "acceptance_rate", "mean_acceptance_length")


def _acceptances(rows: Sequence[Row]) -> Iterator[Finding]:
    """Recompute printed lengths and rates: length = 1 + accepted / drafts, 1 + the sum over the
    positions, or 1 + K x rate where every draft has K tokens; rate = accepted / drafted tokens."""
    for row in rows:
        told, about = measures(row.fields), _labels(row) or {"row": str(row.number)}
        for what, given in follows(told).items():
            if what in told:
                figure = Figure(row.section, about, _METRICS[what], told[what], given, "")
                yield figure.finding() if figure.agrees else figure.differs()


def _labels(row: Row) -> dict[str, str]:
    return {name: str(v) for name, v in row.fields.items() if _LABEL.fullmatch(name.casefold())}


def _beyond_drafts(rows: Sequence[Row], acceptance: Sequence[Row]) -> Iterator[Finding]:
    """Yield the speedups at one request at once that are above the tokens of a step: there a step
    with drafts takes no less time than one without, so something else made the server faster.

    ``acceptance``: the rows that say the tokens of a step, by themselves or of the same server.
    """
    for row in rows:
        named, labels = read_metric(row.name), _labels(row)
        loads = {text for label, text in labels.items() if _is_load(label)}
        if loads != {"1"} or named is None or named.metric in _NOT_DRAFTED:
            continue
        values = [printed(positive(row, name)) for name in _VALUES]
        speedup = NAMED["factor"].follows(values, better_of(row))
        steps: list[PrintedRange] = []
        same = [
            other for other in acceptance
            if all(labels.get(n, v) == v for n, v in _labels(other).items() if not _is_load(n))
        ]  # fmt: skip
        for those in ([row], same):
            # The tokens of a step as rows print them, else as they follow.
            measured = [measures(one.fields) for one in those]
            lengths = [each.get("length", follows(each).get("length")) for each in measured]
            steps = steps or [step for step in lengths if step is not None and step.value > 1]
        most = max(steps, key=lambda step: step.high, default=speedup)
        if speedup.low > most.high:
            yield Figure(row.section, row.about, row.name, speedup, most, "x").finding(
                f"{speedup.value:.2f}x at one request at once is more than the "
                f"{most.value:.2f} tokens of a step: not from these drafts alone.",
                "drafts",
            )


def _is_load(label: str) -> bool:
    return label.casefold().endswith(("concurrency", "batch_size", "batch size"))


# --- The errors behind flagged figures: one wrong price is one error, whatever was calculated with it.


#: Two figures are wrong by the same factor where they differ by no more than this (ratio).
_SAME_FACTOR = 0.02


@dataclass(frozen=True)
class Error:
    """One mistake. ``findings``: the flagged figures, the first is where it was made; ``sentence``
    says what went wrong, and which other figures follow from it."""

    kind: str
    sentence: str
    findings: tuple[Finding, ...]


def _same_error(first: Finding, other: Finding) -> bool:
    if (first.section, first.about, first.kind) != (other.section, other.about, other.kind):
        return False
    if first.kind == "swapped":
        near = isclose(first.recomputed, other.published, rel_tol=_SAME_FACTOR)
        return near or first.low <= other.published <= first.high
    if first.kind == "basis":
        return True
    both = (first, other)
    money = all(one.unit == "USD" and one.kind == "arithmetic" and one.recomputed for one in both)
    return money and isclose(*(x.published / x.recomputed for x in both), rel_tol=_SAME_FACTOR)


def _error(group: tuple[Finding, ...]) -> Error:
    first, count = group[0], len(group) - 1
    kind = first.kind or ""
    if not count or kind == "swapped":
        return Error(kind, first.reason, group)
    if kind == "basis":
        basis = first.reason.partition(" On the per-GPU basis")[0]
        figures = "figure stands" if count == 1 else "figures stand"
        return Error(kind, f"{basis} {count} more {figures} on the same price.", group)
    more = "figure of this row is" if count == 1 else "figures of this row are"
    factor = first.published / first.recomputed
    times = f"That is {factor:.3g} times what follows, and {count} more {more} wrong"
    return Error(kind, f"{first.reason} {times} by the same factor.", group)


# --- Published tables, judged: which figures do not follow from their own row, and why.


@dataclass(frozen=True)
class Claims:
    """The judgement of published tables. ``findings``: a row for each figure that could be
    recomputed, in the file's order. ``unclaimed``: sentences on rows that print two values but no
    improvement, and on parts of the file that hold nothing to recompute: silence about them would
    look like consent. ``conventions``: for each column of gains the sentence how it is printed."""

    findings: tuple[Finding, ...]
    unclaimed: tuple[str, ...]
    conventions: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """The figures that do not follow from their row, or whose price is that of other GPUs."""
        return tuple(finding for finding in self.findings if finding.flagged)

    @property
    def errors(self) -> tuple[Error, ...]:
        """The flagged figures, each under the error that it comes from, in the order of the file."""
        found, waiting = [], list(self.flagged)
        while waiting:
            first = waiting[0]
            group = [one for one in waiting if one is first or _same_error(first, one)]
            found.append(_error(tuple(group)))
            waiting = [one for one in waiting if not any(one is taken for taken in group)]
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Return ``{"checked", "flagged", "errors": [...], "rows": [...], "not_checked": [...],
        "conventions": [...]}``; an error holds the places of its figures in ``rows``, that where it was made first."""
        places = {id(finding): at for at, finding in enumerate(self.findings)}
        return {
            "checked": len(self.findings),
            "flagged": len(self.flagged),
            "errors": [
                {
                    "kind": error.kind,
                    "sentence": error.sentence,
                    "rows": [places[id(finding)] for finding in error.findings],
                }
                for error in self.errors
            ],
            "rows": [finding.as_json() for finding in self.findings],
            "not_checked": list(self.unclaimed),
            "conventions": list(self.conventions),
        }


def judge(tables: Tables, prices: Sequence[Price] = PRICES) -> Claims:
    """Recompute everything in the tables. Raises InvalidInput that names a row it cannot read."""
    gained, conventions = _gain_findings(tables.improvements)
    findings = [
        *gained,
        *_mean_findings(tables.improvements),
        *_acceptances(tables.acceptances),
        *_beyond_drafts(tables.improvements, tables.acceptances),
        *_cost_findings(tables.costs, tables.improvements, prices),
    ]
    unclaimed = []
    for row in tables.improvements:
        if not gains(row.fields):
            old, new = (float(decimal(positive(row, name))) for name in _VALUES)
            value = improvement(old, new, better_of(row))
            about = ", ".join(f"{name} {text}" for name, text in row.about.items())
            unclaimed.append(
                f"{row.place} ({row.name}, {about}) prints no improvement; its values give "
                f"{shown(100 * (value or 0.0), '%')}."
            )
    alone = "its means over the load stand without the levels they are taken over."
    unclaimed += [f"{row.place}: {alone}" for row in tables.acceptances if "geomean" in row.fields]
    unclaimed += [f"{name}: nothing to recompute." for name in tables.ignored]
    return Claims(tuple(findings), tuple(unclaimed), tuple(conventions))
