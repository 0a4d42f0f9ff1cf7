"""The load that is spoken about, and the choice made for it."""

from dataclasses import dataclass
from functools import cached_property
from math import inf, isclose

import numpy as np

from analysis.choice.expected import Candidate
from analysis.choice.judged import Judged, Row
from analysis.choice.pick import Server, best_of, served, taken
from analysis.evidence.words import GAIN
from warehouse.errors import InvalidInput
from warehouse.loads import Axis, Load

# --- The load that a reader speaks about, as people write it.


#: What may be written.
EXAMPLES = "16 (requests at once), 16/s, or shares of the output tokens such as 1=0.2,8=0.5,64=0.3"
_RATE = "/s"
#: A load is written with six digits.
_WRITTEN = 1e-5


@dataclass(frozen=True)
class Wish:
    """A load, or the shares of the output tokens (sum 1) that several have. ``shares``: value and
    share, by value; ``rate``: values are requests a second, else so many at once unless only rates
    were measured."""

    shares: tuple[tuple[float, float], ...]
    rate: bool = False

    @property
    def value(self) -> float | None:
        """The one load; None where there are several."""
        return self.shares[0][0] if len(self.shares) == 1 else None

    def axis(self, there: frozenset[Axis]) -> Axis:
        """Return the kind of load that is meant, of those that were measured."""
        return (
            "rate" if self.rate or "concurrency" not in there and "rate" in there else "concurrency"
        )


def wish(text: str | float | None) -> Wish | None:
    """Read a load or shares of loads; None where nothing is written.

    Shares need not add up to 1. Raises InvalidInput for anything that is no load above 0.
    """
    parts = [part.strip() for part in str(text).split(",") if part.strip()] if text else []
    refused = InvalidInput(f"{str(text)!r} is no load above 0; write {EXAMPLES}.")
    if text is not None and not parts and str(text).strip():
        raise refused
    if not parts:
        return None
    pairs, rates = [], set()
    for part in parts:
        load, equals, share = part.partition("=")
        rates.add(load.strip().endswith(_RATE))
        try:
            value = float(load.strip().removesuffix(_RATE))
            weight = float(share) if equals else 1.0
        except ValueError:
            raise refused from None
        if not (0 < value < inf and 0 < weight < inf) or (len(parts) > 1 and not equals):
            raise refused
        pairs.append((value, weight))
    if len(rates) > 1 or len(dict(pairs)) < len(pairs):
        raise refused
    total = sum(share for _, share in pairs)
    return Wish(tuple(sorted((value, share / total) for value, share in pairs)), rates.pop())


# --- The load that is spoken about, and the choice made for it.


