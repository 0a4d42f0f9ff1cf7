"""The traffic that a search is for: each dataset on its own, or a mix of them."""

from analysis.search.mixing import Mix, mixed
from analysis.search.space import Seen, Space
from answers.decide.mix import mix_weights
from answers.search.values import Terms
from warehouse.errors import InvalidInput


def mix_of(terms: Terms, space: Space) -> Mix | None:
    """Return the mix, None where each dataset is decided on its own. Raises InvalidInput for one that
    does not fit the datasets."""
    if not terms.mix:
        return None
    datasets = list(dict.fromkeys(place.traffic for place in space.places))
    mix = Mix(mix_weights(datasets, terms.mix), terms.latency)
    loads = {name: {one.load for one in space.places if one.traffic == name} for name in mix.share}
    if not set.intersection(*loads.values()):
        told = "; ".join(f"{name} at {_told(own)}" for name, own in loads.items())
        raise InvalidInput(
            f"--mix: its datasets share no load ({told}); measure them at the same loads, or leave --mix "
            "out and search each on its own."
        )
    return mix


def _told(loads: set[float]) -> str:
    return ", ".join(f"{load:g}" for load in sorted(loads))


def of_traffic(space: Space, seen: Seen, terms: Terms) -> tuple[Space, Seen]:
    """Return the places at which decisions are due, and what is known there."""
    mix = mix_of(terms, space)
    return (space, seen) if mix is None else mixed(space, seen, mix)
