"""Answers as rows of a table: one row per line of the answer, nested names with a dot; and as bytes
between two Draftboards of one version, typed as they were (MessagePack).

By the bytes the client of ``draftboard.open("https://…")`` has the same values as whoever opens the
files.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
from pydantic import BaseModel

from warehouse.errors import InvalidInput

Row = dict[str, Any]
Value = TypeVar("Value")
#: Columns of the warehouse that hold JSON as text.
_NESTED = (
    "commands", "environment", "settings", "report_config", "server_args", "speculative_config",
)  # fmt: skip
#: The media type of values.
MEDIA: Literal["application/vnd.draftboard.values"] = "application/vnd.draftboard.values"
#: Headers of an answer: the generation that it comes from; where a copy answers, the sentence that says
#: so, percent-encoded.
GENERATION, NOT_FRESH = "Draftboard-Generation", "Draftboard-Not-Fresh"


def nested_json(row: Mapping[str, Any]) -> Row:
    """Return a run or a cell with its commands, environment … as JSON values instead of texts."""
    return {**row} | {name: json.loads(row[name]) for name in _NESTED if row.get(name)}


def of(name: str) -> Callable[[Row], Iterator[Row]]:
    """Return a function that gives the rows of one list of an answer."""
    return lambda answer: iter(answer[name])


def compared(answer: Row) -> Iterator[Row]:
    """Give a row per setting, arm, load and metric."""
    for setting in answer["settings"]:
        for arm in setting["arms"]:
            for level in arm["levels"]:
                about = _without_lists(setting) | {"arm": arm["arm"]}
                yield about | {"arm_value" if k == "arm" else k: v for k, v in level.items()}


def decided(answer: Row) -> Iterator[Row]:
    """Give a row per decision and load."""
    for decision in answer["decisions"]:
        for level in decision["loads"]:
            yield _without_lists(decision) | {"level": level}


def _without_lists(row: Row) -> Row:
    return {name: value for name, value in row.items() if not isinstance(value, list)}


def encoded(value: object) -> bytes:
    """Return the value of an answer as bytes; of a table its rows."""
    if isinstance(value, pa.Table):
        value = list(map(nested_json, value.to_pylist()))
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def decoded(sent: bytes, kind: type[Value]) -> Value:
    """Return the value. Raises InvalidInput for one of another version."""
    try:
        return msgspec.msgpack.decode(sent, type=kind, dec_hook=_typed)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"The server answers in values of another version ({error}); install the same version "
            "of Draftboard here, or ask its /api/v1 for JSON."
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    raise NotImplementedError(f"{type(value).__name__} is no value of an answer.")


def _typed(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, BaseModel):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind.__name__} is no value of an answer.")
