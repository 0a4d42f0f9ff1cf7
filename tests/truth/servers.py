"""Servers with known laws: what a study of them measures, noise included, and what is true."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.prediction.rows import Floats, Mask, Points, Positions

DATASET = "code"
DRAFTS = 2_000
#: Levels of a study by their number; one of the inner ones will be withheld.
GRIDS: dict[int, tuple[tuple[int, ...], ...]] = {
    4: ((1, 4, 16, 64), (1, 8, 32, 64), (2, 8, 32, 128), (1, 2, 4, 8)),
    5: ((1, 4, 8, 16, 64), (1, 4, 16, 64, 128), (2, 8, 16, 32, 64)),
    6: ((1, 2, 4, 8, 16, 32), (1, 4, 8, 16, 32, 64), (2, 4, 8, 16, 64, 128)),
    7: ((1, 2, 4, 8, 16, 32, 64), (1, 2, 8, 16, 32, 64, 128)),
}
KS = ((0, 1, 3), (0, 1, 2, 3), (0, 1, 3, 5), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5), (0, 2, 3, 5))


def _linear(x: Floats) -> Floats:
    return np.maximum(x, 1)


def _smooth(x: Floats) -> Floats:
    return 1 + np.logaddexp(0, 3 * (x - 1)) / 3


def _quadratic(x: Floats) -> Floats:
    """A parabola up to four times the bend, then straight on."""
    return np.where(x < 4, 1 + x**2 / 4, 5 + 2 * (x - 4))


def _experts(x: Floats) -> Floats:
    """A mixture of experts: more are read the more tokens there are, then computing takes over."""
    return 1 + 1.5 * (1 - np.exp(-2 * x)) + x / 6


#: How a step's time bends over tokens in flight / those of the bend. The model knows the first.
BENDS: dict[str, Callable[[Floats], Floats]] = {
    "flat, then linear": _linear,
    "smooth bend": _smooth,
    "quadratic bend": _quadratic,
    "mixture of experts": _experts,
}


@dataclass(frozen=True)
class Study:
    """``points``: every cell, those of the next load and of the next K too; ``itl``, ``step`` and
    ``ttft``: the true ones of each (ms); ``noise``: standard deviation of one cell's logarithm."""

    points: Points
    positions: Positions
    itl: Floats
    step: Floats
    ttft: Floats
    loads: tuple[int, ...]
    ks: tuple[int, ...]
    noise: float

    def only(self, chosen: Mask) -> tuple[Points, Positions]:
        """What is known where only some cells were measured."""
        points, counted = self.points.where(chosen), self.positions
        cells = set(zip(points.k.tolist(), points.concurrency.tolist(), strict=True))
        pairs = zip(counted.k.tolist(), counted.concurrency.tolist(), strict=True)
        return points, counted.where(np.array([pair in cells for pair in pairs]))


def study(chance: np.random.Generator, bend: str, launch: float = 0.0) -> Study:
    """A study of a random server. ``launch``: standard deviation of what all cells of one server
    start share."""
    grids = GRIDS[int(chance.integers(4, 8))]
    loads, ks = grids[chance.integers(len(grids))], KS[chance.integers(len(KS))]
    every = np.meshgrid([*loads, 2 * loads[-1]], [*ks, ks[-1] + 1], indexing="ij")
    load, k = (values.ravel().astype(np.float64) for values in every)
    length, positions = _accepted(chance, load, k)
    flat = float(np.exp(chance.uniform(np.log(3), np.log(30))))
    scale = float(np.exp(chance.uniform(np.log(16), np.log(256))))
    verifying = flat * BENDS[bend](load * (k + 1) / scale)
    step = verifying + flat * chance.uniform(0.02, 0.12) * k
    wait = flat * (1 + chance.uniform(0, 2) + chance.uniform(0, 0.03) * load) + verifying / 2
    noise = float(chance.uniform(0.02, 0.10))
    repeats = int(chance.integers(1, 4))
    spread = noise / np.sqrt(repeats)
    shared = chance.normal(0, launch / np.sqrt(repeats), len(every[0][0]))
    luck = np.exp(chance.normal(0, spread, len(k)) + np.tile(shared, len(loads) + 1))
    itl = step / length[0]
    ttft = wait * np.exp(chance.normal(0, spread, len(k)))
    points = _points((load, k, length[1]), (itl * luck, ttft), chance, repeats)
    return Study(points, positions, itl, step, wait, loads, ks, noise)


def _points(
    at: tuple[Floats, Floats, Floats],
    times: tuple[Floats, Floats],
    chance: np.random.Generator,
    repeats: int,
) -> Points:
    (load, k, length), (itl, ttft) = at, times
    ones = np.ones(len(k))
    output, prompt = chance.choice([64, 128, 256]) * ones, chance.choice([100, 1000]) * ones
    latency = (ttft + (output - 1) * itl) / 1000
    return Points(
        dataset=np.full(len(k), DATASET, dtype=object), concurrency=load, k=k, repeats=repeats * ones,
        batch=load, length=length, step=itl * length, itl=itl, ttft=ttft,
        output_throughput=load * output / latency, prompt_tokens=prompt, output_tokens=output,
    )  # fmt: skip


def _accepted(
    chance: np.random.Generator, load: Floats, k: Floats
) -> tuple[tuple[Floats, Floats], Positions]:
    """True and counted tokens of a step in each cell, and the counts by position."""
    first, decay = chance.uniform(0.35, 0.9), chance.uniform(0.93, 1.0)
    rates = np.cumprod(first * decay ** np.arange(8))
    cell = np.repeat(np.arange(len(k)), k.astype(int))
    position = np.concatenate([np.arange(int(one)) for one in k])
    kept = chance.normal(rates[position], np.sqrt(rates[position] * (1 - rates[position]) / DRAFTS))
    kept = np.clip(kept, 0.001, 1)
    before = np.where(position == 0, 1.0, np.roll(kept, 1))
    counted = Positions(
        np.full(len(cell), DATASET, dtype=object), load[cell], k[cell],
        position + 1, DRAFTS * kept, DRAFTS * before,
    )  # fmt: skip
    sums = [np.bincount(cell, values, len(k)) for values in (rates[position], kept)]
    return (1 + sums[0], 1 + sums[1]), counted
