"""Costs as JSON: a contract, described in ``docs/cost.md``. Unknown is null."""

from dataclasses import asdict
from typing import Any

from answers.cost.values import Amount, Costs, Money, Point, Side

SCHEMA_VERSION = 1


def as_json(found: Costs) -> dict[str, Any]:
    """``schema_version`` and ``costs``; names and meanings only ever grow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "headline": found.headline,
        "costs": [money_json(one) for one in found.rows],
        "notes": list(found.notes),
        "why_none": found.why_none,
    }


def money_json(one: Money) -> dict[str, Any]:
    """One decision's money as plain values."""
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
        "loads": [_point(point) for point in one.curve],
        "headline": one.headline,
        "missing": list(one.missing),
    }


def _side(side: Side | None) -> dict[str, Any] | None:
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


def _amount(amount: Amount | None) -> dict[str, Any] | None:
    return None if amount is None else asdict(amount)


def _point(point: Point) -> dict[str, Any]:
    return {**asdict(point), "load": point.load.as_json()}
