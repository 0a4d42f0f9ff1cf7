"""The gate on nights whose truth is known: steps, a drift, and nights on which nothing happens.

The night-to-night deviation is 2 % unless a row says otherwise; twenty steady nights come first.
What is judged is what the gate judges: series of nights, by ``assess``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import log, nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.nightly.nights import NightSeries, SeriesNight
from analysis.nightly.regressions import REGRESSION, AcceptedNight, Assessment, Budgets, assess
from tests.truth.row import Row, share

Floats = NDArray[np.float64]
#: The level of each night, as a ratio to the first.
Levels = Sequence[float]

FAMILY = "gate"
STEADY = [1.0] * 20
QUIET, NOISY = 0.02, 0.036
#: The deviation of a night of one launch, and of the mean of three.
LAUNCH, NIGHT = 0.03, 0.03 / 3**0.5
#: Nights of a drift that are looked at: one of -0.15 % a night is at -4 % with the 27th.
RATE = 0.0015
FIRST = pd.Timestamp("2026-01-01T22:00Z")


def rows(trials: int) -> list[Row]:
    """Every goal of the gate, each over so many simulated series."""
    draw = np.random.default_rng(20261122)
    return [
        *_after_better(draw, trials),
        *_stays(draw, trials),
        *_drifts(draw, trials),
        *_false(draw, trials),
        *_of_many(draw, trials),
        *_since(draw, trials),
        *_gains(draw, trials),
        *_delays(draw, trials),
    ]


def nights(levels: Levels, noise: float, draw: np.random.Generator) -> NightSeries:
    """A series with the truth ``levels``, one point a night."""
    logs = np.log(levels) + noise * draw.standard_normal(len(levels))
    days = [FIRST + timedelta(days=place) for place in range(len(levels))]
    points = zip(days, logs, strict=True)
    return NightSeries(
        {}, "output_throughput", "mean",
        tuple(SeriesNight(f"{at:%Y-%m-%d}", at, float(value), nan, 1, {}) for at, value in points),
    )  # fmt: skip


def judged(series: NightSeries, count: int, accepted: Iterable[AcceptedNight] = ()) -> Assessment:
    """The series as it was judged after its first ``count`` nights."""
    known = NightSeries(series.about, series.metric, series.statistic, series.nights[:count])
    return assess([known], Budgets(), accepted)[0]


def is_red(series: NightSeries, counts: Iterable[int]) -> bool:
    """Whether it was red after any of these counts of nights."""
    return any(judged(series, count).status == REGRESSION for count in counts)


def _hits(trials: int, hit: Callable[[], bool]) -> int:
    return sum(hit() for _ in range(trials))


def _after_better(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    for better in (20, 10):
        levels = [*STEADY, *[1.1] * better, *[1.1 * 0.93] * 2]

        def within_two(levels: Levels = levels) -> bool:
            return is_red(nights(levels, QUIET, draw), (len(levels), len(levels) - 1))

        what = f"-7 % after {better} nights at +10 %: red within two nights"
        yield share(FAMILY, what, _hits(trials, within_two), trials, at_least=0.95)


def _stays(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    levels = [*STEADY, *[0.9] * 10, *[0.9 * 1.03] * 30]

    def every_night(series: NightSeries) -> bool:
        looks = (len(STEADY) + 2, *range(len(STEADY) + 5, len(levels) + 1, 5))
        return all(judged(series, count).status == REGRESSION for count in looks)

    def stays() -> bool:
        return every_night(nights(levels, QUIET, draw))

    def passes() -> bool:
        series = nights([*levels, levels[-1]], QUIET, draw)
        return judged(series, len(levels) + 1, [accepted(series, len(levels))]).status != REGRESSION

    what = "-10 %, then +3 %: red for 40 nights"
    yield share(FAMILY, what, _hits(trials, stays), trials, at_least=0.95)
    what = "the same, accepted: not red the night after"
    yield share(FAMILY, what, _hits(trials, passes), trials, at_least=0.95)


def accepted(series: NightSeries, count: int) -> AcceptedNight:
    """The last of the first ``count`` nights, accepted."""
    return AcceptedNight(series.nights[count - 1].day, "as meant", "Ann", datetime.now(UTC))


def _falling(nights_: int) -> list[float]:
    return [*STEADY, *((1 - RATE) ** np.arange(1, nights_ + 1))]


def _before(level: float) -> int:
    """The last count of nights at which the drift has not yet lost ``level`` (a ratio)."""
    return len(STEADY) + int(log(1 - level) / log(1 - RATE))


def _drifts(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    what = "-0.15 % a night: named as a drift before -4 %"
    hits = _hits(trials, lambda: _is_named(nights(_falling(30), QUIET, draw)))
    yield share(FAMILY, what, hits, trials, at_least=0.85)
    what = "-0.15 % a night: red between -5 % and -6.5 %"
    looks = range(_before(0.065), _before(0.05), -1)
    hits = _hits(trials, lambda: is_red(nights(_falling(45), QUIET, draw), looks))
    yield share(FAMILY, what, hits, trials, at_least=0.9)


def _is_named(series: NightSeries) -> bool:
    counts = range(_before(0.04), len(STEADY) + 9, -1)
    found = (judged(series, count).drift for count in counts)
    return any(one is not None and one.per_night < 0 for one in found)


def _false(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    for noise in (QUIET, NOISY):
        wrong = {"red": 0, "named a drift": 0}
        for _ in range(trials):
            count = int(draw.integers(21, 61))
            one = judged(nights([1.0] * count, noise, draw), count)
            wrong["red"] += one.status == REGRESSION
            wrong["named a drift"] += one.drift is not None
        for name, hits in wrong.items():
            what = f"nothing happens, {noise:.1%}: {name}"
            yield share(FAMILY, what, hits, trials, at_most=0.01)


def _of_many(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    """Six series of one launch a night, in which nothing happens."""
    for count in (12, 20, 40):

        def red(count: int = count) -> bool:
            every = [nights([1.0] * count, LAUNCH, draw) for _ in range(6)]
            return any(one.status == REGRESSION for one in assess(every, Budgets()))

        what = f"nothing happens, six series of one launch, {count} nights: red"
        yield share(FAMILY, what, _hits(trials, red), trials, at_most=0.01)


def _since(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    """Of nights that are red up to twenty nights after a step: how often the step is placed."""
    for loss, noise, goal in ((0.05, NIGHT, 0.95), (0.1, LAUNCH, 0.95), (0.05, LAUNCH, None)):
        placed: list[bool] = []
        for _ in range(trials):
            count = len(STEADY) + int(draw.integers(1, 21))
            levels = [*STEADY, *[1 - loss] * (count - len(STEADY))]
            one = judged(nights(levels, noise, draw), count)
            if one.since is not None:
                placed.append(abs(one.since - len(STEADY)) <= 2)
        what = f"-{loss:.0%} at {noise:.1%}: since when it is red, within two nights"
        yield share(FAMILY, what, sum(placed), len(placed), at_least=goal)


def _gains(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    """An arm that gains 30 %, and its baseline, two nights after a release."""

    def fell(baseline: float, arm: float) -> list[bool]:
        levels = {"baseline": (1.0, baseline), "eagle3 K=3": (1.3, 1.3 * arm)}
        every = [
            replace(nights([*[old] * 20, *[new] * 2], LAUNCH, draw), about={"arm_label": label})
            for label, (old, new) in levels.items()
        ]
        return [one.status == REGRESSION for one in assess(every, Budgets())]

    for told, baseline, arm in (("the baseline", 1.2, 1.0), ("both", 1.2, 1.2)):
        found = [fell(baseline, arm) for _ in range(trials)]
        goals = {"at_least": 0.95} if arm == 1 else {"at_most": 0.01}
        what = f"{told} 20 % faster: the gain is red"
        yield share(FAMILY, what, sum(one[2] for one in found), trials, **goals)
        what = f"{told} 20 % faster: the arm or the baseline is red"
        yield share(FAMILY, what, sum(any(one[:2]) for one in found), trials, at_most=0.01)


def _delays(draw: np.random.Generator, trials: int) -> Iterable[Row]:
    """How long it takes where nights lie far apart: printed, no goal."""
    delays = (1, 2, 3, 5, 8, 12)
    levels = [*STEADY, *[0.93] * delays[-1]]
    first = []
    for _ in range(trials):
        series = nights(levels, NOISY, draw)
        first.append(next((d for d in delays if is_red(series, [len(STEADY) + d])), None))
    for delay in delays:
        hits = sum(one is not None and one <= delay for one in first)
        yield share(FAMILY, f"-7 % at {NOISY:.1%}: red within {delay} nights", hits, trials)
    what = f"-0.15 % a night at {NOISY:.1%}: named as a drift before -4 %"
    hits = _hits(trials, lambda: _is_named(nights(_falling(30), NOISY, draw)))
    yield share(FAMILY, what, hits, trials)
