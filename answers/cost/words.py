"""Costs in sentences and as rows of text, the same on a terminal, on a page and in a report."""

from collections.abc import Callable, Iterator, Sequence

from analysis.flags.lints_across import LESS_CACHE
from analysis.money.cost import SECONDS_PER_DAY, SECONDS_PER_HOUR, Basis, BreakEven, Demand, Fleet
from analysis.service.slo import Level
from answers.cost.capacity import LoadService, ServiceCapacity, TradePoint
from answers.cost.values import ArmCost, ArmEnergy, CacheRoom, DecisionCost, SavedAmount, Terms
from answers.decide.tables import arm_at, traffic_short
from answers.decide.values import Decision
from answers.decide.words import SURE, at_load, left_on, saved
from answers.wording import ORIGINS, UNKNOWN, TextRows, between, interval, known, percent, rounded
from warehouse.catalogue import counted

# --- What money says in sentences: what a token costs, what a year saves, and what is not known.


NOTHING = "What does a token cost with speculation? No pair of arms to compare yet."
#: Below this, USD are shown with more digits.
_LARGE = 1000
#: Below this, USD at the end of a line are shown with two digits that say something.
_CENT = 0.1
#: Reasons for which cells decide nothing that are said here; the verdict lists all.
_MOST_EXCLUDED = 3


def usd(value: float | None) -> str:
    """Write an amount in USD with at least four digits, so that what is said of two of them can be
    recomputed from what is shown: ``0.05812``, ``1.386``, ``1,204``."""
    if value is None:
        return UNKNOWN
    if 0 < abs(value) < 1:
        return f"{value:#.4g}"
    return f"{value:,.3f}" if abs(value) < _LARGE else f"{value:,.0f}"


def short_usd(value: float) -> str:
    """Write an amount in USD for the end of a line: two decimals, for small sums the first two
    digits."""
    return f"{value:,.2f}" if value >= _CENT else f"{value:.2g}"


def per_million(side: ArmCost | None) -> str:
    """Return USD per million output tokens of one arm."""
    return _views(side)[0]


def keeps_up(decision: Decision) -> bool:
    """Return whether the operating load is a rate that both arms serve in full."""
    level = decision.operating
    return level.load.is_rate and not level.difference.metric.endswith("throughput")


def missing(decision: Decision) -> str | None:
    """Say why no saving can be told at the operating load; None where one can."""
    level = decision.operating
    if keeps_up(decision):
        return (
            f"{_at(decision)} every arm keeps up, so all serve the "
            "same tokens on the same hardware: nothing is saved, and what differs is latency."
        )
    if level.rates.baseline_output is None:
        return (
            f"{_at(decision)} the output throughput was not "
            "measured, so no cost of output tokens can be said."
        )
    if not level.drafts:
        nothing = f"{_at(decision)} nothing is drafted, so nothing is saved."
        return f"{nothing} {left_on(level.difference)}".strip()
    if decision.saving is None:
        return (
            f"{_at(decision)} the arms are judged by another metric "
            "than output throughput, so no saving is said."
        )
    return None


def headline(
    decision: Decision, baseline: ArmCost | None, speculative: ArmCost | None,
    yearly: SavedAmount | None, served: tuple[Demand, Basis] | None,
) -> str:  # fmt: skip
    """Say what the decision's arm saves at its operating load, for each token and in a year.
    ``served``: the demand, and what is paid for the hardware that serves it."""
    if decision.saving is None:
        return missing(decision) or NOTHING
    token = saved(decision.saving).removesuffix(".")
    before, after = per_million(baseline), per_million(speculative)
    prices = "" if UNKNOWN in (before, after) else f": {before} → {after} USD per million"
    text = f"{_at(decision)}, with {decision.operating.arm}: {token}{prices}."
    old, new = (None if side is None else side.fleet for side in (baseline, speculative))
    if served is None or yearly is None or old is None or new is None:
        return text
    demand, unit = served[0], served[1].unit
    text += f" For {demand.tokens_per_day / 1e6:,.6g} million output tokens a day"
    if not yearly.value:
        return f"{text} both take {counted(old.gpus, unit)}, so nothing is saved a year."
    took = f"it takes {counted(new.gpus, unit)} instead of {old.gpus:,}"
    return f"{text} {took}: {year(yearly)}."


