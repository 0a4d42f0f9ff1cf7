"""The loads of a study: requests at once, requests a second, a trace, or all that a server takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from warehouse.loads import Load, load_of

# --- What all parts of a study have in common.


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


class StudyPart(BaseModel):
    """The base of every part of a study: unknown keys are refused, nothing changes after
    reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def unique(what: str, values: list[Any]) -> None:
    """Raise ValueError where a value stands twice."""
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{what} named twice: {', '.join(twice)}")


# --- The loads of a study: requests at once, requests a second, a trace, or all that a server takes.


#: Nobody's server takes more: a rate beyond it is a slip of the pen.
_MOST = 10_000
Rate = Annotated[float, Field(gt=0, le=_MOST)]
#: In the words of GuideLLM's strategies.
Profile = Literal["concurrent", "constant", "poisson", "trace", "throughput", "sweep"]


class Loads(StudyPart):
    """What a study asks of its servers, level by level."""

    concurrent: list[Positive] = Field(default=[], description="So many requests at once")
    constant: list[Rate] = Field(default=[], description="So many a second, evenly spaced")
    poisson: list[Rate] = Field(default=[], description="So many a second on average, at random")
    sweep: Annotated[int, Field(ge=1, le=50)] | None = Field(
        default=None,
        description="So many constant rates, from what the baseline serves one by one to all that "
        "it can serve; found on the baseline, then the same for every arm",
    )
    replay: str | None = Field(
        default=None, min_length=1, description="File of a trace, relative to the study"
    )
    speed: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=1.0, description="How much faster than it was recorded a trace is replayed"
    )
    throughput: bool = Field(default=False, description="As fast as the server takes them")
    seconds: Seconds | None = Field(
        default=None,
        description="How long rates are offered, instead of prompts_per_level; and how much of a "
        "trace is replayed",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unique("concurrency levels", self.concurrent)
        unique("constant rates", self.constant)
        unique("Poisson rates", self.poisson)
        if not self.levels():
            raise ValueError("no load is named; write concurrent, constant, poisson, replay …")
        if self.speed != 1 and self.replay is None:
            raise ValueError("speed belongs to a trace: name one under replay")
        if self.seconds is not None and not (self.constant or self.poisson or self.replay):
            raise ValueError("seconds belongs to constant, poisson or replay; here is none of them")
        return self

    def levels(self, found: Sequence[float] = ()) -> tuple["LoadLevel", ...]:
        """Return the levels in the order in which they are measured; ``found``: the rates of the
        sweep."""
        sweep = [found[at] if at < len(found) else None for at in range(self.sweep or 0)]
        trace = LoadLevel("trace", None, self.replay, self.speed, self.seconds)
        return (
            *(LoadLevel("concurrent", n) for n in self.concurrent),
            *(LoadLevel("constant", rate, seconds=self.seconds) for rate in self.constant),
            *(LoadLevel("poisson", rate, seconds=self.seconds) for rate in self.poisson),
            *(LoadLevel("constant", rate, place=at) for at, rate in enumerate(sweep, start=1)),
            *([trace] if self.replay is not None else []),
            *([LoadLevel("throughput")] if self.throughput else []),
        )


@dataclass(frozen=True)
class LoadLevel:
    """One load point. ``value``: requests at once, or a second; None where it is neither, or is the
    rate of a sweep that did not run yet."""

    profile: Profile
    value: float | None = None
    #: The file, as the study names it.
    trace: str | None = None
    speed: float = 1.0
    seconds: float | None = None
    #: Of a sweep's rate, from 1.
    place: int | None = None

    @property
    def name(self) -> str:
        """A short name for the level, different for each level of a study: it is part of a path."""
        if self.profile == "concurrent":
            return f"c{self.value:g}"
        if self.profile == "trace":
            fast = "" if self.speed == 1 else f"-{self.speed:g}x"
            return f"trace-{Path(self.trace or '').stem}{fast}"
        if self.place is not None:
            return f"sweep{self.place}"
        return self.profile if self.value is None else f"{self.profile}{self.value:g}"

    @property
    def at_once(self) -> int | None:
        """The requests in flight, where the load holds them at a number; else None."""
        return int(self.value) if self.profile == "concurrent" and self.value else None

    @property
    def rate(self) -> float | None:
        """The requests offered a second; None where the load is no rate, or its rate not yet
        known."""
        return self.value if self.profile in ("constant", "poisson") else None

    @property
    def as_load(self) -> Load | None:
        """The load in the words of the warehouse; None for a rate that is not yet known."""
        return load_of(self.profile, self.at_once, self.rate, self.replayed_as)

    @property
    def replayed_as(self) -> str | None:
        """The name of the trace and how fast it was replayed, as a record has it."""
        if self.trace is None:
            return None
        cut = "" if self.seconds is None else f", first {self.seconds:g} s"
        return Path(self.trace).name + ("" if self.speed == 1 else f" at {self.speed:g}x") + cut

    @property
    def words(self) -> str:
        """The load as a sentence says it."""
        if self.profile == "concurrent":
            return f"concurrency {self.value:g}"
        if self.profile == "trace":
            return f"trace {self.replayed_as}"
        if self.profile in ("throughput", "sweep"):
            return "all at once"
        known = f"rate {self.place} of the sweep" if self.value is None else f"{self.value:g}/s"
        return f"{known}{' Poisson' if self.profile == 'poisson' else ''}"

    @property
    def requests(self) -> int | None:
        """How many requests the level's ``seconds`` hold at its rate; None where it lacks
        either."""
        if self.rate is None or self.seconds is None:
            return None
        return max(1, math.ceil(self.rate * self.seconds))


#: Finds the rates of a sweep on the baseline; its requests are no cell.
SWEEP = LoadLevel("sweep")
