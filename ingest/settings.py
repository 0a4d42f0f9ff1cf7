"""``--set key=value``: what a bare report cannot say, checked against the contract."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from ingest.speculation import completed
from ingest.unreadable import belongs, shown
from warehouse.contract import FACT_KEYS, Facts
from warehouse.errors import UnknownKey

_OBJECTS = frozenset({"server_args", "engine_settings", "speculative_config"})


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return validated facts from ``key=value`` texts; the last one of a key wins.

    Raises UnknownKey with one sentence where a key is unknown or a value does not fit it.
    """
    given = dict(_split(pair) for pair in pairs)
    return checked_facts(completed({key: _value(key, text) for key, text in given.items()}))


def checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the same facts with the contract's types. Raises UnknownKey where one does not fit."""
    try:
        return Facts(**facts).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise UnknownKey(_sentence(error)) from None


def _split(pair: str) -> tuple[str, str]:
    key, equals, text = pair.partition("=")
    key = key.strip()
    if not equals:
        raise UnknownKey(f"--set {pair!r} has no '='; write it as --set key=value.")
    if key not in FACT_KEYS:
        raise UnknownKey(f"--set does not know the key {key!r}; {_nearest(key)}.")
    return key, text.strip()


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key.lower().replace("-", "_"), FACT_KEYS, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?".rstrip("?")
    return f"known keys are {', '.join(FACT_KEYS)}"


def _value(key: str, text: str) -> Any:
    """Parse the text of a key whose value is an object as JSON; leave every other text to the
    contract to convert."""
    if key not in _OBJECTS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise UnknownKey(f"--set {key} needs a JSON object, got {text!r}.") from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key, value = first["loc"][0] if first["loc"] else "facts", shown(first["input"])
    return f"--set {key}={value} does not fit the contract: {belongs(error)} belongs there."
