"""A search as JSON: a contract, described in ``docs/tuning.md``. Unknown is null."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from answers.search.live import Order
from answers.search.values import Played

SCHEMA_VERSION = 1


def as_json(found: Sequence[Played], orders: Sequence[Order] = ()) -> dict[str, Any]:
    """Return ``schema_version``, ``searches`` and, of one that measures, the launches to measure
    ``next`` as a dict for JSON; names and meanings only ever grow."""
    return {
        "schema_version": SCHEMA_VERSION, "searches": [_search(one) for one in found],
        "next": [
            {
                "launch": one.launch_id, "arm": one.arm, "datasets": one.datasets,
                "loads": one.loads, "minutes": one.step.minutes, "why": one.step.why,
            }
            for one in orders
        ],
    }  # fmt: skip


def _search(one: Played) -> dict[str, Any]:
    agreeing = [{"agrees": place.agrees} for place in one.found]
    told = asdict(one)
    return told | {"found": [x | y for x, y in zip(told["found"], agreeing, strict=True)]}