@dataclass(frozen=True)
class Spot:
    """Where the arm is chosen. ``load``: as it is told; ``shares``: place of each measured load ->
    its share of the output tokens, one of them where one load is meant; ``beside``: the load was
    not measured and lies between others. ``unknown``: nothing is known of the load asked for
    (``missing``), and ``load`` is the nearest one that was measured, if there is one."""

    load: Load
    shares: tuple[tuple[int, float], ...] = ()
    beside: bool = False
    unknown: bool = False
    missing: tuple[Load, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The choice for one spot. ``server``: what is taken; ``best``: the place of the arm whose
    figures are told at the spot, taken or not; ``figures``: the place of the load whose figures
    they are; ``sides``: where the load was not measured, the best arm (None: drafting nothing) at
    its neighbour below and at the one above. ``column``: traffic over several loads as one load,
    and ``row``: the place of the server in it. ``other``: at each load the arm that is better there."""

    judged: Judged
    spot: Spot
    server: Server
    best: int
    figures: int
    other: tuple[int | None, ...]
    sides: tuple[int | None, ...] = ()
    column: Judged | None = None
    row: int = 0

    @cached_property
    def between_gains(self) -> bool:
        """Whether every arm that may be the best one at a load which was not measured is a settled
        gain at both of its neighbours."""
        if not self.sides or None in self.sides:
            return False
        value = self.spot.load.value or 0.0
        arms = [place for place in self.sides if place is not None]
        return all(
            self.judged.words[place, at] == GAIN
            for place in arms
            for at in neighbours(self.judged, place, value)
        )


def spot_of(judged: Judged, asked: Wish | None) -> Spot:
    """Return where the arm is chosen, of loads of one kind: the reader's load, else the largest at
    which the baseline and an arm were measured."""
    measured = [at for at in range(len(judged.loads)) if judged.there[:, at].any()]
    if asked is None:
        return Spot(judged.loads[measured[-1]], ((measured[-1], 1.0),))
    like = judged.loads[measured[0]]
    # A rate says nothing of requests at once; a number alone is a rate where only rates were measured.
    alike = like.value is not None and (like.is_rate or not asked.rate)
    kind, name = (
        (like.kind, like.name) if alike else ("constant" if asked.rate else "concurrency", None)
    )
    by_value = {
        value: at for value, _ in asked.shares for at in reversed(measured)
        if alike and is_load(judged.loads[at], value)
    }  # fmt: skip
    missing = tuple(Load(kind, value, name) for value, _ in asked.shares if value not in by_value)
    if not missing:
        shares = tuple((by_value[value], share) for value, share in asked.shares)
        return Spot(_named(judged, shares), shares)
    everyone = range(len(judged.gains))
    value = asked.value if alike else None
    if value is not None and any(neighbours(judged, place, value) for place in everyone):
        return Spot(missing[0], beside=True)
    nearest = min(
        measured, key=lambda at: abs(np.log((judged.loads[at].value or 1.0) / asked.shares[-1][0]))
    )
    return Spot(judged.loads[nearest], ((nearest, 1.0),), unknown=True, missing=missing)


def is_load(load: Load, value: float) -> bool:
    """Return whether a load is the one that a reader writes: of a rate such as 3.348912307 nobody writes
    more digits than are shown."""
    return load.value is not None and isclose(load.value, value, rel_tol=_WRITTEN)


def _named(judged: Judged, shares: tuple[tuple[int, float], ...]) -> Load:
    if len(shares) == 1:
        return judged.loads[shares[0][0]]
    told = [f"{share * 100:.3g} % at {judged.loads[at].text}" for at, share in shares]
    return Load("shares", None, f"{', '.join(told[:-1])} and {told[-1]}")


def neighbours(judged: Judged, place: int, value: float) -> tuple[int, ...]:
    """Return the nearest loads below and above ``value`` at which an arm was measured; empty where
    one is missing."""
    known = [(x.value, at) for at, x in enumerate(judged.loads)
             if x.value is not None and judged.there[place, at]]  # fmt: skip
    below, above = ([at for x, at in known if x < value], [at for x, at in known if x > value])
    return (below[-1], above[0]) if below and above else ()


def choice(judged: Judged, spot: Spot) -> Choice:
    """Return the arm to take at the spot, the server of it, and what is better at other loads."""
    if spot.beside:
        return _beside(judged, spot)
    if len(spot.shares) > 1:
        return _over(judged, spot)
    load = spot.shares[0][0]
    arm = taken(judged.grounds, load)
    server = served(judged.grounds, arm, load)
    best = judged.best_at(load) if arm is None else arm
    return Choice(judged, spot, server, best, load, _others(judged, server, load))


def _others(judged: Judged, server: Server, *here: int) -> tuple[int | None, ...]:
    return tuple(
        None if load in here else judged.better(server, load) for load in range(len(judged.loads))
    )


def _beside(judged: Judged, spot: Spot) -> Choice:
    value = spot.load.value or 0.0
    near = [neighbours(judged, place, value) for place in range(len(judged.gains))]
    sides = [_side(judged, [one[side] if one else None for one in near]) for side in (0, 1)]
    values = [_worst(judged, place, near) for place in sides]
    arm = sides[int(values[1] > values[0])]
    server = served(judged.grounds, arm)
    best = arm
    if best is None:
        there = [place for place, at in enumerate(near) if at]
        best = max(there, key=lambda place: _worst(judged, place, near))
    figures = min(near[best], key=lambda at: judged.gains[best, at])
    return Choice(
        judged, spot, server, best, figures, _others(judged, server),
        tuple(dict.fromkeys(sides)),
    )  # fmt: skip


def _side(judged: Judged, loads: list[int | None]) -> int | None:
    known = judged.grounds
    at = [(place, load) for place, load in enumerate(loads) if load is not None]
    values = np.full(len(loads), np.nan)
    for place, load in at:
        values[place] = known.gains[place, load] if known.open_to[place, load] else np.nan
    nothing = all(bool(known.baseline[load]) for _, load in at)
    return best_of(judged.field, values, np.nan_to_num(known.gains).mean(axis=1), nothing)


def _worst(judged: Judged, place: int | None, near: list[tuple[int, ...]]) -> float:
    return 0.0 if place is None else min(float(judged.gains[place, at]) for at in near[place])


def _over(judged: Judged, spot: Spot) -> Choice:
    """Choose for shares over several loads, among arms measured at each and the tables of K of
    their methods."""
    shares = dict(spot.shares)
    rows = list(_rows(judged, list(shares)))
    if not rows:
        # No arm was measured at all of them: at the heaviest load alone.
        load = max(spot.shares, key=lambda one: one[1])[0]
        missing = tuple(judged.loads[at] for at in shares if not judged.there[:, at].all())
        alone = Spot(judged.loads[load], ((load, 1.0),), unknown=True, missing=missing)
        return choice(judged, alone)
    column = judged.over(spot.load, shares, rows)
    means = np.array([_mean(judged, server, shares) for _, server in rows])
    values = np.where(column.allowed[:, 0], column.gains[:, 0], np.nan)
    row = best_of(column.field, values, means, bool(column.baseline[0]))
    server = served(judged.grounds, None) if row is None else rows[row][1]
    best = row if row is not None else int(np.argmax(column.gains[:, 0]))
    arm = rows[best][1].arm
    assert arm is not None
    heaviest = max(shares, key=lambda at: shares[at])
    return Choice(
        judged, spot, server, arm, heaviest, _others(judged, server), column=column, row=best,
    )  # fmt: skip


def _rows(judged: Judged, loads: list[int]) -> "list[Row]":
    """Return the servers that were measured at each of the loads: each arm, and each method's
    table."""
    known, rows = judged.grounds, []
    everywhere = range(len(judged.loads))
    for place, one in enumerate(judged.field.candidates):
        if judged.there[place, loads].all() and place not in judged.barred:
            rows.append((one, Server(place, tuple(place for _ in everywhere))))
    for places in judged.field.families().values():
        server = served(known, places[0])
        at = [(server.at[load], load) for load in loads]
        if server.table is None or not all(p is None or judged.there[p, x] for p, x in at):
            continue
        first = judged.field.candidates[places[0]]
        method = first.label.rpartition(" K=")[0]
        ks = "/".join(str(k) for k in dict.fromkeys(k for _, _, k in server.table.entries))
        arm = next((p for p in server.at if p is not None), None)
        if arm is not None:
            rows.append((Candidate(first.arm_id, f"{method} K={ks}", first.family, None, "table"),
                         Server(arm, server.at, server.table)))  # fmt: skip
    return rows


def _mean(judged: Judged, server: Server, shares: dict[int, float]) -> float:
    others = [load for load in range(len(judged.loads)) if load not in shares]
    values = [float(np.nan_to_num(expected_at(judged, server, load))) for load in others]
    return float(np.mean(values)) if values else 0.0


def expected_at(judged: Judged, server: Server, load: int) -> float:
    """Return the expected log ratio of what a server does at a load; NaN where it was not
    measured."""
    place = server.at[load]
    return 0.0 if place is None else float(judged.gains[place, load])
