"""A comparison as JSON. Unknown is null."""

from dataclasses import asdict
from typing import Any

from answers.compare.values import Arm, Change, Comparison
from warehouse.loads import Load

SCHEMA_VERSION = 1


def as_json(found: Comparison) -> dict[str, Any]:
    """Return ``schema_version``, ``settings`` with their arms, ``unmatched`` and ``excluded``
    cells, as a dict for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "reference": found.reference,
        "settings": [
            {
                "name": setting.name,
                **asdict(setting.subject),
                "dataset": setting.dataset,
                "arms": [_arm(arm) for arm in setting.arms],
            }
            for setting in found.settings
        ],
        "unmatched": [asdict(cell) for cell in found.unmatched],
        "excluded": [asdict(cell) for cell in found.excluded],
        "why_none": found.why_none,
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "badges": list(arm.badges),
        "levels": [_change(change) for change in arm.changes],
        "means": [asdict(mean) for mean in arm.means],
        "pairs": [asdict(pair) | {"load": _load(pair.load)} for pair in arm.pairs],
        "allowed": list(arm.allowed),
        "flags": [asdict(doubt) for doubt in arm.doubts],
    }


def _change(change: Change) -> dict[str, Any]:
    told = asdict(change)
    baseline, arm = told.pop("reference"), told.pop("arm")
    cells = dict(zip(("reference", "arm"), told.pop("cells"), strict=True))
    return told | {
        "load": _load(change.load),
        "reference": baseline["mean"],
        "arm": arm["mean"],
        "cells": cells,
    }


def _load(load: Load | None) -> dict[str, Any] | None:
    return None if load is None else load.as_json()
