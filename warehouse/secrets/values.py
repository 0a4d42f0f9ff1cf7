"""Takes credentials out of JSON values at any depth, by the names under which they stand."""

from collections.abc import Mapping
from typing import Any

from warehouse.errors import InvalidInput
from warehouse.secrets.shapes import (
    REMOVED,
    is_none,
    is_variable,
    looks_random,
    may_be_written,
    secrecy,
)
from warehouse.secrets.texts import scrub_text

#: No record and no configuration is nested so deep.
_DEEPEST = 100
#: Names of what holds environment variables only, and of what may hold them beside other things.
_VARIABLES = frozenset(
    {"env", "envs", "environ", "env_vars", "envvars", "variables", "environment_variables"}
)
_MIXED = frozenset({"environment"})
_NAMES, _VALUE = ("name", "key", "variable"), "value"
_BEGIN, _END = "-----BEGIN", "-----END"


def scrub(value: Any) -> Any:
    """Return the same value without credentials; dictionaries and lists are copied, never changed.

    Of environment variables only those stay that are known to change what is measured. Raises
    InvalidInput for a value that is nested absurdly deep.
    """
    return _scrub(value, "", 0)


def _scrub(value: Any, holder: str, depth: int) -> Any:
    if isinstance(value, str):
        return _variable(value, holder)
    if depth > _DEEPEST:
        raise InvalidInput(
            f"It is nested deeper than {_DEEPEST} levels: it is no record and no report of a run."
        )
    if isinstance(value, Mapping):
        return _scrub_dict(value, holder, depth)
    if isinstance(value, list | tuple):
        scrubbed = _scrub_list(list(value), holder, depth)
        return tuple(scrubbed) if isinstance(value, tuple) else scrubbed
    return value


def _variable(text: str, holder: str) -> str:
    """Return ``NAME=value``, from a list of environment variables, without a value that may not be
    written down; any other text without credentials."""
    name, equals, _ = text.partition("=")
    if equals and holder in _VARIABLES and is_variable(name) and not may_be_written(name):
        return f"{name}={REMOVED}"
    return scrub_text(text)


def _scrub_dict(value: Mapping[Any, Any], holder: str, depth: int) -> dict[Any, Any]:
    named = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    found = {}
    for key, member in value.items():
        name = named if named is not None and key == _VALUE else key
        clean = scrub_text(key) if isinstance(key, str) else key
        found[clean] = _member(str(name), member, holder, depth)
    return found


def _member(name: str, member: Any, holder: str, depth: int) -> Any:
    if _is_secret(name, member) or (_is_unlisted(name, holder) and _is_said(member)):
        return REMOVED
    return _scrub(member, name.lower(), depth + 1)


def _is_said(member: Any) -> bool:
    return isinstance(member, str | int | float) and not isinstance(member, bool) and member != ""


def _is_unlisted(name: str, holder: str) -> bool:
    """Return whether this is an environment variable that may not be written down."""
    mixed = holder in _MIXED and "_" in name.strip("_")
    return (holder in _VARIABLES or mixed) and is_variable(name) and not may_be_written(name)


def _is_secret(name: str, member: Any) -> bool:
    sure = secrecy(name)
    if sure is None or member is None or isinstance(member, bool):
        return False
    if isinstance(member, int | float):
        # A number under a token's name counts tokens.
        return sure == "certain" and not name.lower().endswith("token")
    if isinstance(member, str):
        return not is_none(member) and (sure == "certain" or looks_random(member))
    return sure == "certain" and bool(member)


def _scrub_list(value: list[Any], holder: str, depth: int) -> list[Any]:
    scrubbed = [_scrub(member, holder, depth + 1) for member in value]
    for place in range(1, len(value)):
        if isinstance(value[place], str) and _follows(value, place):
            scrubbed[place] = REMOVED
    return _unarmoured(value, scrubbed)


def _follows(words: list[Any], place: int) -> bool:
    """Return whether a word is a credential because of the words of its command line before it."""
    said = [word for word in words[max(0, place - 4) : place] if isinstance(word, str)]
    if not said or len(said[-1]) > 256:
        return False
    before, word = said[-1], words[place]
    if len(words) == 2 and is_variable(before) and "_" in before:
        return _is_secret(before, word)  # a pair of name and value
    several = any(one.startswith("-") and one.lower().endswith("key") for one in said)
    if not before.startswith("-") and before not in ("login", "is") and not several:
        return False
    line = " ".join((*(one[:256] for one in said), word))
    return scrub_text(line).endswith(REMOVED) and not scrub_text(word).endswith(REMOVED)


def _unarmoured(value: list[Any], scrubbed: list[Any]) -> list[Any]:
    """Replace the lines of a private key in a list in which each line is a member."""
    inside = False
    for place, member in enumerate(value):
        if not isinstance(member, str):
            continue
        inside = inside and _END not in member and _may_be_of_a_key(member)
        if inside:
            scrubbed[place] = REMOVED
        if _BEGIN in member and "PRIVATE KEY" in member:
            inside = _END not in member
    return scrubbed


def _may_be_of_a_key(line: str) -> bool:
    return " " not in line.strip() or line.startswith(("Proc-Type", "DEK-Info"))
