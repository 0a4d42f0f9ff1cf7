"""What money says in sentences: what a token costs, what a year saves, and what is not known."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS
from analysis.money.cost import Basis, BreakEven, Demand
from answers.cost.capacity import ArmPlace, ServiceCapacity, UserGpuTrade
from answers.cost.values import ArmCost, Costs, DecisionCost, SavedAmount
from answers.decide.values import Decision
from answers.decide.words import at_load, left_on, saved
from answers.wording import ORIGINS, UNKNOWN, between

# --- Costs as JSON: a contract, described in ``docs/cost.md``. Unknown is null.


SCHEMA_VERSION = 1


def as_json(found: Costs) -> dict[str, Any]:
    """Return ``schema_version`` and ``costs`` as a dict for JSON; names and meanings only ever
    grow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "headline": found.headline,
        "costs": [money_json(one) for one in found.rows],
        "notes": list(found.notes),
        "why_none": found.why_none,
    }


def money_json(one: DecisionCost) -> dict[str, Any]:
    """Return one decision's money as a dict for JSON."""
    decision, saving = one.decision, one.saving
    mix = dict(decision.traffic.mix)
    return {
        **asdict(decision.subject),
        "traffic": {"mix": mix} if mix else {"dataset": decision.traffic.dataset},
        "load": None if one.load is None else one.load.as_json(),
        "arm": one.arm,
        "num_speculative_tokens": one.num_speculative_tokens,
        "basis": None if one.basis is None else one.basis.as_json(),
        "baseline": _side(one.baseline),
        "speculative": _side(one.speculative),
        "saving": None if saving is None else {**asdict(saving), "load": saving.load.as_json()},
        "usd_saved_per_million_output_tokens": _amount(one.usd_saved_per_million),
        "gpus_saved": _amount(one.gpus_saved),
        "usd_saved_per_year": _amount(one.usd_saved_per_year),
        "break_even": None if one.break_even is None else one.break_even.as_json(),
        "loads": [{**asdict(point), "load": point.load.as_json()} for point in one.curve],
        "headline": one.headline,
        "missing": list(one.missing),
    }


def _side(side: ArmCost | None) -> dict[str, Any] | None:
    if side is None:
        return None
    costs = {} if side.cost is None else side.cost.as_json()
    return {
        "output_throughput": side.output_throughput,
        "total_throughput": side.total_throughput,
        "usd_per_million_output_tokens": costs.get("usd_per_million_output_tokens"),
        "usd_per_million_input_tokens": costs.get("usd_per_million_input_tokens"),
        "usd_per_million_total_tokens": costs.get("usd_per_million_total_tokens"),
        "fleet": None if side.fleet is None else side.fleet.as_json(),
        "joules_per_output_token": side.joules_per_output_token,
    }


def _amount(amount: SavedAmount | None) -> dict[str, Any] | None:
    return None if amount is None else asdict(amount)


def capacity_json(found: ServiceCapacity) -> dict[str, Any]:
    """Return every arm's largest load under a service level, and each of its loads."""
    return {
        "slo": found.slo.text,
        "arms": [
            {
                **_place(arm.place),
                "largest_load": None if arm.reach.largest is None else arm.reach.largest.as_json(),
                "sentence": arm.reach.sentence,
                "levels": [
                    {
                        **vars(at.level), "load": at.level.load.as_json(),
                        "achieved_concurrency": at.in_flight, **vars(at.good),
                    }
                    for at in arm.loads
                ],
            }
            for arm in found.arms
        ],
    }  # fmt: skip


def trade_json(found: UserGpuTrade, front: bool = False) -> dict[str, Any]:
    """Return every point, or those of the ``front`` alone; ``group`` numbers those that compete."""
    return {
        "points": [
            {
                "group": number, **_place(point.place), "gpus": point.gpus,
                "load": point.load.as_json(), "repeats": point.repeats,
                "tokens_per_second_per_user": point.user,
                "tokens_per_second_per_gpu": point.gpu,
                "dominated": point.dominated_by is not None, "dominated_by": point.dominated_by,
            }
            for number, group in enumerate(found.groups)
            for point in group
            if not (front and point.dominated_by)
        ],
        "left_out": found.left_out,
    }  # fmt: skip


def _place(place: ArmPlace) -> dict[str, Any]:
    return {
        "arm_label": place.label, "model": place.model, "dataset": place.dataset,
        "gpu": place.on.gpu, "tensor_parallel_size": place.on.tensor_parallel_size,
        "precision": place.precision, "evidence": place.evidence,
        "comparable_as": place.comparable_as,
    }  # fmt: skip


# --- What money says in sentences: what a token costs, what a year saves, and what is not known.


#: A demand, and what is paid for the hardware that serves it.
Served = tuple[Demand, Basis]
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
    priced = None if side is None else side.cost
    return usd(None if priced is None else priced.usd_per_million_output_tokens)


def keeps_up(decision: Decision) -> bool:
    """Whether the operating load is a rate that both arms serve in full."""
    level = decision.operating
    if not level.load.is_rate:
        return False
    return not level.difference.metric.endswith("throughput")


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
        return " ".join(filter(None, (
            f"{_at(decision)} drafting nothing is best, so nothing is saved.",
            left_on(level.difference),
        )))  # fmt: skip
    if decision.saving is None:
        return (
            f"{_at(decision)} the arms are judged by another metric "
            "than output throughput, so no saving is said."
        )
    return None


