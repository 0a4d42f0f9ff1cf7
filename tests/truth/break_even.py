"""Does a draft pay where it is said to, on servers whose break-even is known?

Every study is one of arms whose acceptance was set by hand: a random length for each K, which tells
nothing of any draft. Then a real draft is asked about that yields somewhat more or less than pays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

from analysis.prediction.reach import Question
from analysis.prediction.rows import Points, Positions
from analysis.prediction.whatif import ARMS, DraftedPoints
from answers.predict.break_even import PaysFrom, Verdict
from tests.truth.row import Row, share
from tests.truth.servers import BENDS, DATASET, Study, study
from warehouse.errors import InvalidInput

LAUNCHES = "flat, then linear; launches differ by 4 %"
#: Of the verdicts that say something, and of the bands that hold what pays.
RIGHT, HELD = 0.95, 0.85
#: The draft that is asked about yields up to so much more or less than pays (logarithm).
ABOUT = 0.4


@dataclass(frozen=True)
class Verdicts:
    """What was said of one draft. ``verdict``: None where nothing could be said of any draft;
    ``half``: half the width of the band, a ratio."""

    kind: str
    arms: int
    verdict: Verdict | None
    right: bool
    held: bool
    half: float


def rows(trials: int, width: float = 1.0) -> list[Row]:
    """So many studies, of each kind of server alike; ``width``: bands are taken that much wider."""
    chance = np.random.default_rng(20261127)
    kinds = [(bend, bend, 0.0) for bend in BENDS] + [(LAUNCHES, "flat, then linear", 0.04)]
    found = [
        _asked(name, study(chance, bend, launch), chance, width)
        for name, bend, launch in islice(cycle(kinds), trials)
    ]
    few = [one for one in found if one.arms < ARMS]
    refused = sum(one.verdict is None for one in few)
    rows = [share("break-even", "two arms: nothing is said", refused, len(few), at_least=1.0)]
    enough = [one for one in found if one.arms >= ARMS]
    for kind in dict.fromkeys(one.kind for one in enough):
        rows += _rows(kind, [one for one in enough if one.kind == kind])
    return [*rows, *_rows("all", enough)]


def _rows(kind: str, found: Sequence[Verdicts]) -> Iterator[Row]:
    told = [one for one in found if one.verdict not in (None, "cannot say")]
    right, held = sum(one.right for one in told), sum(one.held for one in found)
    yield share("break-even", f"{kind}: right where it is said", right, len(told), at_least=RIGHT)
    yield share("break-even", f"{kind}: bands hold what pays", held, len(found), at_least=HELD)
    yield share("break-even", f"{kind}: something is said", len(told), len(found))


def _asked(kind: str, known: Study, chance: np.random.Generator, width: float) -> Verdicts:
    points = known.points
    usual = (points.concurrency <= known.loads[-1]) & (points.k <= known.ks[-1])
    model = DraftedPoints(*set_by_hand(*known.only(usual), chance)).model(DATASET)
    cell = int(chance.choice(np.flatnonzero(usual & (points.k > 0))))
    k, load, pays = int(points.k[cell]), int(points.concurrency[cell]), pays_from(known, cell)
    length = float(np.clip(pays * np.exp(chance.uniform(-ABOUT, ABOUT)), 1.0, k + 1))
    arms = len(known.ks) - 1
    try:
        band = model.break_even([Question(k, load)])
    except InvalidInput:
        return Verdicts(kind, arms, None, False, False, 0.0)
    middle, low, high = (float(ends[0]) for ends in (band.middle, band.low, band.high))
    low, high = middle * (low / middle) ** width, middle * (high / middle) ** width
    verdict = PaysFrom(k, load, middle, low, high).of(length)
    right = verdict == ("pays" if length > pays else "does not pay")
    return Verdicts(kind, arms, verdict, right, low <= pays <= high, (high - low) / middle / 2)


def set_by_hand(
    points: Points, positions: Positions, chance: np.random.Generator
) -> tuple[Points, Positions]:
    """The same steps with acceptance that was set: each K yields some length of its own."""
    rates = {k: np.sort(chance.uniform(0.05, 0.95, int(k)))[::-1] for k in np.unique(points.k)}
    length = np.array([1 + rates[k].sum() for k in points.k])
    itl = points.step / length
    latency = (points.ttft + (points.output_tokens - 1) * itl) / 1000
    throughput = points.concurrency * points.output_tokens / latency
    shares = [rates[k] for k in positions.k]
    at = positions.position
    kept = np.array([each[i - 1] for each, i in zip(shares, at, strict=True)])
    before = np.array([each[i - 2] if i > 1 else 1.0 for each, i in zip(shares, at, strict=True)])
    return (
        replace(points, length=length, itl=itl, output_throughput=throughput),
        replace(positions, accepted=1000 * kept, reached=1000 * before),
    )


def pays_from(known: Study, cell: int) -> float:
    """The tokens of a step from which the cell's K is faster than no drafts at its load, truly."""
    points = known.points
    load = points.concurrency[cell]
    (plain,) = np.flatnonzero((points.k == 0) & (points.concurrency == load))
    gaps = points.output_tokens[cell] - 1
    room = known.ttft[plain] + gaps * known.itl[plain] - known.ttft[cell]
    return float(known.step[cell] * gaps / room)
