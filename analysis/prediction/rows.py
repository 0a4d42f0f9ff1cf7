"""Measured points as arrays: what the fits of a step's time and of a first token read."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """What a step's time depends on, one value a row: sequences in flight, draft tokens, tokens of
    a request, tokens that a step yields."""

    batch: Floats
    k: Floats
    prompt_tokens: Floats
    output_tokens: Floats
    length: Floats

    @property
    def tokens(self) -> Floats:
        """The tokens that a step verifies: those drafted and one more for each sequence."""
        return self.batch * (self.k + 1)

    def where(self, chosen: Mask | Numbers) -> "Rows":
        """Return the chosen rows, by whether or by number."""
        return Rows(*(values[chosen] for values in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Points:
    """What was measured, one value a row; times in ms, throughput in tokens/s."""

    dataset: NDArray[np.object_]
    concurrency: Floats
    k: Floats
    repeats: Floats
    batch: Floats
    length: Floats
    step: Floats
    itl: Floats
    ttft: Floats
    output_throughput: Floats
    prompt_tokens: Floats
    output_tokens: Floats

    def __len__(self) -> int:
        return len(self.k)

    @property
    def rows(self) -> Rows:
        """What the fits read of the points."""
        return Rows(self.batch, self.k, self.prompt_tokens, self.output_tokens, self.length)

    def where(self, chosen: Mask | Numbers) -> "Points":
        """Return the chosen points."""
        return Points(*(values[chosen] for values in vars(self).values()))

    def of(self, dataset: str) -> "Points":
        """Return the points of one dataset."""
        return self.where(self.dataset == dataset)


def points_of(frame: pd.DataFrame) -> Points:
    """Return the frame of ``load_points.of_family`` as arrays."""
    known = frame.rename(columns={"achieved_concurrency": "batch"})
    names = [name for name in Points.__annotations__ if name != "dataset"]
    return Points(
        known["dataset"].to_numpy(dtype=object),
        *(known[name].to_numpy(dtype=np.float64) for name in names),
    )


@dataclass(frozen=True, eq=False)
class Positions:
    """Draft tokens accepted at a position and drafts that reached it, one value a row."""

    dataset: NDArray[np.object_]
    concurrency: Floats
    k: Floats
    position: NDArray[np.int64]
    accepted: Floats
    reached: Floats

    def where(self, chosen: Mask | Numbers) -> "Positions":
        """Return the chosen rows."""
        return Positions(*(values[chosen] for values in vars(self).values()))


def positions_of(frame: pd.DataFrame) -> Positions:
    """Return the frame of ``acceptance_tables.position_counts`` as arrays."""
    numbers = {
        name: frame[name].to_numpy(dtype=np.float64)
        for name in ("concurrency", "k", "accepted", "reached")
    }
    return Positions(
        frame["dataset"].to_numpy(dtype=object),
        position=frame["position"].to_numpy(dtype=np.int64),
        **numbers,
    )