def headline(
    decision: Decision,
    baseline: ArmCost | None,
    speculative: ArmCost | None,
    yearly: SavedAmount | None,
    served: Served | None,
) -> str:
    """Say what the decision's arm saves at its operating load, for each token and in a year."""
    level, saving = decision.operating, decision.saving
    if saving is None:
        return missing(decision) or NOTHING
    said = saved(saving).removesuffix(".")
    before, after = per_million(baseline), per_million(speculative)
    prices = "" if UNKNOWN in (before, after) else f": {before} → {after} USD per million"
    told = f"{_at(decision)}, with {level.arm}: {said}{prices}."
    return f"{told}{_year(baseline, speculative, yearly, served)}"


def _at(decision: Decision) -> str:
    where = at_load(decision.operating)
    return f"{where[0].upper()}{where[1:]} on {decision.traffic.name}"


def _year(
    baseline: ArmCost | None,
    speculative: ArmCost | None,
    yearly: SavedAmount | None,
    served: Served | None,
) -> str:
    old, new = (None if side is None else side.fleet for side in (baseline, speculative))
    if served is None or yearly is None or old is None or new is None:
        return ""
    demand, basis = served
    asked = f" For {demand.tokens_per_day / 1e6:,.6g} million output tokens a day"
    if not yearly.value:
        return f"{asked} both take {gpus(old.gpus, basis.unit)}, so nothing is saved a year."
    took = f"it takes {gpus(new.gpus, basis.unit)} instead of {old.gpus:,}"
    return f"{asked} {took}: {year(yearly)}."


def year(amount: SavedAmount) -> str:
    """Say what a year costs less or more, ``probably 12,300 USD a year less (95 %: 8,000 to
    16,000)``, with the interval in the direction of the word."""
    sure = {GAIN: "", LOSS: "", LIKELY_GAIN: "probably ", LIKELY_LOSS: "probably "}
    how = sure.get(amount.word, "perhaps ")
    direction = "less" if amount.value >= 0 else "more"
    return f"{how}{abs(amount.value):,.0f} USD a year {direction}{_ends(amount)}"


def _ends(amount: SavedAmount) -> str:
    if amount.low is None or amount.high is None:
        return ""
    low, high = sorted((amount.low, amount.high))
    low, high = (low, high) if amount.value >= 0 else (-high, -low)
    ends = between(low, high, "{:,.0f}".format)
    return ends and f" (95 %: {ends})"


def gpus(count: int, unit: str = "GPU") -> str:
    """Return a count of what is paid for: ``1 GPU``, ``12 GPUs``, ``3 CPU machines``."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def from_to(row: DecisionCost) -> str:
    """Say what a token costs with both arms: ``0.451 instead of 0.520 USD per million output tokens
    at 16 at once``."""
    before, after = per_million(row.baseline), per_million(row.speculative)
    if row.load is None or UNKNOWN in (before, after):
        return "USD per million output tokens: unknown"
    return f"{after} instead of {before} USD per million output tokens at {row.load.text}"


def per_year(row: DecisionCost) -> str:
    """Say what is saved in a year: ``12,300 USD, 3 GPUs fewer: gain``; unknown without a demand or
    a price."""
    amount, saved, basis = row.usd_saved_per_year, row.gpus_saved, row.basis
    if amount is None or saved is None or basis is None:
        return UNKNOWN
    if not saved.value:
        return f"0 USD, as many {basis.unit}s: {amount.word}"
    fewer = "fewer" if saved.value > 0 else "more"
    told = gpus(round(abs(saved.value)), basis.unit)
    return f"{amount.value:,.0f} USD, {told} {fewer}: {amount.word}"


def paid_back(found: BreakEven) -> str:
    """Say when an investment is paid back, if the saving is as expected."""
    spent = f"{found.investment_usd:,.0f} USD"
    if found.hours is None:
        told = "" if found.tokens is None else ": the demand takes as much hardware either way"
        return f"{spent} are never paid back{told}"
    tokens = UNKNOWN if found.tokens is None else f"{found.tokens / 1e6:,.0f} million output tokens"
    return f"{spent} are paid back after {tokens}, or {found.hours:,.0f} hours"


def title(rows: Sequence[DecisionCost]) -> str:
    """Return the headline of the first decision, which stands above all costs."""
    return rows[0].headline if rows else NOTHING


def notes(rows: Sequence[DecisionCost]) -> Iterator[str]:
    """Yield the bases of the costs, what cannot be told, what was left out, and whether no GPU was
    measured; each once."""
    yield from dict.fromkeys(f"Basis: {one.basis.sentence}" for one in rows if one.basis)
    yield from dict.fromkeys(sentence for one in rows for sentence in one.missing)
    excluded = dict.fromkeys(one.why for row in rows for one in row.decision.excluded)
    yield from (f"Left out: {why}" for why in list(excluded)[:_MOST_EXCLUDED])
    kinds = dict.fromkeys(one.decision.subject.evidence for one in rows)
    for kind in kinds:
        if kind in ORIGINS:
            yield f"{ORIGINS[kind]}: this is no price of a GPU's work."
