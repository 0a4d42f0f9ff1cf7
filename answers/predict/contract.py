"""Forecasts as JSON. Unknown is null."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from analysis.money.paying import Refusal
from answers.predict.values import Answer, Cost, Place, Refused


def as_json(found: Sequence[Answer | Refused]) -> dict[str, Any]:
    """Return ``forecasts``, and ``refused`` with the reason of each, as a dict for JSON."""
    return {
        "forecasts": [_answer(one) for one in found if isinstance(one, Answer)],
        "refused": [
            {**_place(one.place), "reason": one.reason} for one in found if isinstance(one, Refused)
        ],
    }


def _place(place: Place) -> dict[str, Any]:
    facts = asdict(place)
    del facts["system"]  # A number of this one answer.
    return facts


def _answer(found: Answer) -> dict[str, Any]:
    asked = {"k": found.asked.k, "concurrency": found.asked.load}
    now = {figure.metric: figure.predicted for figure in found.figures}
    before = {figure.metric: figure.baseline for figure in found.figures}
    return {
        **_place(found.place),
        "headline": found.headline,
        "prediction": asked | now | {
            "mean_length": found.mean_length, "warnings": list(found.warnings),
        },
        "bands": {"level": found.level} | {
            figure.metric: None if figure.low is None else [figure.low, figure.high]
            for figure in found.figures
        },
        "baseline": None if before["output_throughput"] is None else before,
        "improvements": {figure.metric: figure.improvement for figure in found.figures},
        "break_even_length": found.break_even_length,
        "fit": {
            "residual": found.residual, "worst_residual": found.worst_residual,
            "laws": [asdict(law) for law in found.laws],
        },
        "leave_one_out": [asdict(check) for check in found.checks],
        "withheld": [
            asdict(one) | {"error": one.error, "held": one.held} for one in found.withheld
        ],
        "trust": list(found.trust),
        "cost": _cost(found.cost) if isinstance(found.cost, Cost) else None,
        "no_cost": found.cost.sentence if isinstance(found.cost, Refusal) else None,
    }  # fmt: skip


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "basis": cost.basis.as_json(),
        "usd_per_million_output_tokens": {"predicted": cost.predicted, "baseline": cost.baseline},
    }
