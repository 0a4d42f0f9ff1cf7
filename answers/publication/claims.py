"""What a published set claims: the decisions that its numbers come to, as JSON."""

import json
from collections.abc import Iterator
from typing import Any

from answers.decide import contract as decide_contract
from answers.decide.answer import decide
from answers.decide.values import Question
from warehouse.json_text import json_text
from warehouse.store import Reader

Json = dict[str, Any]
_CLOSE = 1e-9
_FIRST = 20


def claims_json(reader: Reader) -> Json:
    """Return the decisions on everything that the warehouse holds."""
    told = {"decide": decide_contract.as_json(decide(reader, Question()))}
    plain: Json = json.loads(json_text(told))
    return plain


def contradictions(reader: Reader, claimed: str) -> tuple[str, ...]:
    """Return a sentence for each place at which claims (JSON text) differ from what the warehouse's
    numbers come to."""
    found = list(_apart("", json.loads(claimed), claims_json(reader)))
    more = [f"{len(found) - _FIRST:,} more claims do not follow."] if len(found) > _FIRST else []
    return (*found[:_FIRST], *more)


def _apart(place: str, claimed: Any, again: Any) -> Iterator[str]:
    if isinstance(claimed, dict) and isinstance(again, dict):
        for name in {**claimed, **again}:
            yield from _apart(f"{place}.{name}".lstrip("."), claimed.get(name), again.get(name))
    elif isinstance(claimed, list) and isinstance(again, list) and len(claimed) == len(again):
        for index, pair in enumerate(zip(claimed, again, strict=True)):
            yield from _apart(f"{place}[{index}]", *pair)
    elif not _same(claimed, again):
        yield f"claims.json says {place} = {_short(claimed)}, and the set comes to {_short(again)}."


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _CLOSE * max(abs(one), abs(other))
    return bool(one == other)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"