def _at(decision: Decision) -> str:
    where = at_load(decision.operating)
    return f"{where[0].upper()}{where[1:]} on {decision.traffic.name}"


def year(amount: SavedAmount) -> str:
    """Say what a year costs less or more, ``probably 12,300 USD a year less (95 %: 8,000 to
    16,000)``, with the interval in the direction of the word."""
    how, less = SURE.get(amount.word, "perhaps "), amount.value >= 0
    ends = ""
    if amount.low is not None and amount.high is not None:
        low, high = sorted((amount.low, amount.high))
        low, high = (low, high) if less else (-high, -low)
        ends = between(low, high, "{:,.0f}".format)
    interval = f" (95 %: {ends})" if ends else ""
    return f"{how}{abs(amount.value):,.0f} USD a year {'less' if less else 'more'}{interval}"


def from_to(row: DecisionCost) -> str:
    """Say what a token costs with both arms: ``0.451 instead of 0.520 USD per million output tokens
    at 16 at once``."""
    before, after = per_million(row.baseline), per_million(row.speculative)
    if UNKNOWN in (before, after):
        return "USD per million output tokens: unknown"
    if not row.decision.operating.drafts:
        return f"{before} USD per million output tokens at {row.load.text} without drafts"
    return f"{after} instead of {before} USD per million output tokens at {row.load.text}"


def with_and_without(row: DecisionCost) -> str:
    """Say what a million output tokens cost at the load that is spoken about, without drafts and with
    the arm that is named there, whether or not it is taken."""
    level, basis = row.decision.operating, row.basis
    before, after = per_million(row.baseline), per_million(row.speculative)
    if basis is None or before == UNKNOWN:
        return "What a million output tokens cost with drafts and without is not known."
    if not level.drafts:
        curve = {(x.load, x.arm): usd(x.usd_per_million_output_tokens) for x in row.curve}
        after = curve.get((level.stands_for or level.load, level.arm), UNKNOWN)
    return (
        f"A million output tokens cost {before} USD without drafts and "
        f"{'an unknown amount' if after == UNKNOWN else f'{after} USD'} with {level.arm} "
        f"{at_load(level)} on {traffic_short(row.decision)} ({short_usd(basis.usd_per_gpu_hour)} USD an hour for a {basis.unit})."
    )


def per_year(row: DecisionCost) -> str:
    """Say what is saved in a year: ``12,300 USD, 3 GPUs fewer: gain``; unknown without a demand or
    a price."""
    amount, saved, basis = row.usd_saved_per_year, row.gpus_saved, row.basis
    if amount is None or saved is None or basis is None:
        return UNKNOWN
    if not saved.value:
        return f"0 USD, as many {basis.unit}s: {amount.word}"
    fewer = "fewer" if saved.value > 0 else "more"
    told = basis.counted(round(abs(saved.value)))
    return f"{amount.value:,.0f} USD, {told} {fewer}: {amount.word}"


def paid_back(even: BreakEven) -> str:
    """Say when an investment is paid back, if the saving is as expected."""
    spent = f"{even.investment_usd:,.0f} USD"
    if even.hours is None:
        told = "" if even.tokens is None else ": the demand takes as much hardware either way"
        return f"{spent} are never paid back{told}"
    tokens = UNKNOWN if even.tokens is None else f"{even.tokens / 1e6:,.0f} million output tokens"
    return f"{spent} are paid back after {tokens}, or {even.hours:,.0f} hours"


