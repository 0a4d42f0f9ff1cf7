"""Costs as rows of text, the same on a terminal, on a page and in a report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analysis.frames import number
from analysis.money.cost import SECONDS_PER_DAY, SECONDS_PER_HOUR, Basis, Demand, Fleet
from analysis.service.largest_load import Level
from answers.cost.capacity import LoadService, ServiceCapacity, TradePoint
from answers.cost.values import ArmCost, CostTerms, DecisionCost, SavedAmount
from answers.cost.words import paid_back, per_million, usd
from answers.decide.tables import arm_at
from answers.wording import UNKNOWN, between, interval, known, percent

# --- The arithmetic behind a cost, step by step, so that a reader can check it with a calculator.


@dataclass(frozen=True)
class CostStep:
    """One line: what is calculated, how, and with which numbers in each arm."""

    what: str
    formula: str
    baseline: str
    speculative: str


def steps(row: DecisionCost, terms: CostTerms) -> tuple[CostStep, ...]:
    """Return the steps from the price of an instance to what is saved; none without a price or a
    load."""
    if row.basis is None or row.load is None:
        return ()
    demand = terms.demand
    return (
        *_price(row.basis), *_cost(row, row.basis),
        *(() if demand is None else _fleet(row, row.basis, demand)),
    )  # fmt: skip


def _price(basis: Basis) -> Iterator[CostStep]:
    gpus = f"{basis.usd_per_hour:,.2f} USD / {basis.gpus_per_instance}"
    yield _alike(
        f"price of one {basis.unit}", f"USD per hour / {basis.unit}s that it buys",
        f"{gpus} = {basis.usd_per_gpu_hour:,.4f} USD/h",
    )  # fmt: skip
    yield _alike(
        f"{basis.unit}s charged",
        f"price of one {basis.unit} × {basis.unit}s behind the throughput",
        f"{basis.usd_per_gpu_hour:,.4f} × {basis.gpus_used} = "
        f"{basis.usd_per_hour_charged:,.4f} USD/h",
    )  # fmt: skip


def _cost(row: DecisionCost, basis: Basis) -> Iterator[CostStep]:
    yield _alike("load", "where both arms run", UNKNOWN if row.load is None else row.load.text)
    yield _each(
        row, "output tokens a second", "measured; with speculation: × what it is expected to gain",
        lambda side: _rate(side.output_throughput),
    )  # fmt: skip
    yield _each(
        row, "tokens a paid hour", "output tok/s × 3,600 s × utilisation",
        lambda side: f"{_rate(side.output_throughput)} × {SECONDS_PER_HOUR:,} × "
        f"{basis.utilisation:.0%} = {_hourly(side, basis)}",
    )  # fmt: skip
    yield _each(
        row, "cost of a million output tokens", "1,000,000 / tokens a paid hour × USD/h charged",
        lambda side: f"1,000,000 / {_hourly(side, basis)} × {basis.usd_per_hour_charged:,.4f} = "
        f"{_usd(side, 'output')} USD",
    )  # fmt: skip
    yield _each(
        row, "the same over input; over all tokens",
        "spread over that kind alone: three views of one bill, never added",
        lambda side: f"{_usd(side, 'input')} and {_usd(side, 'total')} USD",
    )  # fmt: skip
    told = UNKNOWN if row.saving is None else percent(row.saving.per_output_token)
    yield CostStep("saved", "1 − cost with speculation / cost of the baseline", "", told)


def _fleet(row: DecisionCost, basis: Basis, demand: Demand) -> Iterator[CostStep]:
    yield _alike(
        "demand at the busiest moment", "tokens a day / 86,400 s × peak to mean",
        f"{demand.tokens_per_day:,.0f} / {SECONDS_PER_DAY:,} × {demand.peak_to_mean:g} = "
        f"{demand.tokens_per_second:,.1f} tok/s",
    )  # fmt: skip
    yield _of_fleet(
        row, "replicas", "demand at the busiest moment / output tok/s, rounded up",
        lambda fleet: f"{fleet.replicas:,}",
    )  # fmt: skip
    yield _of_fleet(
        row, "busy", "mean demand / output tok/s of all replicas",
        lambda fleet: f"{fleet.busy:.0%}",
    )  # fmt: skip
    yield _of_fleet(
        row, f"{basis.unit}s", f"replicas × {basis.unit}s charged",
        lambda fleet: f"{fleet.replicas:,} × {basis.gpus_used} = {fleet.gpus:,}",
    )  # fmt: skip
    yield _of_fleet(
        row, "fleet an hour", f"{basis.unit}s × price of one, or whole instances × their price",
        lambda fleet: f"{fleet.usd_per_hour:,.2f} USD",
    )  # fmt: skip
    yield _of_fleet(
        row, "fleet a year", "an hour × 24 × 365", lambda fleet: f"{fleet.usd_per_year:,.0f} USD"
    )
    saved = row.usd_saved_per_year
    told = UNKNOWN if saved is None else f"{saved.value:,.0f} USD"
    yield CostStep("saved a year", "fleet of the baseline − fleet with speculation", "", told)


def _alike(what: str, formula: str, text: str) -> CostStep:
    return CostStep(what, formula, text, text)


def _each(row: DecisionCost, what: str, formula: str, text: Callable[[ArmCost], str]) -> CostStep:
    sides = (row.baseline, row.speculative)
    return CostStep(what, formula, *(UNKNOWN if side is None else text(side) for side in sides))


def _of_fleet(row: DecisionCost, what: str, formula: str, text: Callable[[Fleet], str]) -> CostStep:
    return _each(
        row, what, formula, lambda side: UNKNOWN if side.fleet is None else text(side.fleet)
    )


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.2f}"


def _hourly(side: ArmCost, basis: Basis) -> str:
    """Return the tokens that a server makes in a paid hour."""
    rate = side.output_throughput
    return UNKNOWN if rate is None else f"{rate * SECONDS_PER_HOUR * basis.utilisation:,.0f}"


def _usd(side: ArmCost, kind: str) -> str:
    if side.cost is None:
        return UNKNOWN
    costs = {
        "output": side.cost.usd_per_million_output_tokens,
        "input": side.cost.usd_per_million_input_tokens,
        "total": side.cost.usd_per_million_total_tokens,
    }
    return usd(costs[kind])


# --- Costs as rows of text, the same on a terminal, on a page and in a report.


#: A header, and rows of text.
Table = tuple[list[str], list[list[str]]]
#: Whether a load keeps a service level, in words.
MET = {True: "meets it", False: "misses it", None: "not measured"}
#: What stands in front of a row.
_WHO = ["traffic", "model", "GPU", "TP", "at", "arm"]


def costs(rows: Sequence[DecisionCost]) -> Table:
    """Return a row per decision: what output and all tokens cost with both arms, and what is
    saved."""
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


def demands(rows: Sequence[DecisionCost]) -> Table:
    """Return a row per decision: whole replicas, GPUs and money for the demand, and how sure they
    are."""
    header = [
        *_WHO, "GPUs", "GPUs saved", "busy", "USD a month", "USD a year", "saved a year, USD",
        "95 % interval", "how sure",
    ]  # fmt: skip
    return header, [
        [
            *_who(row),
            _hardware(row), _number(row.gpus_saved),
            _change(row, lambda fleet: f"{fleet.busy:.0%}"),
            _change(row, lambda fleet: f"{fleet.usd_per_month:,.0f}"),
            _change(row, lambda fleet: f"{fleet.usd_per_year:,.0f}"),
            _number(row.usd_saved_per_year), _ends(row.usd_saved_per_year),
            UNKNOWN if row.usd_saved_per_year is None else row.usd_saved_per_year.word,
        ]
        for row in rows
    ]  # fmt: skip


def others(rows: Sequence[DecisionCost]) -> Table:
    """Return a row per decision: break-even and energy, where they are known."""
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


def _who(row: DecisionCost) -> list[str]:
    about = row.decision.subject
    load = "no load" if row.load is None else row.load.text
    model = ", ".join(part for part in (known(about.model), about.configuration) if part)
    return [
        row.decision.traffic.name, model, known(about.gpu),
        known(about.tensor_parallel_size), load, arm_at(row.decision),
    ]  # fmt: skip


def _total(side: ArmCost | None) -> str:
    priced = None if side is None else side.cost
    return usd(None if priced is None else priced.usd_per_million_total_tokens)


def _saved(row: DecisionCost) -> list[str]:
    saving = row.saving
    if not row.decision.operating.drafts:
        return ["nothing", "", ""]
    if saving is None:
        return [UNKNOWN, UNKNOWN, UNKNOWN]
    ends = interval(saving.low, saving.high) or UNKNOWN
    return [percent(saving.per_output_token), ends, saving.word]


def _change(row: DecisionCost, told: Callable[[Fleet], str]) -> str:
    fleets = [None if side is None else side.fleet for side in (row.baseline, row.speculative)]
    return " → ".join(UNKNOWN if fleet is None else told(fleet) for fleet in fleets)


def _hardware(row: DecisionCost) -> str:
    """Return the hardware of both arms, such as ``3 → 2``, with what is counted where it is no
    GPU."""
    unit = "GPU" if row.basis is None else row.basis.unit
    told = _change(row, lambda fleet: f"{fleet.gpus:,}")
    return told if unit == "GPU" else f"{told} {unit}s"


def _number(amount: SavedAmount | None) -> str:
    return UNKNOWN if amount is None else f"{amount.value:,.0f}"


def _ends(amount: SavedAmount | None) -> str:
    ends = "" if amount is None else between(amount.low, amount.high, "{:,.0f}".format)
    return ends or UNKNOWN


def _joules(side: ArmCost | None) -> str:
    value = None if side is None else side.joules_per_output_token
    return UNKNOWN if value is None else f"{value:.3g}"


def arms(found: ServiceCapacity) -> Table:
    """Return a row per arm: how far it keeps the service level, what it yields and costs there."""
    counted = ["good requests", "goodput, req/s", "good output, tok/s"] if found.counted else []
    header = [
        "setting", "arm", "largest load", "output tok/s", "USD per million output tokens",
        *counted, "why no more", "evidence",
    ]  # fmt: skip
    return header, [
        [
            arm.place.setting, arm.place.arm,
            "no load" if arm.reach.largest is None else arm.reach.largest.text,
            number(arm.output, 1), number(arm.usd, 3),
            *(_good(arm.at_largest) if counted else ()), arm.reach.sentence, arm.place.origin,
        ]
        for arm in found.arms
    ]  # fmt: skip


def loads(found: ServiceCapacity) -> Table:
    """Return a row per arm and load: whether it keeps the service level, and why not."""
    counted = ["good requests", "goodput, req/s", "good output, tok/s"] if found.counted else []
    header = ["setting", "arm", "load", "in flight", "this load", "repeats that meet it", "why not"]
    return [*header, *counted], [
        [
            arm.place.setting, arm.place.arm, at.level.load.text, number(at.in_flight, 1),
            MET[at.level.met], f"{at.level.meeting} of {at.level.repeats}", why(at.level),
            *(_good(at) if counted else ()),
        ]
        for arm in found.arms
        for at in arm.loads
    ]  # fmt: skip


def _good(at: LoadService | None) -> tuple[str, ...]:
    if at is None:
        return (UNKNOWN,) * 3
    share = UNKNOWN if at.good.good_share is None else f"{at.good.good_share:.1%}"
    return share, number(at.good.goodput, 2), number(at.good.good_output_throughput, 1)


def why(level: Level) -> str:
    """Say which bounds a load misses, and which were not measured there; empty where all hold."""
    parts = [f"misses {', '.join(level.broken)}"] if level.broken else []
    parts += [f"not measured: {', '.join(level.missing)}"] if level.missing else []
    return "; ".join(parts)


def trade_points(points: Sequence[TradePoint]) -> Table:
    """Return a row per point of the trade between a GPU and a user."""
    header = [
        "arm", "load", "tok/s per user", "tok/s per GPU", "GPUs", "dominated by", "dataset",
        "evidence",
    ]  # fmt: skip
    return header, [
        [
            point.path, point.load.short, number(point.user, 1), number(point.gpu, 1),
            str(point.gpus), point.dominated_by or "none: on the front",
            known(point.place.dataset), point.place.origin,
        ]
        for point in points
    ]  # fmt: skip
