"""What forecasts stand on, read from the warehouse: each arm family of each system."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.drafts.acceptance_tables import position_counts
from analysis.flags.validity import DECIDES_NOTHING
from analysis.frames import among, listed, records
from analysis.matching.arms import (
    BASELINE,
    METRICS_READ,
    SYSTEM,
    about,
    load_points,
    of_family,
    place_arms,
)
from analysis.matching.difference import flat
from analysis.matching.names import short, telling
from analysis.prediction.rows import Points, Positions, points_of, positions_of
from answers.decide.accepted import ABOUT
from answers.predict.values import Place, Table
from answers.wording import badges, known
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import load_of
from warehouse.store import Reader

#: Flags of cells whose times or acceptance are not those of the arm. Acceptance set by hand is
#: marked in every title instead: the times of such steps are as good as any.
_UNFIT = DECIDES_NOTHING - {"synthetic_acceptance"}
_FAMILY = ["system", "family"]
_PLACE = [*_FAMILY, "dataset"]
_LOAD = ("load_profile", "concurrency", "rate", "trace")


@dataclass(frozen=True, eq=False)
class Subject:
    """One arm family on one dataset: its points and those of its baseline, on all datasets.
    ``about``: as ``answers.decide.accepted.Accepted`` has it; ``facts``: what its system is."""

    place: Place
    points: Points
    positions: Positions
    about: tuple[str | int | None, ...]
    facts: tuple[tuple[str, str | int | None], ...]


def subjects(reader: Reader, filters: Filters) -> tuple[Subject, ...]:
    """Return every family of which a draft was measured with latencies, lengths and acceptance, by
    system, family and dataset. Unfit cells, and loads that are no concurrency, are left out; a
    choice of arms keeps the baseline, without which nothing is gained."""
    if filters.arm:
        filters = replace(filters, arm=tuple(sorted({*filters.arm, BASELINE})))
    cells = queries.cells(reader, filters).to_pandas()
    if cells.empty:
        return ()
    # All cells are placed, so that systems have the same numbers wherever they are shown.
    usable = _usable(reader, cells)
    measured = queries.measurements(reader, filters, METRICS_READ, ("mean",)).to_pandas()
    accepted = queries.acceptance(reader, filters).to_pandas()
    by_position = queries.acceptance_by_position(reader, filters).to_pandas()
    points = load_points(cells, _of(measured, usable))
    counted = position_counts(cells, _of(accepted, usable), _of(by_position, usable))
    return tuple(_subjects(cells, points, counted))


def _usable(reader: Reader, cells: pd.DataFrame) -> frozenset[str]:
    """Return the ids of the cells with a concurrency as their load that are fit to forecast
    from."""
    doubtful = list(cells.loc[cells["flags"] > 0, "cell_id"])
    flags = queries.flags(reader, doubtful).to_pandas()
    barred = set(flags.loc[flags["name"].isin(_UNFIT), "cell_id"])
    loads = {cell: load_of(*known) for cell, *known in listed(cells, "cell_id", *_LOAD)}
    return frozenset(
        cell for cell, load in loads.items() if load is not None and load.kind == "concurrency"
    ) - frozenset(barred)


def _of(rows: pd.DataFrame, ids: frozenset[str]) -> pd.DataFrame:
    return rows[among(rows["cell_id"], ids)]


def _subjects(
    cells: pd.DataFrame, points: pd.DataFrame, counted: pd.DataFrame
) -> Iterator[Subject]:
    drafted = points.loc[points["k"] > 0, _PLACE].drop_duplicates()
    of_place = _first_cells(cells)
    at = counted.groupby(_FAMILY).indices
    for system, family in drafted[_FAMILY].drop_duplicates().to_numpy():
        mine = points_of(of_family(points, system, family))
        positions = positions_of(counted.iloc[at.get((system, family), [])])
        theirs = (drafted["system"] == system) & (drafted["family"] == family)
        for dataset in drafted.loc[theirs, "dataset"]:
            one = of_place[system, family, dataset]
            place = _place((system, family, dataset), about(one))
            system_facts = tuple(about(one, SYSTEM).items())
            told = tuple(about(one, ABOUT).values())
            yield Subject(place, mine, positions, told, system_facts)


def _first_cells(cells: pd.DataFrame) -> dict[tuple[int, str, str], dict[str, Any]]:
    """Map system, family and dataset to the facts of its first cell."""
    placed = place_arms(cells).drop_duplicates(_PLACE)
    facts = {row["cell_id"]: row for row in records(cells[among(cells["cell_id"], placed.index)])}
    places = placed[_PLACE].itertuples(name=None)
    return {(system, family, dataset): facts[cell] for cell, system, family, dataset in places}


def _place(where: tuple[int, str, str], facts: dict[str, Any]) -> Place:
    system, family, dataset = where
    return Place(int(system), str(family), str(dataset), **facts)


# --- The arm families that a reader can choose from, each with a name of its own.


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