def notes(rows: Sequence[DecisionCost]) -> tuple[str, ...]:
    """Return the bases of the costs, what cannot be told, what was left out, and whether no GPU was
    measured; each once."""
    excluded = dict.fromkeys(one.why for row in rows for one in row.decision.excluded)
    kinds = dict.fromkeys(one.decision.subject.evidence for one in rows)
    return (
        *dict.fromkeys(f"Basis: {one.basis.sentence}" for one in rows if one.basis),
        *dict.fromkeys(sentence for one in rows for sentence in one.missing),
        *(f"Left out: {why}" for why in list(excluded)[:_MOST_EXCLUDED]),
        *(f"{ORIGINS[x]}: this is no price of a GPU's work." for x in kinds if x in ORIGINS),
    )


# --- The arithmetic behind a cost, step by step, so that a reader can check it with a calculator.


_ARM_STEPS = (
    ("output tokens a second", "measured; with speculation: × what it is expected to gain"),
    ("tokens a paid hour", "output tok/s × 3,600 s × utilisation"),
    ("cost of a million output tokens", "1,000,000 / tokens a paid hour × USD/h charged"),
    ("the same over input; over all tokens",
     "spread over that kind alone: three views of one bill, never added"),
)  # fmt: skip


def steps(row: DecisionCost, terms: Terms) -> TextRows:
    """Return the steps from the price of an instance to what is saved, what is calculated, how, and with which
    numbers in each arm; none without a price."""
    header = ["step", "how", "baseline", "with speculation"]
    basis, sides = row.basis, (row.baseline, row.speculative)
    if basis is None:
        return header, []
    unit, gpu_hour = basis.unit, f"{basis.usd_per_gpu_hour:,.4f}"
    instance = f"{basis.usd_per_hour:,.2f} USD / {basis.gpus_per_instance} = {gpu_hour} USD/h"
    charged = f"{gpu_hour} × {basis.gpus_used} = {basis.usd_per_hour_charged:,.4f} USD/h"
    before, after = (_arm_steps(side, basis) for side in sides)
    saving = row.decision.saving
    told = UNKNOWN if saving is None else percent(saving.per_output_token)
    return header, [
        [f"price of one {unit}", f"USD per hour / {unit}s that it buys", instance, instance],
        [f"{unit}s charged", f"price of one {unit} × {unit}s behind the throughput", charged, charged],
        ["load", "where both arms run", row.load.text, row.load.text],
        *([what, how, old, new]
          for (what, how), old, new in zip(_ARM_STEPS, before, after, strict=True)),
        ["saved", "1 − cost with speculation / cost of the baseline", "", told],
        *([] if terms.demand is None else _fleet_steps(row, basis, terms.demand)),
    ]  # fmt: skip


def _arm_steps(side: ArmCost | None, basis: Basis) -> tuple[str, ...]:
    if side is None:
        return (UNKNOWN,) * len(_ARM_STEPS)
    rate = hourly = UNKNOWN
    if side.output_throughput is not None:
        paid = side.output_throughput * SECONDS_PER_HOUR * basis.utilisation
        rate, hourly = f"{side.output_throughput:,.2f}", f"{paid:,.0f}"
    views = _views(side)
    return (
        rate, f"{rate} × {SECONDS_PER_HOUR:,} × {basis.utilisation:.0%} = {hourly}",
        f"1,000,000 / {hourly} × {basis.usd_per_hour_charged:,.4f} = {views[0]} USD",
        f"{views[1]} and {views[2]} USD",
    )  # fmt: skip


def _views(side: ArmCost | None) -> list[str]:
    costs = (None,) * 3 if side is None or side.cost is None else vars(side.cost).values()
    return [usd(value) for value in costs]


