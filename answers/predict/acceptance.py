"""How good a draft is: acceptance by position, over K and over the load, a line per dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from answers.decide.accepted import Accepted
from answers.predict.read import Family
from answers.wording import listed

Over = Literal["position", "k", "concurrency"]
#: ``of_all``: accepted at a position / drafts; ``of_those``: / accepted at the one before it.
Measure = Literal["rate", "length", "of_all", "of_those"]


@dataclass(frozen=True)
class Line:
    """What was measured on one dataset, over position, K or load in ascending order."""

    dataset: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Asked:
    """What a chart of acceptance shows. ``k``: of which K, for a line over positions or loads; a
    line over K has all."""

    over: Over
    measure: Measure
    k: int


def of_family(found: Sequence[Accepted], family: Family) -> tuple[Accepted, ...]:
    """Return the acceptance of one family on all its datasets."""
    return tuple(x for x in found if (x.family, x.about) == (family.family, family.about))


def lines(found: Sequence[Accepted], asked: Asked) -> tuple[Line, ...]:
    """Return a line for each dataset: means over the loads, or over K's own levels."""
    names = sorted({one.dataset or "unknown" for one in found})
    mine = [x for x in found if asked.over == "k" or x.k == asked.k]
    drawn = (Line(name, _points([x for x in mine if (x.dataset or "unknown") == name], asked))
             for name in names)  # fmt: skip
    return tuple(line for line in drawn if line.points)


def _points(found: Sequence[Accepted], asked: Asked) -> tuple[tuple[int, float], ...]:
    groups: dict[int, list[float]] = {}
    for one in found:
        for at, value in _values(one, asked):
            if value is not None:
                groups.setdefault(at, []).append(value)
    return tuple((at, fmean(values)) for at, values in sorted(groups.items()))


def _values(one: Accepted, asked: Asked) -> Sequence[tuple[int, float | None]]:
    if asked.measure == "of_all":
        return list(enumerate(one.of_all, 1))
    if asked.measure == "of_those":
        return list(enumerate(one.of_those, 1))
    value = one.rate if asked.measure == "rate" else one.length
    return [(one.k if asked.over == "k" else one.concurrency, value)]


def headline(found: Sequence[Accepted], k: int) -> str:
    """Say how many tokens a step yields on each dataset, at one K."""
    told = lines(found, Asked("k", "length", k))
    lengths = [(line.dataset, dict(line.points).get(k)) for line in told]
    known = [f"{length:.2f} on {name}" for name, length in lengths if length is not None]
    if not known:
        return f"With K = {k} the tokens of a step are unknown"
    return f"With K = {k} a step yields {listed(known)} tokens"
