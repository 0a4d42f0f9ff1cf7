"""Costs as JSON: a contract, described in ``docs/cost.md``. Unknown is null."""

from dataclasses import asdict
from typing import Any

from answers.cost.capacity import Capacity
from answers.cost.places import Place
from answers.cost.trade import Trade
from answers.cost.values import Amount, Costs, Money, Side

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


def money_json(one: Money) -> dict[str, Any]:
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


def capacity_json(found: Capacity) -> dict[str, Any]:
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


def trade_json(found: Trade, front: bool = False) -> dict[str, Any]:
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


def _place(place: Place) -> dict[str, Any]:
    return {
        "arm_label": place.label, "model": place.model, "dataset": place.dataset,
        "gpu": place.on.gpu, "tensor_parallel_size": place.on.tensor_parallel_size,
        "precision": place.precision, "evidence": place.evidence,
        "comparable_as": place.comparable_as,
    }  # fmt: skip
