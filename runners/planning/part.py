"""What all parts of a study have in common."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=80,
        description="Letters, digits, dot, dash and underscore: it becomes a folder name",
    ),
]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Part(BaseModel):
    """The base of every part of a study: unknown keys are refused, nothing changes after
    reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def unique(what: str, values: list[Any]) -> None:
    """Raise ValueError where a value stands twice."""
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{what} named twice: {', '.join(twice)}")
