"""One arm for all datasets: which belong together, what each weighs, what one arm for all forgoes."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.choice.judged import Judged, Rule
from analysis.choice.pick import Pick
from analysis.frames import numbered
from analysis.matching.arms import SYSTEM
from analysis.matching.comparison import Comparison
from answers.decide.values import Forgone
from warehouse.errors import InvalidInput


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


def forgone(parts: dict[str, Judged], blend: Judged, picked: Pick, rule: Rule) -> Iterator[Forgone]:
    """Yield what one arm gives up on each dataset against that dataset's own choice, over the
    loads."""
    for name, part in parts.items():
        own = part.picked(rule)
        if own is None:
            continue
        places = {(c.family, c.k): at for at, c in enumerate(part.field.candidates)}
        lost = []
        for load, place in zip(blend.loads, picked.at, strict=True):
            at = part.loads.index(load)
            one = None if place is None else blend.field.candidates[place]
            mine = 0.0 if one is None else float(part.gains[places[one.family, one.k], at])
            best = own.at[at]
            lost.append((0.0 if best is None else float(part.gains[best, at])) - mine)
        label = part.field.candidates[own.fixed].label
        yield Forgone(name, label, max(float(np.expm1(np.mean(lost))), 0.0))
