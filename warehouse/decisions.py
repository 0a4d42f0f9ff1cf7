"""The decisions that were recorded, kept beside the results: what was said last is what counts.

One file in the warehouse's folder, one JSON object a line, only ever added to. A decision is derived
and could be made again from the results; what was decided on a day cannot.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from warehouse import lines

FILE = "decisions.jsonl"


@dataclass(frozen=True)
class About:
    """What a decision is about; the engine's version is not part of it, since it moves on.
    ``traffic`` in words."""

    study: str | None
    model: str | None
    gpu: str | None
    engine: str | None
    tensor_parallel_size: int | None
    evidence: str | None
    traffic: str
    objective: str
    configuration: str | None = None


@dataclass(frozen=True)
class Recorded:
    """A decision as it was recorded at a moment (UTC). ``loads``: each load with its word;
    ``gain``: the improvement at the operating load (ratio)."""

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    about: About
    engine_version: str | None
    answer: str
    arm: str
    table: tuple[tuple[int, int, int], ...] | None
    loads: tuple[tuple[str, str], ...]
    operating_load: str | None
    gain: float | None


def record(root: Path, made: tuple[Recorded, ...]) -> None:
    """Write decisions behind the others; raises what ``lines.append`` raises."""
    lines.append(root, FILE, b"".join(msgspec.json.encode(one) + b"\n" for one in made))


def last(root: Path) -> tuple[Recorded, ...]:
    """Return the last decision about each subject; a line that is only half written is passed
    over."""
    return tuple({one.about: one for one in lines.read(root / FILE, Recorded)}.values())
