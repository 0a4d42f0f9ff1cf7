"""What the choice of K loses against the best K of each load, known here."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.choice.expected import Candidate, Field, expected_gains
from analysis.choice.pick import Grounds, served
from analysis.evidence.launches import Tails, balanced_residuals, spread
from tests.truth.figures import mean_printed, points_at_most, ratio_at_most
from tests.truth.k_studies import K_LOADS, KS, KDrawn, KFamily, drawn
from tests.truth.row import Row, mean_at_most, share
from tests.truth.studies import Floats

#: The goals: mean loss and share of loads that lose much, in the family that the goal names.
MEAN_LOSS, MUCH, MUCH_SHARE = 0.006, 0.03, 0.06
OF_HIGHEST_MEAN, TABLE_OF_OWN = 0.8, 1.2
#: What is told of the choice may exceed the truth by this share of a launch's noise.
OVERSTATED = 0.2
NAMED = KFamily("K, 3 loads, R 3, 5 %", K_LOADS[3], 3, 0.05)


def families() -> Iterator[KFamily]:
    yield NAMED
    yield KFamily("K, 3 loads, R 2, 5 %", K_LOADS[3], 2, 0.05)
    yield KFamily("K, 6 loads, R 3, 5 %", K_LOADS[6], 3, 0.05)
    yield KFamily("K, 3 loads, R 3, 10 %", K_LOADS[3], 3, 0.10)
    yield KFamily("K, 3 loads, R 3, 3 %, launch 6 %", K_LOADS[3], 3, 0.03, 0.06)
    yield KFamily("K, 6 loads, R 2, 10 %, launch 6 %", K_LOADS[6], 2, 0.10, 0.06)
    yield KFamily("K, 6 loads, R 3, 2 %, launch 4 %", K_LOADS[6], 3, 0.02, 0.04)
    yield KFamily("K, 3 loads, R 5, 2 %", K_LOADS[3], 5, 0.02)
    yield KFamily("K, 3 loads, R 3, 5 %, drafting costs to 30 %", K_LOADS[3], 3, 0.05, 0.0, 0.30)
    yield KFamily("K, 2 loads, R 3, 10 %, drafting costs to 30 %", (1, 16), 3, 0.10, 0.0, 0.30)


@dataclass(frozen=True)
class Losses:
    """(trials, loads): share of the best K's speed that is lost by the K of each load on its own, by
    the table with its hysteresis, and by the highest mean; ``over``: by how much the log gain that
    is told of the table's K exceeds the true one."""

    own: Floats
    table: Floats
    highest: Floats
    over: Floats


def rows(trials: int) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials)]


def rows_of(family: KFamily, trials: int) -> list[Row]:
    found = losses(drawn(family, trials))
    own, table, highest = (x.mean(axis=1) for x in (found.own, found.table, found.highest))
    told = {"each load's K": own, "the table": table, "the highest mean": highest}
    rows = [mean_printed(family.name, f"{what} loses", x) for what, x in told.items()]
    much = round(float((found.own > MUCH).mean(axis=1).sum()))
    limit = MUCH_SHARE if family == NAMED else None
    rows.append(share(family.name, "each load's K loses > 3 %", much, trials, at_most=limit))
    if family == NAMED:
        rows[0] = mean_at_most(family.name, "each load's K loses", own.tolist(), MEAN_LOSS)
    return [
        *rows,
        ratio_at_most(
            family.name, "each load's K / the highest mean", own, highest, OF_HIGHEST_MEAN
        ),
        ratio_at_most(family.name, "the table / each load's K", table, own, TABLE_OF_OWN),
        points_at_most(
            family.name, "the gain told is above the true one by", found.over.mean(axis=1).tolist(),
            OVERSTATED * float(np.hypot(family.noise, family.launch)),
        ),
    ]  # fmt: skip


def losses(found: KDrawn) -> Losses:
    chosen = [_chosen(found, trial) for trial in range(len(found.truth))]
    own, table = (np.array([c[x] for c in chosen]) for x in (0, 1))
    highest = found.speed.mean(axis=3).argmax(axis=1)
    lost = (_lost(found.truth, places) for places in (own, table, highest))
    return Losses(*lost, np.array([c[2] for c in chosen]) - _taken(found.truth, table))


def _lost(truth: Floats, places: "np.typing.NDArray[np.int64]") -> Floats:
    return 1 - np.exp(_taken(truth, places) - truth.max(axis=1))


def _taken(truth: Floats, places: "np.typing.NDArray[np.int64]") -> Floats:
    return np.take_along_axis(truth, places[:, None, :], axis=1)[:, 0]


def _chosen(found: KDrawn, trial: int) -> tuple[Floats, Floats, Floats]:
    """The K of each load on its own, and by the table; the log gain that is told of the latter."""
    field = field_of(found, trial)
    gains = expected_gains(field)
    loads = found.family.loads
    every = np.ones(gains.shape, dtype=np.bool_)
    known = Grounds(field, gains, every, every[0], every, loads, every[:, 0])
    best, load = np.unravel_index(int(gains.argmax()), gains.shape)
    # A server whose every K loses everywhere is none.
    taken = served(known, int(best) if gains.max() > 0 else None, int(load))
    worth = np.vstack([np.zeros(len(loads)), gains])
    table = np.array([0 if place is None else place + 1 for place in taken.at])
    return worth.argmax(axis=0), table, worth[table, np.arange(len(loads))]


def field_of(found: KDrawn, trial: int) -> Field:
    """One study as ``analysis.choice`` takes it: what ``effects`` finds where nothing is missing."""
    speed = found.speed[trial]
    log = speed[1:].mean(axis=2) - speed[:1].mean(axis=2)
    scatter = spread(balanced_residuals(speed[None]))
    candidates = tuple(Candidate(k - 1, f"draft_model K={k}", "draft_model", k) for k in KS[1:])
    known = [np.broadcast_to(x, log.shape) for x in (
        scatter.level[0], scatter.share[0], scatter.dof[0], scatter.rest_dof[0])]  # fmt: skip
    return Field(
        candidates, log, np.full(log.shape, float(found.family.repeats)), known[0],
        Tails(*known[1:]), np.full(len(candidates), scatter.mean[0]), found.length[trial, 1:],
    )  # fmt: skip
