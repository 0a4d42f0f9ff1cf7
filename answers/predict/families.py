"""The arm families that a reader can choose from, each with a name of its own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.matching.difference import flat
from analysis.matching.names import short, telling
from answers.predict.read import Subject
from answers.predict.values import Place, Table
from answers.wording import badges, known


@dataclass(frozen=True)
class Family:
    """One method with one draft on one system, whatever its K and dataset. ``badges``: where its
    numbers come from; ``about``: see ``Subject``."""

    name: str
    system: int
    family: str
    badges: tuple[str, ...]
    about: tuple[str | int | None, ...]
    datasets: tuple[str, ...]


def families(found: Sequence[Subject]) -> tuple[Family, ...]:
    """Group the subjects into families, those with most measured points first."""
    groups: dict[tuple[int, str], list[Subject]] = {}
    for one in found:
        groups.setdefault((one.place.system, one.place.family), []).append(one)
    ordered = sorted(groups.values(), key=lambda mine: -len(mine[0].points))
    names = _apart([mine[0] for mine in ordered])
    return tuple(
        Family(
            name, mine[0].place.system, mine[0].place.family, _badges(mine[0].place),
            mine[0].about, tuple(sorted(one.place.dataset for one in mine)),
        )
        for name, mine in zip(names, ordered, strict=True)
    )  # fmt: skip


def _badges(place: Place) -> tuple[str, ...]:
    return badges(place.evidence, bool(place.synthetic_acceptance))


def _apart(firsts: Sequence[Subject]) -> list[str]:
    """Return a name for each family, ``eagle3 (draft), model, TP 1, H200``; families of one name
    get what differs, or a number, so that no two are called the same."""
    plain = [_name(one.place) for one in firsts]
    told = [_differing(one, [x for x, name in zip(firsts, plain, strict=True) if name == own])
            for one, own in zip(firsts, plain, strict=True)]  # fmt: skip
    names = [", ".join([name, *more]) for name, more in zip(plain, told, strict=True)]
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _name(place: Place) -> str:
    size = f"TP {known(place.tensor_parallel_size)}"
    return ", ".join([place.family, known(place.model), size, known(place.gpu)])


def _differing(one: Subject, same: Sequence[Subject]) -> Iterator[str]:
    """Name the facts of its system that tell it from others of the same name; a server's arguments
    one by one. The first facts say most."""
    own, others = flat(dict(one.facts)), [flat(dict(other.facts)) for other in same]
    names = list(dict.fromkeys(name for system in others for name in system))
    stated = pd.DataFrame([{name: str(system.get(name)) for name in names} for system in others])
    for name in telling(stated, names):
        text = short(own.get(name, "not stated"))
        yield f"{name.replace('_', ' ').replace('server args.', '')} {text}"


def measured(found: Sequence[Subject]) -> Table:
    """Return what there is to choose from: a row per family and dataset."""
    header = ("model", "GPU", "TP", "dataset", "arm", "evidence", "K", "concurrency", "points")
    return Table(header, tuple(_row(one) for one in found))


def _row(one: Subject) -> tuple[str, ...]:
    place, mine = one.place, one.points.of(one.place.dataset)
    drafted = mine.where(mine.k > 0)
    return (
        known(place.model), known(place.gpu), known(place.tensor_parallel_size), place.dataset,
        place.family, ", ".join(_badges(place)) or "GPU",
        *(", ".join(f"{value:g}" for value in sorted(set(values.tolist())))
          for values in (drafted.k, drafted.concurrency)),
        str(len(drafted)),
    )  # fmt: skip
