"""The loads of a study: requests at once, requests a second, a trace, or all that a server takes."""

import csv
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from warehouse.errors import StudyError
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


# --- The datasets of a study: where prompts come from, what of them is used, and in which parts.


class Hub(StudyPart):
    """A dataset of the Hugging Face hub."""

    id: str = Field(min_length=1)
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    file: str | None = Field(
        default=None, description="One file of the repository, where it has no loader"
    )


class Generator(StudyPart):
    """Prompts that the project makes itself."""

    kind: Literal["code", "structured", "prose"]
    min_chars: Positive = 150
    max_chars: Positive = 320


class Filter(StudyPart):
    """Which rows of a dataset are used."""

    min_chars: Positive | None = None
    max_chars: Positive | None = None
    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Columns that must equal a value"
    )


class Sessions(StudyPart):
    """Conversations in which a turn waits for the server's answer to the one before it."""

    turns: Annotated[int, Field(ge=2)] = Field(
        description="So many turns of a user; conversations with fewer are left out"
    )
    think_time_s: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="At least so long after an answer the next turn is sent"
    )


#: What a text of a dataset is: a prompt, messages that are one request, or what a user says in one session.
TextForm = Literal["prompt", "conversation", "session"]


class Dataset(StudyPart):
    """Where the prompts come from, and what of the study they are used for."""

    name: Name
    hub: Hub | None = None
    file: str | None = Field(
        default=None, description="Local JSONL, CSV or Parquet, relative to the study"
    )
    generator: Generator | None = None
    field: str = Field(default="prompt", description="Column or dotted path: conversations.0.value")
    conversations: bool = Field(
        default=False,
        description="The field is a list of messages: each turn of a user is sent with all before it",
    )
    sessions: Sessions | None = Field(
        default=None,
        description="Each conversation is a session: its turns wait for the server's own answers",
    )
    filter: Filter = Filter()
    prompts_per_level: Positive | dict[Positive, Positive] = Field(
        default=100, description="Prompts of each concurrency level, one number or one per level"
    )
    shuffle_seed: int = 0
    arms: list[Name] | None = Field(default=None, description="Arms to run on it; all if left out")
    tensor_parallel_sizes: list[Positive] | None = None
    concurrency: list[Positive] | None = None
    load: Loads | None = Field(default=None, description="Instead of the study's own")
    max_tokens: Positive | None = Field(default=None, description="Instead of the request's own")
    reuse: bool = Field(
        default=False, description="Prompts are sent again where there are too few of them"
    )
    categories: list[str] = Field(
        default=[], description="Measured each by itself: values of category_field"
    )
    category_field: str = "category"
    category: str | None = Field(
        default=None,
        description="Column that tells the kind of each prompt, of one run over all kinds",
    )
    length_bins: list[Positive] = Field(
        default=[], description="Prompts by length, each bin by itself: its most characters"
    )
    prompt_tokens: list[Positive] = Field(
        default=[],
        description="Prompts cut and filled to each length by itself, in tokens of the model",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [s for s in ("hub", "file", "generator") if getattr(self, s) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of hub, file and generator")
        if self.concurrency is not None and self.load is not None:
            raise ValueError("give concurrency or load, not both")
        unique("categories", self.categories)
        unique("concurrency levels", self.concurrency or [])
        if self.conversations and self.generator is not None:
            raise ValueError("a generator makes single prompts; leave conversations out")
        if self.sessions and (self.conversations or self.category):
            raise ValueError("sessions stand alone: leave conversations and category out")
        for name in ("categories", "category"):
            if self.generator is not None and getattr(self, name) not in ([], None):
                raise ValueError(f"the rows of a generator have no categories; leave {name} out")
        if self.category is not None and self.categories:
            raise ValueError(
                "categories are measured apart, category tells them apart in one run: give one"
            )
        if self.length_bins != sorted(set(self.length_bins)):
            raise ValueError("length_bins must rise: the most characters of each bin")
        return self

    @property
    def form(self) -> TextForm:
        """What each of its texts is."""
        return "session" if self.sessions else "conversation" if self.conversations else "prompt"

    @property
    def turns(self) -> int:
        """How many requests a text makes."""
        return self.sessions.turns if self.sessions else 1

    def parts(self, prompt_tokens: Sequence[int] = ()) -> tuple["Dataset", ...]:
        """Return the datasets that are measured: this one, or one for each category and length.
        ``prompt_tokens``: the study's lengths, where the dataset has none of its own."""
        parts, lengths = self._by_kind(), self.prompt_tokens or prompt_tokens
        if not lengths:
            return parts
        return tuple(
            part.model_copy(update={"name": f"{part.name}-{tokens}t", "prompt_tokens": [tokens]})
            for part in parts
            for tokens in lengths
        )

    def _by_kind(self) -> tuple["Dataset", ...]:
        parts: list[Dataset] = []
        for value in self.categories:
            where = {**self.filter.where, self.category_field: value}
            parts.append(self._part(re.sub(r"[^A-Za-z0-9._-]+", "_", value), {"where": where}))
        parts = parts or [self]
        edges = list(zip([0, *self.length_bins], self.length_bins, strict=False))
        return tuple(
            part._part(f"{most}c", {"min_chars": above + 1, "max_chars": most})
            for part in parts
            for above, most in edges
        ) or tuple(parts)

    def _part(self, suffix: str, kept: Mapping[str, Any]) -> "Dataset":
        own: dict[str, Any] = {"name": f"{self.name}-{suffix}", "categories": [], "length_bins": []}
        own["filter"] = self.filter.model_copy(update=kept)
        if self.generator is not None and "max_chars" in kept:
            own["generator"] = self.generator.model_copy(update=kept)
        return self.model_copy(update=own)

    def prompts_at(self, level: LoadLevel) -> int:
        """Return how many prompts a level sends that is no trace, which brings its own number.

        KeyError where the dataset has a number for each concurrency and none for this level.
        """
        if level.requests is not None:
            return level.requests
        if isinstance(self.prompts_per_level, int):
            return self.prompts_per_level
        return self.prompts_per_level[level.at_once or 0]


# --- Traces: when requests came, and how long they and their answers were.
#
# Read are BurstGPT's CSV (``Timestamp`` in seconds, ``Request tokens``, ``Response tokens``), Mooncake's
# JSONL (``timestamp`` in milliseconds, ``input_length``, ``output_length``, ``hash_ids``), and JSONL of
# one's own with ``timestamp`` in seconds. Texts are in none of them: prompts come from a dataset.


_MOST_BYTES = 1 << 30
#: A stillness that is this share of a trace and this long (s) is said: nothing is measured in it.
_GAP_SHARE, _GAP_S = 0.1, 60.0
_TIMES = ("timestamp", "relative_timestamp", "Timestamp")


@dataclass(frozen=True)
class Arrival:
    """One request of a trace: seconds after the first, and tokens where the trace says them."""

    at: float
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Trace:
    """Arrivals in their order, as they are replayed."""

    #: The first digits of the file's sha256.
    digest: str
    arrivals: tuple[Arrival, ...]

    @property
    def lasts_s(self) -> float:
        """The seconds from the first request to the last."""
        return self.arrivals[-1].at

    @property
    def gap(self) -> tuple[float, float] | None:
        """Start and length (s) of the longest time without requests, where it is a large part of
        the trace."""
        times = [arrival.at for arrival in self.arrivals]
        widest = max(itertools.pairwise(times), key=lambda two: two[1] - two[0], default=(0.0, 0.0))
        length = widest[1] - widest[0]
        large = length >= _GAP_S and length >= _GAP_SHARE * self.lasts_s
        return (widest[0], length) if large else None


def replayed(path: Path, speed: float = 1.0, seconds: float | None = None) -> Trace:
    """Return the trace in a file, ``speed`` times as fast; only what comes in its first ``seconds``
    then.

    Raises StudyError where it cannot be read, or holds times that nobody can replay.
    """
    try:
        told = path.stat()
    except OSError:
        raise StudyError(
            f"There is no trace {path}; a path in a study is relative to the study file."
        ) from None
    if told.st_size > _MOST_BYTES:
        raise StudyError(f"The trace {path.name} is larger than 1 GB; cut out the part to replay.")
    whole = _read(path, told.st_mtime_ns, told.st_size)
    fast = (Arrival(a.at / speed, a.input_tokens, a.output_tokens) for a in whole.arrivals)
    return Trace(whole.digest, tuple(a for a in fast if seconds is None or a.at < seconds))


@lru_cache(maxsize=8)
def _read(path: Path, modified: int, size: int) -> Trace:
    """Read a file once as long as it does not change."""
    name = path.name
    try:
        data = path.read_bytes()
        rows = list(_rows(path, data.decode("utf-8-sig")))
    except (OSError, ValueError, csv.Error) as error:
        raise StudyError(f"The trace {name} cannot be read: {error}.") from None
    if not rows:
        raise StudyError(f"The trace {name} has no requests.")
    unit, arrivals = 0.001 if "hash_ids" in rows[0][1] else 1.0, list[Arrival]()
    for line, row in rows:
        at = _number(next((row[key] for key in _TIMES if key in row), None))
        if at is None:
            raise StudyError(
                f"The trace {name} has no time on line {line}; each request needs a timestamp, as "
                "BurstGPT's and Mooncake's files have."
            )
        if at < 0:
            raise StudyError(f"The trace {name} has the negative time {at:g} on line {line}.")
        at *= unit
        if arrivals and at < arrivals[-1].at:
            raise StudyError(
                f"The trace {name} goes back in time on line {line}: {at:g} s after "
                f"{arrivals[-1].at:g} s; sort it by its times."
            )
        tokens = (
            _tokens(name, line, row, keys)
            for keys in (("input_length", "Request tokens"), ("output_length", "Response tokens"))
        )
        arrivals.append(Arrival(at, *tokens))
    start = arrivals[0].at
    moved = tuple(Arrival(a.at - start, a.input_tokens, a.output_tokens) for a in arrivals)
    return Trace(hashlib.sha256(data).hexdigest()[:8], moved)


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".csv":
        for row in (reader := csv.DictReader(text.splitlines())):
            yield reader.line_num, dict(row)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object")
            yield number, row


def _tokens(name: str, line: int, row: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    stated = next((row[key] for key in keys if key in row), None)
    if stated is None:
        return None
    count = _number(stated)
    if count is None or count < 0 or count != int(count):
        raise StudyError(
            f"The trace {name} has {stated!r} tokens on line {line}; that is no count."
        )
    return int(count)


def _number(stated: Any) -> float | None:
    """Return a number, also one that stands in a CSV as text; None for anything else."""
    try:
        number = math.nan if isinstance(stated, bool) else float(stated)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
