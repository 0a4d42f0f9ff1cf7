"""Credentials known by their own look, from the rows of ``shapes.toml``.

All patterns are RE2's, whose time grows with the length of a text and no faster, whatever it holds.
"""

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

import re2

from warehouse.secrets.words import REMOVED

#: What ends an address, or a value that no quotes enclose.
END = r"\s\"'<>\\"

#: What is left of a colour in a log.
COLOUR = r"\[[0-9;]{1,12}m"
#: A letter as logs, addresses and JSON in JSON spell it: ``\\n``, ``\\u0026``, ``%3D``.
_LETTER = r"\\+(?:[nrtbf]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|%(?:25)*[0-9A-Fa-f]{2}"
_ESCAPED = f"{COLOUR}|{_LETTER}"


def scrub_shapes(text: str) -> str:
    """Return the text without credentials that show themselves, and without secret addresses."""
    if not _any().search(text):
        return text
    text = _addresses().sub(rf"\1{REMOVED}", text)
    text = _tokens().sub(rf"\1{REMOVED}", text)
    return str(_tokens_with_digit().sub(_removed_with_digit, text))


@cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(resources.files(__package__).joinpath("shapes.toml").read_text("utf-8"))


@cache
def _any() -> Any:
    """Return a pattern of how credentials of all shapes begin: a text without any needs no closer
    look."""
    starts = [re.escape(start) for row in _rows()["token"] for start in row["starts"]]
    written = [row["pattern"] for row in _rows()["written"]]
    return re2.compile("|".join([*starts, *written, f"(?i:{_known_addresses()})"]))


@cache
def _tokens() -> Any:
    written = [row["pattern"] for row in _rows()["written"]]
    plain = [_token(row) for row in _rows()["token"] if not row.get("digit")]
    return _alone([*plain, *written])


@cache
def _tokens_with_digit() -> Any:
    return _alone([_token(row) for row in _rows()["token"] if row.get("digit")])


def _alone(patterns: list[str]) -> Any:
    """Return the patterns as one that does not match in the middle of a word: ``task-…`` is no
    ``sk-…``. A file name may join by ``_``, and what an escape ends is no word."""
    return re2.compile(rf"(^|[^A-Za-z0-9]|{_ESCAPED})({'|'.join(patterns)})")


def _token(row: dict[str, Any]) -> str:
    starts = "|".join(re.escape(start) for start in row["starts"])
    return f"(?:{starts})[{row['letters']}]{{{row['least']},}}"


def _removed_with_digit(found: Any) -> str:
    has_digit = any(letter.isdigit() for letter in found[2])
    return found[1] + REMOVED if has_digit else str(found[0])


@cache
def _addresses() -> Any:
    return re2.compile(rf"(?i)((?:^|[^a-z]|{_ESCAPED})(?:{_known_addresses()}))(?:[^{END}]|\\+/)+")


def _known_addresses() -> str:
    """Return a pattern of the addresses that hold a credential; a slash may be written as %2F, or
    escaped as JSON allows."""
    behind = (words for row in _rows()["address"] for words in row["behind"])
    return "|".join(re.escape(words).replace("/", r"(?:\\*/|%2[Ff])") for words in behind)
