"""Do the bands of a forecast hold what was withheld, among the measurements and one step beyond?

Every study is measured without one of its inner loads (or inner K), without the next load (twice
the largest) and without the next K; one fit then forecasts a cell of each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from scipy.optimize import nnls

from analysis.prediction.reach import Question
from analysis.prediction.rows import Floats, Mask, Points, Rows
from analysis.prediction.whatif import DraftedPoints, Model, Prediction
from tests.truth.row import Row, share
from tests.truth.servers import BENDS, DATASET, Study, study

LOW, HIGH = 0.85, 0.95
INSIDE, NEXT_LOAD, NEXT_K = "inside", "next load", "next K"
METRICS = ("output_throughput", "itl", "ttft", "request_latency")
LAUNCHES = "flat, then linear; launches differ by 4 %"


@dataclass(frozen=True)
class Hit:
    """One withheld cell. ``held``: by metric; ``error`` and ``before``: relative, of the true ITL,
    by this forecast and by what was there before it."""

    bend: str
    place: str
    noise: float
    loads: int
    held: tuple[bool, ...]
    error: float
    before: float


def rows(trials: int, width: float = 1.0) -> list[Row]:
    """So many studies, of each kind of server alike; ``width``: bands are taken that much wider."""
    chance = np.random.default_rng(20261122)
    kinds = [(bend, bend, 0.0) for bend in BENDS] + [(LAUNCHES, "flat, then linear", 0.04)]
    hits = [
        hit
        for name, bend, launch in islice(cycle(kinds), trials)
        for hit in _hits(name, study(chance, bend, launch), chance, width)
    ]
    return [*_coverage(hits), *_errors(hits)]


def _hits(name: str, known: Study, chance: np.random.Generator, width: float) -> Iterator[Hit]:
    points = known.points
    last, most = known.loads[-1], known.ks[-1]
    usual = (points.concurrency <= last) & (points.k <= most)
    inner = _inner(known, chance)
    measured = known.only(usual & ~inner)
    model = DraftedPoints(*measured).model(DATASET)
    places = {
        INSIDE: usual & inner,
        NEXT_LOAD: (points.concurrency > last) & (points.k <= most) & ~inner,
        NEXT_K: (points.concurrency <= last) & (points.k > most) & ~inner,
    }
    cells = [int(chance.choice(np.flatnonzero(mask))) for mask in places.values()]
    asked = [Question(int(points.k[cell]), int(points.concurrency[cell])) for cell in cells]
    loads = len(set(measured[0].concurrency.tolist()))
    before = _before(measured[0], model, known, cells)
    for at, (place, found) in enumerate(zip(places, model.predict_all(asked), strict=True)):
        held = tuple(_held(found, points, metric, cells[at], width) for metric in METRICS)
        error = abs(found.itl / known.itl[cells[at]] - 1)
        yield Hit(name, place, known.noise, loads, held, error, float(before[at]))


def _inner(known: Study, chance: np.random.Generator) -> Mask:
    """An inner load, or an inner K where two others are left."""
    ks = known.ks[2:-1] if len(known.ks) > 3 else ()
    if ks and chance.random() < 0.5:
        return np.asarray(known.points.k == chance.choice(ks))
    return np.asarray(known.points.concurrency == chance.choice(known.loads[1:-1]))


def _held(found: Prediction, points: Points, metric: str, cell: int, width: float) -> bool:
    band, middle = found.bands[metric], getattr(found, metric)
    low, high = (middle + (end - middle) * width for end in (band.low, band.high))
    return bool(low <= _measured(points, metric, cell) <= high)


def _measured(points: Points, metric: str, cell: int) -> float:
    if metric != "request_latency":
        return float(getattr(points, metric)[cell])
    rest = (points.output_tokens[cell] - 1) * points.itl[cell]
    return float(points.ttft[cell] + rest) / 1000


def _before(measured: Points, model: Model, known: Study, cells: list[int]) -> Floats:
    """The relative errors of a sum of parts that cannot be negative, by least squares."""
    parts = _parts(measured) / measured.step[:, None]
    scale = np.maximum(parts.max(axis=0), 1e-300)
    sizes = nnls(parts / scale, np.ones(len(measured)))[0] / scale
    asked = known.points.where(np.array(cells))
    length = np.array([model.usual.length(int(k)) for k in asked.k])
    return np.abs(_parts(asked) @ sizes / length / known.itl[cells] - 1)


def _parts(rows: Rows) -> Floats:
    n, k, batch = rows.tokens, rows.k, rows.batch
    experts = [1 - np.exp(-n / scale) for scale in (16, 32, 64)]
    return np.column_stack([n * 0 + 1, k > 0, k, batch, batch * k, *experts, n**2])


def _coverage(hits: Sequence[Hit]) -> Iterator[Row]:
    for place in (INSIDE, NEXT_LOAD, NEXT_K):
        here = [hit for hit in hits if hit.place == place]
        for at, metric in enumerate(METRICS):
            yield _row(f"{place}: {metric}", here, at)
        for name in dict.fromkeys(hit.bend for hit in here):
            yield _row(f"{place}: {name}", [hit for hit in here if hit.bend == name])
        for low, high in ((0.02, 0.04), (0.04, 0.07), (0.07, 0.10)):
            some = [hit for hit in here if low <= hit.noise < high]
            yield from _rows_of(f"{place}: noise {low:.0%} to {high:.0%}", some)
        for loads in range(3, 8):
            some = [hit for hit in here if hit.loads == loads]
            yield from _rows_of(f"{place}: {loads} loads", some)


def _rows_of(what: str, hits: Sequence[Hit]) -> Iterator[Row]:
    if hits:
        yield _row(what, hits)


def _row(what: str, hits: Sequence[Hit], metric: int = 0) -> Row:
    held = sum(hit.held[metric] for hit in hits)
    return share("forecast: 90 % bands", what, held, len(hits), at_most=HIGH, at_least=LOW)


def _errors(hits: Sequence[Hit]) -> Iterator[Row]:
    """Median errors of ITL, beside those of what was there before."""
    for place in (INSIDE, NEXT_LOAD, NEXT_K):
        here = [hit for hit in hits if hit.place == place]
        for name in dict.fromkeys(hit.bend for hit in here):
            some = [hit for hit in here if hit.bend == name]
            yield _error(f"{place}: {name}", some, must=False)
        yield _error(f"{place}: all", here, must=True)


def _error(what: str, hits: Sequence[Hit], must: bool) -> Row:
    now, before = (float(np.median([getattr(h, n) for h in hits])) for n in ("error", "before"))
    goal = f"{'≤' if must else 'before:'} {before:.2%}"
    return Row(
        "forecast: median error of ITL", what, now, now, now, goal, not must or now <= before
    )