def _fleet_steps(row: DecisionCost, basis: Basis, demand: Demand) -> list[list[str]]:
    busiest = (
        f"{demand.tokens_per_day:,.0f} / {SECONDS_PER_DAY:,} × {demand.peak_to_mean:g} = "
        f"{demand.tokens_per_second:,.1f} tok/s"
    )
    formula = "tokens a day / 86,400 s × peak to mean"
    unit, figures = basis.unit, []
    for side in (row.baseline, row.speculative):
        one = None if side is None else side.fleet
        figures.append([UNKNOWN] * 5 if one is None else [
            f"{one.replicas:,}", f"{one.busy:.0%}",
            f"{one.replicas:,} × {basis.gpus_used} = {one.gpus:,}",
            f"{one.usd_per_hour:,.2f} USD", f"{one.usd_per_year:,.0f} USD",
        ])  # fmt: skip
    names = (
        ("replicas", "demand at the busiest moment / output tok/s, rounded up"),
        ("busy", "mean demand / output tok/s of all replicas"),
        (f"{unit}s", f"replicas × {unit}s charged"),
        ("fleet an hour", f"{unit}s × price of one, or whole instances × their price"),
        ("fleet a year", "an hour × 24 × 365"),
    )
    yearly = row.usd_saved_per_year
    told = UNKNOWN if yearly is None else f"{yearly.value:,.0f} USD"
    return [
        ["demand at the busiest moment", formula, busiest, busiest],
        *(
            [what, how, old, new]
            for (what, how), old, new in zip(names, figures[0], figures[1], strict=True)
        ),
        ["saved a year", "fleet of the baseline − fleet with speculation", "", told],
    ]


# --- Costs as rows of text.


#: Whether a load keeps a service level, in words.
MET = {True: "meets it", False: "misses it", None: "not measured"}
#: What stands in front of a row.
_WHO = ["traffic", "model", "GPU", "TP", "at", "arm"]
_COUNTED = ["good requests", "goodput, req/s", "good output, tok/s"]


def costs(rows: Sequence[DecisionCost]) -> TextRows:
    """Return a row per decision: what output and all tokens cost with both arms, and what is
    saved."""
    header = [
        *_WHO, "USD per million output tokens: baseline", "with it", "of all tokens: baseline",
        "all tokens with it", "saved", "95 % interval", "how sure", "basis",
    ]  # fmt: skip
    lines = []
    for row in rows:
        saving, saved_of = row.decision.saving, [UNKNOWN] * 3
        if not row.decision.operating.drafts:
            saved_of = ["nothing", "", ""]
        elif saving is not None:
            ends = interval(saving.low, saving.high) or UNKNOWN
            saved_of = [percent(saving.per_output_token), ends, saving.word]
        old, new = _views(row.baseline), _views(row.speculative)
        basis = UNKNOWN if row.basis is None else row.basis.name
        lines.append([*_who(row), old[0], new[0], old[2], new[2], *saved_of, basis])
    return header, lines


def demands(rows: Sequence[DecisionCost]) -> TextRows:
    """Return a row per decision: whole replicas, GPUs and money for the demand, and how sure they
    are."""
    header = [
        *_WHO, "GPUs", "GPUs saved", "busy", "USD a month", "USD a year", "saved a year, USD",
        "95 % interval", "how sure",
    ]  # fmt: skip
    lines = []
    for row in rows:
        unit = "GPU" if row.basis is None else row.basis.unit
        # What is counted is named where it is no GPU.
        hardware = _change(row, lambda fleet: f"{fleet.gpus:,}")
        gpus_saved, yearly = row.gpus_saved, row.usd_saved_per_year
        ends = "" if yearly is None else between(yearly.low, yearly.high, "{:,.0f}".format)
        lines.append([
            *_who(row), hardware if unit == "GPU" else f"{hardware} {unit}s",
            UNKNOWN if gpus_saved is None else f"{gpus_saved.value:,.0f}",
            _change(row, lambda fleet: f"{fleet.busy:.0%}"),
            _change(row, lambda fleet: f"{fleet.usd_per_month:,.0f}"),
            _change(row, lambda fleet: f"{fleet.usd_per_year:,.0f}"),
            UNKNOWN if yearly is None else f"{yearly.value:,.0f}", ends or UNKNOWN,
            UNKNOWN if yearly is None else yearly.word,
        ])  # fmt: skip
    return header, lines


def break_evens(rows: Sequence[DecisionCost]) -> TextRows:
    """Return a row per decision whose investment is known: when it is paid back."""
    lines = [[*_who(row), paid_back(row.break_even)] for row in rows if row.break_even is not None]
    return [*_WHO, "break-even, if the saving is as expected"], lines


