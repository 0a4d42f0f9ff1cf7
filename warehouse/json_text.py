"""Answers as JSON: the one place where a value becomes its text."""

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any


def finite(value: Any) -> Any:
    """Return the value with None for every number in it that JSON has no word for: a bound that lies
    beyond all numbers, and what is not a number."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def json_text(value: Any, indent: int | None = None, plain: bool = True) -> str:
    """Return the value as JSON. ``plain``: only in ASCII, so that a terminal can show it as it is; of
    a kind that JSON does not know it holds the text."""
    return json.dumps(
        finite(value), allow_nan=False, default=str, indent=indent, ensure_ascii=plain
    )


# --- Characters that do something where a text is shown, and show nothing: what is read would not be what
#
# is stored, and a terminal would do what a name tells it to.


#: Those of a terminal; ends of lines; what turns the text around it, is seen by nobody or marks others.
_DOING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
CONTROL = re.compile(f"[\n{_DOING}]")
_BUT_LINES = re.compile(f"[{_DOING}]")


def single_line(text: str) -> str:
    """Return a text without them, nor an end of a line: a newline would forge one."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def for_terminal(text: str) -> str:
    """Return a text of several lines as a terminal may have it."""
    return _BUT_LINES.sub("\N{REPLACEMENT CHARACTER}", text)
