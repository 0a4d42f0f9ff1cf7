"""Measured points as arrays: what the fits of a step's time and of a first token read."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.intp]

_TYPES = {"dataset": object, "position": np.int64}


@dataclass(frozen=True, eq=False)
class Columns:
    """Arrays of one length, one value a row."""

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> Self:
        names = (field.name for field in fields(cls))
        return cls(*(frame[name].to_numpy(dtype=_TYPES.get(name, np.float64)) for name in names))

    def where(self, chosen: Mask | Numbers) -> Self:
        """Return the chosen rows, by whether or by number."""
        return type(self)(*(values[chosen] for values in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Rows(Columns):
    """What a step's time depends on: sequences in flight, draft tokens, tokens of a request, tokens
    that a step yields."""

    batch: Floats
    k: Floats
    prompt_tokens: Floats
    output_tokens: Floats
    length: Floats

    @property
    def tokens(self) -> Floats:
        """The tokens that a step verifies: those drafted and one more for each sequence."""
        return self.batch * (self.k + 1)


@dataclass(frozen=True, eq=False)
class Points(Rows):
    """What was measured; times in ms, throughput in tokens/s."""

    dataset: NDArray[np.object_]
    concurrency: Floats
    repeats: Floats
    step: Floats
    itl: Floats
    ttft: Floats
    output_throughput: Floats

    def __len__(self) -> int:
        return len(self.k)

    @property
    def latency(self) -> Floats:
        """The time of a request, ms."""
        return self.ttft + (self.output_tokens - 1) * self.itl

    @property
    def pace(self) -> Floats:
        """The time of a request by the steps that its tokens need, ms: a step with its share of the
        wait for the first token."""
        return self.latency * self.length / self.output_tokens

    def of(self, dataset: str) -> "Points":
        return self.where(self.dataset == dataset)


def points_of(frame: pd.DataFrame) -> Points:
    """Return the frame of ``load_points.of_family`` as arrays."""
    return Points.of_frame(frame.rename(columns={"achieved_concurrency": "batch"}))


@dataclass(frozen=True, eq=False)
class Positions(Columns):
    """Draft tokens accepted at a position and drafts that reached it, of the frame of
    ``acceptance_tables.position_counts``."""

    dataset: NDArray[np.object_]
    concurrency: Floats
    k: Floats
    position: NDArray[np.int64]
    accepted: Floats
    reached: Floats