NO_POWER = "No power of GPUs was recorded at these loads: draftboard run records it where nvidia-ml-py is installed."
NO_CACHE = (
    "What fits into memory is unknown: no server told the size of its KV cache at these loads (vLLM says it in its "
    "metrics and in its log, which draftboard run keeps), or none the length of its requests (state yours)."
)
HOW_ENERGY = (
    "Joules of the GPUs alone during the load, without → with speculation, from their power as the driver gives it. Output "
    "per watt: how many more output tokens a joule makes; positive is better. Prefill and decode are told "
    "apart where datasets of one model differ enough in their lengths: joules = prompt tokens × prefill + decode steps × step."
)


def energies(rows: Sequence[DecisionCost]) -> TextRows:
    """Return a row per decision whose power was recorded: joules per token without and with speculation, of
    output tokens and of all, of prefill and decode apart where that is known, what a watt yields, and how
    long the GPUs were at the limit of their power."""
    header = [
        *_WHO, "J per output token", "J per token of all", "J per prompt token",
        "J per output token, decode alone", "output per watt", "W", "time at the power limit", "samples of power",
    ]  # fmt: skip
    lines = []
    for row in rows:
        if row.energy is not None:
            both = zip(*map(_energy_words, row.energy), strict=True)
            *joules, watts, limits, samples = map(" → ".join, both)
            told = [*joules, percent(row.gain_per_watt), watts, limits, samples]
            lines.append([*_who(row)[:-1], row.arm, *told])
    return header, lines


def _energy_words(one: ArmEnergy) -> tuple[str, ...]:
    joules = (
        one.joules_per_output_token,
        one.joules_per_token,
        one.joules_of_prefill,
        one.joules_of_decode,
    )
    of = "" if one.limit_watts is None else f" ({one.limit_watts:,.0f} W)"
    limited = UNKNOWN if one.share_at_limit is None else f"{one.share_at_limit:.0%}{of}"
    per_token = (UNKNOWN if each is None else f"{each:.3g}" for each in joules)
    return *per_token, f"{one.watts:,.0f}", limited, str(one.samples)


def rooms(rows: Sequence[DecisionCost]) -> Iterator[str]:
    """Yield a sentence for each arm whose server and whose baseline's told the size of their KV cache, on
    the first of the traffics that it serves; of several subjects with theirs."""
    seen, several = set(), len({row.decision.subject for row in rows}) > 1
    for row in rows:
        about, (_, model, gpu, size, *_) = row.decision.subject, _who(row)
        if row.memory is not None and (about, row.arm, row.memory.tokens) not in seen:
            seen.add((about, row.arm, row.memory.tokens))
            whose = f"{model} on {gpu}, TP {size}: " if several else ""
            yield f"{whose}{room(row.arm, row.memory)}"


def room(arm: str, memory: CacheRoom) -> str:
    """Say what the draft takes from the KV cache, which requests queue for it, and what that costs."""
    (old, new), fit = memory.tokens, memory.fit
    if new > old * (1 - LESS_CACHE):
        return f"{arm} takes no room from the KV cache that is worth telling: {new:,.0f} tokens, {old:,.0f} without."
    instead = "either way" if fit[0] == fit[1] else f"instead of {fit[0]:,}"
    text = (
        f"{arm} leaves {percent(1 - new / old, sign=False)} less room in the KV cache: {new:,.0f} tokens, "
        f"{old:,.0f} without; no request can be longer. Of requests of {memory.request_tokens:,.0f} tokens {fit[1]:,} "
        f"fit at once {instead} (computed): "
    )
    if fit[0] == 0:
        return f"{text}none fits either."
    if fit[0] == fit[1]:
        return f"{text}none has to wait for it."
    if fit[1] == 0:
        return f"{text}it serves none of them."
    if memory.worse_from is None and memory.throughput is None:
        return (
            f"{text}from {fit[1] + 1:,} on it queues what the baseline would still serve; what that costs is "
            f"unknown, since {memory.why_unknown}."
        )
    figures = "means between measured loads, without an interval"
    if memory.throughput is not None:
        ends, unit, digits = memory.throughput, "output tokens/s", 0
        if memory.usd_per_million is not None:
            ends, unit, digits = memory.usd_per_million, "USD per million output tokens", 3
        figures = f"{ends[1]:,.{digits}f} {unit} with it, {ends[0]:,.{digits}f} without, with {fit[0]:,} at once; {figures}"
    if memory.worse_from is None:
        return f"{text}from {fit[1] + 1:,} on it queues, and makes more all the same ({figures})."
    if memory.worse_from <= fit[1]:
        return f"{text}it makes less before any has to wait ({figures})."
    return f"{text}from {memory.worse_from:,} at once queueing costs more than the draft saves ({figures})."


