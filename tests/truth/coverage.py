"""How often the plain 95 % intervals hold the truth, at each load and for the mean over loads."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from analysis.evidence.effects import Effects, effects
from analysis.matching.comparison import compare
from tests.truth.frames import Frames, cell_rows
from tests.truth.row import Row, share
from tests.truth.studies import Drawn, Family, Floats, alike, drawn
from warehouse.catalogue import METRICS, STATISTICS

LOW, HIGH = 0.92, 0.985
GAIN = 0.1
#: Statistics treat each line (metric and statistic) of a study apart, so each is a trial of its own.
LINES: tuple[tuple[str, str], ...] = tuple(
    (metric, statistic)
    for metric in ("ttft", "itl", "tpot", "chunk_gap", "request_latency")
    for statistic in STATISTICS
) + (("output_throughput", "mean"), ("total_throughput", "mean"), ("request_throughput", "mean"))
#: Name -> noise at the first and the last load, launch effect, drift from a launch to the next.
CHANCE: dict[str, tuple[tuple[float, float], float, float]] = {
    "5 %": ((0.05, 0.05), 0.0, 0.0),
    "10 to 2 %": ((0.10, 0.02), 0.0, 0.0),
    "2 %, launch 6 %": ((0.02, 0.02), 0.06, 0.0),
    "10 to 2 %, launch 6 %": ((0.10, 0.02), 0.06, 0.0),
    "5 %, launch 3 %, drift": ((0.05, 0.05), 0.03, 0.002),
}


#: Arms with the baseline, repeats, loads.
SHAPES: tuple[tuple[int, int, int], ...] = (
    (2, 2, 3), (2, 3, 6), (2, 5, 3), (3, 4, 4), (4, 2, 6), (4, 3, 3), (4, 3, 6), (5, 4, 5),
    (7, 2, 6), (7, 3, 3),
)  # fmt: skip


def families() -> Iterator[Family]:
    """Every shape with every kind of chance."""
    for (arms, repeats, loads), (name, chance) in product(SHAPES, CHANCE.items()):
        noise, launch, drift = chance
        told = f"{arms} arms, R {repeats}, {loads} loads, {name}"
        yield Family(told, alike(GAIN, arms, loads), repeats, noise, launch, drift)


def rows(trials: int) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials)]


def rows_of(family: Family, trials: int) -> list[Row]:
    """Intervals of the first arm; of loads that differ in noise, the noisiest alone too."""
    found = judged(drawn(family, -(-trials // len(LINES)) * len(LINES)))
    held = _held(found.levels, family).reshape(-1, len(family.loads))
    means = _held(found.means, family)
    told = [("levels", held.mean()), ("means", means.mean())]
    if family.noise[0] != family.noise[1]:
        told.insert(1, ("noisiest level", held[:, 0].mean()))
    count = len(means)
    return [
        share(family.name, f"coverage, {w}", round(x * count), count, HIGH, LOW) for w, x in told
    ]


def judged(trials: Drawn) -> Effects:
    """All intervals of the trials."""
    found = line_frames(trials)
    return effects(compare(found.cells, found.measurements), found.cells)


def line_frames(trials: Drawn) -> Frames:
    """Trials, a multiple of the number of lines, as the lines of a few studies."""
    studies = len(trials.speed) // len(LINES)
    rows = cell_rows(trials.some(slice(0, studies)), 0)
    lines = []
    for place, (metric, statistic) in enumerate(LINES):
        mine = trials.speed[place :: len(LINES)]
        sign = 1.0 if METRICS[metric].better == "higher" else -1.0
        lines.append(
            pd.DataFrame(
                {"cell_id": rows["cell_id"], "origin": "canonical",
                 "metric": metric, "statistic": statistic, "value": np.exp(sign * mine.ravel())}
            )
        )  # fmt: skip
    return Frames(rows, pd.concat(lines, ignore_index=True))


def _held(found: pd.DataFrame, family: Family) -> Floats:
    """Whether the truth lies in the interval, for the arm that is first by number, load by load."""
    first = found[found["arm_id"] == found["arm_id"].min()]
    log = np.log1p(GAIN)
    higher = first["metric"].map({k: m.better for k, m in METRICS.items()}) == "higher"
    truth = np.where(higher, np.expm1(log), -np.expm1(-log))
    return ((first["low"] <= truth) & (truth <= first["high"])).to_numpy(dtype=np.float64)
