"""Answers as bytes between two Draftboards of one version, typed as they were (MessagePack).

The client of ``draftboard.open("https://…")`` has by it the same values as whoever opens the files.
"""

from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
from pydantic import BaseModel

from answers.doors import rows
from answers.doors.about import About
from warehouse.errors import InvalidInput

#: The media type of values.
MEDIA: Literal["application/vnd.draftboard.values"] = "application/vnd.draftboard.values"
#: Headers of an answer: the generation that it comes from; where a copy answers, the sentence that says
#: so, percent-encoded.
GENERATION, NOT_FRESH = "Draftboard-Generation", "Draftboard-Not-Fresh"
Value = TypeVar("Value")


def encoded(found: object) -> bytes:
    """Return the value of an answer as bytes; of a table its rows."""
    value = found.value if isinstance(found, About) else found
    if isinstance(value, pa.Table):
        value = list(map(rows.nested_json, value.to_pylist()))
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def decoded(told: bytes, kind: type[Value]) -> Value:
    """Return the value. Raises InvalidInput for one of another version."""
    try:
        return msgspec.msgpack.decode(told, type=kind, dec_hook=_typed)
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