def _who(row: DecisionCost) -> list[str]:
    about = row.decision.subject
    model = ", ".join(part for part in (known(about.model), about.configuration) if part)
    return [
        row.decision.traffic.name, model, known(about.gpu),
        known(about.tensor_parallel_size), row.load.text, arm_at(row.decision),
    ]  # fmt: skip


def _change(row: DecisionCost, figure: Callable[[Fleet], str]) -> str:
    fleets = [None if side is None else side.fleet for side in (row.baseline, row.speculative)]
    return " → ".join(UNKNOWN if fleet is None else figure(fleet) for fleet in fleets)


def arms(capacity: ServiceCapacity) -> TextRows:
    """Return a row per arm: how far it keeps the service level, what it yields and costs there."""
    counted = _COUNTED if capacity.counted else []
    header = [
        "setting", "arm", "largest load", "output tok/s", "USD per million output tokens",
        *counted, "why no more", "evidence",
    ]  # fmt: skip
    return header, [
        [
            arm.place.setting, arm.place.arm,
            "no load" if arm.reach.largest is None else arm.reach.largest.text,
            rounded(arm.output, 1), rounded(arm.usd, 3),
            *(_good(arm.at_largest) if counted else ()), arm.reach.sentence, arm.place.origin,
        ]
        for arm in capacity.arms
    ]  # fmt: skip


def loads(capacity: ServiceCapacity) -> TextRows:
    """Return a row per arm and load: whether it keeps the service level, and why not."""
    counted = _COUNTED if capacity.counted else []
    header = ["setting", "arm", "load", "in flight", "this load", "repeats that meet it", "why not"]
    return [*header, *counted], [
        [
            arm.place.setting, arm.place.arm, at.level.load.text, rounded(at.in_flight, 1),
            MET[at.level.met], f"{at.level.meeting} of {at.level.repeats}", why(at.level),
            *(_good(at) if counted else ()),
        ]
        for arm in capacity.arms
        for at in arm.loads
    ]  # fmt: skip


def _good(at: LoadService | None) -> tuple[str, ...]:
    if at is None:
        return (UNKNOWN,) * len(_COUNTED)
    share = UNKNOWN if at.good.good_share is None else f"{at.good.good_share:.1%}"
    return share, rounded(at.good.goodput, 2), rounded(at.good.good_output_throughput, 1)


def why(level: Level) -> str:
    """Say which bounds a load misses, and which were not measured there; empty where all hold."""
    told = (("misses", level.broken), ("not measured:", level.missing))
    return "; ".join(f"{how} {', '.join(bounds)}" for how, bounds in told if bounds)


def trade_points(points: Sequence[TradePoint]) -> TextRows:
    """Return a row per point of the trade between a GPU and a user."""
    header = [
        "arm", "load", "tok/s per user", "tok/s per GPU", "GPUs", "dominated by", "dataset",
        "evidence",
    ]  # fmt: skip
    return header, [
        [
            point.path, point.load.short, rounded(point.user, 1), rounded(point.gpu, 1),
            str(point.gpus), point.dominated_by or "none: on the front",
            known(point.place.dataset), point.place.origin,
        ]
        for point in points
    ]  # fmt: skip
