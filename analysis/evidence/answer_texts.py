"""What the text of an answer says of it: whether it repeats itself, whether it is JSON.

A model that has lost its way says one block over and over until it is cut off. Programs, tables and JSON look
alike line after line, but their lines seldom are the same, and something closes them: so the end of the text is
looked at, and only exact repetition counts.
"""

import re
import zlib
from typing import Any

import msgspec

#: How much smaller zlib makes a text that repeats itself: OpenAI's Whisper gives an answer up above this
#: (``compression_ratio_threshold``). Short texts, such as 10000000, never come so far.
_SMALLER = 2.4
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s(.*?)```", re.DOTALL)


def repeats(text: str) -> bool:
    """Return whether the text ends in one block said over and over: its last half or its last quarter is
    one block at least three times (the last time perhaps cut off), and zlib makes it 2.4 times smaller."""
    text = text.strip()
    data = text.encode("utf-8", "replace")
    return any(_is_one_block(text[-(len(text) // part) :]) for part in (2, 4)) and (
        len(data) > _SMALLER * len(zlib.compress(data))
    )


def _is_one_block(end: str) -> bool:
    # A text is a block of n characters, three times or more, where two thirds of it stand there once more n later.
    size = end.find(end[: len(end) - len(end) // 3], 1)
    return size > 0 and end.startswith(end[size:])


def is_json(text: str) -> bool:
    """Return whether the answer is a JSON object or array: what follows its reasoning, or what stands in its
    fences; of calls of tools, whether each has a name and arguments."""
    text = text.rpartition("</think>")[2].strip()
    if calls := _CALL.findall(text):
        return all(_is_call(_read(one)) for one in calls)
    alone = _read(text.removeprefix("```json").removesuffix("```"))
    return alone is not None or None not in (list(map(_read, _FENCED.findall(text))) or [None])


def _read(text: str) -> Any:
    """Return the JSON object or array that this is, else None."""
    try:
        return msgspec.json.decode(text) if text.lstrip().startswith(("{", "[")) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _is_call(value: Any) -> bool:
    said: Any = value.get("function", value) if isinstance(value, dict) else None
    named = isinstance(said, dict) and said.get("name")
    given = said.get("arguments", said.get("parameters")) if named else None
    return isinstance(_read(given) if isinstance(given, str) else given, dict)
