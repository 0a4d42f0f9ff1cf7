"""Decisions as JSON: a contract, described in ``docs/decisions.md``. Unknown is null."""

from dataclasses import asdict
from typing import Any

from answers.decide.values import Decision, Decisions, Level, Saving, Served

SCHEMA_VERSION = 1


def as_json(found: Decisions) -> dict[str, Any]:
    """Return ``schema_version`` and ``decisions`` as a dict for JSON; names and meanings only ever
    grow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "decisions": [decision_json(one) for one in found.decisions],
        "why_none": found.why_none,
    }


def decision_json(one: Decision) -> dict[str, Any]:
    """Return one decision as a dict for JSON."""
    mix = dict(one.traffic.mix)
    return {
        **asdict(one.subject),
        "traffic": {"mix": mix} if mix else {"dataset": one.traffic.dataset},
        "objective": one.objective,
        "arm": one.arm,
        "method": one.method,
        "num_speculative_tokens": one.num_speculative_tokens,
        "k_kind": one.k_kind,
        "answer": one.answer,
        "operating_load": one.operating_load.as_json(),
        "operating": _level(one.operating),
        "loads": [_level(level) for level in one.levels],
        "num_speculative_tokens_per_batch_size": None
        if one.table is None
        else [list(entry) for entry in one.table],
        "at_stake": one.at_stake,
        "rivals": list(one.rivals),
        "settle": [
            {"load": s.load.as_json(), "arm": s.arm, "launches": s.launches, "rival": s.rival}
            for s in one.settle
        ],
        "against": [
            {"load": a.load.as_json(), "arm": a.arm, **asdict(a.difference), "sentence": a.sentence}
            for a in one.against
        ],
        "excluded": [asdict(cell) for cell in one.excluded],
        "saving": None if one.saving is None else _saving(one.saving),
        "forgone": [asdict(part) for part in one.forgone],
        "doubts": list(one.doubts),
        "speculative_config": one.config,
        "serve": one.serve,
        "headline": one.headline,
        "paragraph": one.paragraph,
    }


def _level(level: Level) -> dict[str, Any]:
    return {
        "load": level.load.as_json(),
        **asdict(level.difference),
        "arm": level.arm,
        "num_speculative_tokens": level.num_speculative_tokens,
        "launches": level.launches,
        "stands_for": None if level.stands_for is None else level.stands_for.as_json(),
        "served": None if level.served is None else _served(level.served),
    }


def _served(one: Served) -> dict[str, Any]:
    told = {} if one.difference is None else asdict(one.difference)
    return {
        "arm": one.arm, "num_speculative_tokens": one.num_speculative_tokens,
        "launches": one.launches, **told,
    }  # fmt: skip


def _saving(saving: Saving) -> dict[str, Any]:
    return {**asdict(saving), "load": saving.load.as_json()}
