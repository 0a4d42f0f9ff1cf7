"""Where loads stand on a chart's axis: at their number where all are so many at once, else in order."""

from collections.abc import Iterable
from dataclasses import dataclass

from warehouse.loads import Load

UNKNOWN = "unknown"


@dataclass(frozen=True)
class LoadPlaces:
    """The place of each load on a chart's axis. ``at``: load -> its place; ``names``: what stands
    at the places 1, 2 …, empty where a place is the number of requests at once."""

    at: dict[Load | None, int]
    names: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[int, ...]:
        """The places, in order."""
        return tuple(sorted(self.at.values()))


def load_places(loads: Iterable[Load | None]) -> LoadPlaces:
    """Return the places of the loads that occur; an unknown one stands last."""
    there = set(loads)
    known = sorted((load for load in there if load is not None), key=lambda load: load.order)
    numbers = [load.value for load in known if load.kind == "concurrency" and load.value]
    if len(numbers) == len(there):
        return LoadPlaces({load: int(load.value or 1) for load in known})
    ordered = [*known, *([None] if None in there else [])]
    names = tuple(UNKNOWN if load is None else load.short for load in ordered)
    return LoadPlaces({load: place for place, load in enumerate(ordered, 1)}, names)
