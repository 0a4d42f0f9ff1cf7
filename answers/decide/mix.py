"""One arm for all datasets: which belong together, what each weighs, what one arm for all forgoes."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.choice.judged import Judged
from analysis.choice.operating import Choice
from analysis.choice.pick import taken
from analysis.frames import numbered
from analysis.matching.arms import SYSTEM
from analysis.matching.comparison import Comparison
from answers.decide.values import Forgone
from answers.wording import listed
from warehouse.errors import InvalidInput
from warehouse.loads import Load


def mixes_of(
    found: Comparison, judged: dict[int, Judged], shown: Sequence[int]
) -> Iterator[dict[str, int]]:
    """Yield dataset -> setting for each model on one hardware that has several datasets with one
    setting each.

    A model counts only where one of its settings is ``shown``.
    """
    keys, systems = _systems(found)
    datasets = dict(zip(systems, keys["dataset"].tolist(), strict=True))
    for system in sorted({systems[s] for s in shown}):
        parts = [s for s in sorted(judged) if systems[s] == system]
        named = {d: s for s in parts if isinstance(d := datasets[s], str)}
        if len(named) > 1 and len(named) == len(parts):
            yield named


def of_systems(found: Comparison, settings: Collection[int]) -> frozenset[int]:
    """Return the settings of the same systems as these: all that a mix may hold."""
    systems = _systems(found)[1]
    wanted = {systems[one] for one in settings}
    return frozenset(one for one, system in systems.items() if system in wanted)


def _systems(found: Comparison) -> tuple[pd.DataFrame, dict[int, int]]:
    """Return the facts of each setting, and the system of each as a number."""
    keys = found.keys[~found.keys.index.get_level_values(0).duplicated()]
    settings = keys.index.get_level_values(0).tolist()
    return keys, dict(zip(settings, numbered(keys, SYSTEM).tolist(), strict=True))


def mix_weights(names: Sequence[str], mix: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return dataset -> its share of the output tokens; equal where the reader gave none.

    Raises InvalidInput for a dataset that was not measured or shares that are no shares.
    """
    if not mix:
        return {name: 1 / len(names) for name in names}
    wanted = dict(mix)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise InvalidInput(
            f"--mix: there are no results of {', '.join(unknown)}; there are {', '.join(names)}."
        )
    total = sum(wanted.values())
    if not (abs(total - 1) < 1e-6 and all(share > 0 for share in wanted.values())):
        raise InvalidInput(
            f"--mix: the shares must be above 0 and add up to 1; these add up to {total:g}."
        )
    return wanted


def forgone(parts: dict[str, Judged], made: Choice) -> Iterator[Forgone]:
    """Yield what the mix's arm gives up on each dataset against that dataset's own choice, at the
    load that is spoken about; nothing over shares of loads."""
    if len(made.spot.shares) != 1:
        return
    load = made.judged.loads[made.spot.shares[0][0]]
    place = made.server.at[made.spot.shares[0][0]]
    for name, part in parts.items():
        at = part.loads.index(load)
        own = taken(part.grounds, at)
        places = {(c.family, c.k): p for p, c in enumerate(part.field.candidates)}
        one = None if place is None else made.judged.field.candidates[place]
        mine = 0.0 if one is None else float(part.gains[places[one.family, one.k], at])
        best = 0.0 if own is None else float(part.gains[own, at])
        label = "drafting nothing" if own is None else part.field.candidates[own].label
        yield Forgone(name, label, max(float(np.expm1(best - mine)), 0.0))


def not_in_all(parts: dict[str, Judged], loads: Collection[Load]) -> Iterator[str]:
    """Yield a sentence for each load that is missing on some datasets of a mix, which therefore
    knows nothing of it."""
    every = {load for part in parts.values() for load in part.loads}
    for load in sorted(every - set(loads), key=lambda x: x.order):
        lacking = [name for name, part in parts.items() if load not in part.loads]
        if lacking:
            yield (
                f"At {load.text} nothing is known of the mix: {listed(lacking)} was not measured "
                "there with its baseline."
            )
