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


def families(found: Sequence[Subject], every: Sequence[Subject] = ()) -> tuple[Family, ...]:
    """Group the subjects into families, by the names and in the order that they have among
    ``every`` one there is: those with most measured points first."""
    here, everywhere = _grouped(found), _grouped(every)
    first = {at: mine[0] for at, mine in (here | everywhere).items()}
    known = dict.fromkeys((*everywhere, *here))
    ordered = sorted(known, key=lambda at: (at not in everywhere, -len(first[at].points)))
    names = dict(zip(ordered, _apart([first[at] for at in ordered]), strict=True))
    return tuple(
        Family(
            name, mine[0].place.system, mine[0].place.family, _badges(mine[0].place),
            mine[0].about, tuple(sorted(one.place.dataset for one in mine)),
        )
        for name, mine in ((names[at], here[at]) for at in ordered if at in here)
    )  # fmt: skip


def _grouped(found: Sequence[Subject]) -> dict[tuple[str, str], list[Subject]]:
    """Group subjects by their system and family. Systems are known by their facts, since their
    numbers are others under other filters."""
    groups: dict[tuple[str, str], list[Subject]] = {}
    for one in found:
        groups.setdefault((repr(one.facts), one.place.family), []).append(one)
    return groups


def _badges(place: Place) -> tuple[str, ...]:
    return badges(place.evidence, bool(place.synthetic_acceptance))


def _apart(firsts: Sequence[Subject]) -> list[str]:
    """Return a name for each family, ``eagle3 (draft), model, TP 1, H200``; families of one name
    get what differs, or a number, so that no two are called the same."""
    groups: dict[str, list[Subject]] = {}
    for one in firsts:
        groups.setdefault(_name(one.place), []).append(one)
    more = {id(one): words for same in groups.values() for one, words in _differing(same)}
    names = [", ".join([_name(one.place), *more[id(one)]]) for one in firsts]
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _name(place: Place) -> str:
    size = f"TP {known(place.tensor_parallel_size)}"
    return ", ".join([place.family, known(place.model), size, known(place.gpu)])


def _differing(same: Sequence[Subject]) -> Iterator[tuple[Subject, list[str]]]:
    """Name the facts of each one's system that tell it from the others of the same name; a server's
    arguments one by one. The first facts say most."""
    systems = [flat(dict(one.facts)) for one in same]
    names = list(dict.fromkeys(name for system in systems for name in system))
    stated = pd.DataFrame([{name: str(system.get(name)) for name in names} for system in systems])
    told = telling(stated, names)
    for one, system in zip(same, systems, strict=True):
        yield one, [f"{_called(name)} {short(system.get(name, 'not stated'))}" for name in told]


def _called(name: str) -> str:
    return name.replace("_", " ").replace("server args.", "")


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
