"""What is told beside a decision: what is open and what would settle it, mixes, arms that choose K themselves."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.choice.expected import Candidate
from analysis.choice.judged import Judged
from analysis.choice.operating import Choice
from analysis.choice.pick import at_stake, launches_needed, launches_until, taken
from analysis.evidence.words import EQUIVALENCE, LIKELY_LOSS, LOSS, SETTLED
from analysis.frames import numbered
from analysis.matching.arms import SYSTEM
from analysis.matching.comparison import Comparison
from answers.decide.shown import DecisionCase
from answers.decide.values import Forgone, Settle
from answers.decide.words import ADAPTIVE
from answers.wording import listed, percent
from warehouse.errors import InvalidInput
from warehouse.loads import Load

# --- One arm for all datasets: which belong together, what each weighs, what one arm for all forgoes.


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


# --- Arms whose K is not fixed: what their measurement says beside the fixed K.


def of_tables(shown: DecisionCase) -> Iterator[str]:
    """Yield a sentence for each table of K that was measured: its gain beside that of the K which
    it takes at the same load, where that K was measured alone."""
    for place, one in enumerate(shown.judged.field.candidates):
        parts = list(_beside(shown, place, one)) if one.chooser == "table" else []
        if parts:
            yield f"{one.label}, measured as an arm of its own: {'; '.join(parts)}."


def _beside(shown: DecisionCase, place: int, one: Candidate) -> Iterator[str]:
    for at, load in enumerate(shown.judged.loads):
        gain = shown.judged.expected[place, at]
        alone = _alone(shown, one, load)
        if np.isfinite(gain) and alone is not None:
            other = shown.judged.expected[alone, at]
            name = shown.judged.field.candidates[alone].label
            yield f"{percent(float(gain))} at {load.text}, {name} {percent(float(other))}"


def _alone(shown: DecisionCase, table: Candidate, load: Load) -> int | None:
    """Return the place of the arm of the same method whose fixed K is the one that the table takes
    at a load."""
    if load.kind != "concurrency" or load.value is None:
        return None
    wanted = [k for start, _, k in table.table if start <= load.value][-1:]
    method = table.family.split(" (")[0]
    at = shown.judged.loads.index(load)
    for place, one in enumerate(shown.judged.field.candidates):
        same = [one.k] == wanted and one.family.split(" (")[0] == method
        if same and np.isfinite(shown.judged.expected[place, at]):
            return place
    return None


def of_adaptive(shown: DecisionCase) -> Iterator[str]:
    """Say what to keep in mind of an arm that the decision takes and whose engine sets K."""
    taken = {place for place in shown.choice.server.at if place is not None}
    for place in sorted(taken):
        one = shown.judged.field.candidates[place]
        if one.chooser in ("adaptive", "match"):
            yield ADAPTIVE.format(arm=one.label)


# --- What is still open: what is at stake, and how many launches would settle it.


#: A rival that may be better by less than this (ratio) is no open question.
WORTH_SAYING = EQUIVALENCE


@dataclass(frozen=True)
class Stake:
    """How much better a rival may be than what is taken. ``size``: by how much (ratio) one may beat
    it at the load that is spoken about, at most; None where nothing repeats. ``rivals``: the places
    of the arms that may be better by more than is worth saying, the best first."""

    rivals: tuple[int, ...]
    size: float | None
    names: tuple[str, ...] = ()


def stake_of(shown: DecisionCase) -> Stake:
    """Return what is at stake at the load that is spoken about, among arms that may be taken there."""
    judged, at, mine = _spot(shown)
    if not judged.field.tails.known[:, at].any():
        return Stake((), None)
    size = np.expm1(at_stake(judged.field, judged.gains, at, mine))
    # Of an arm that is worse than the baseline nobody asks whether it is the best.
    lost = np.isin(judged.words[:, at].astype(str), [LOSS, LIKELY_LOSS])
    may = judged.grounds.open_to[:, at] & np.isfinite(size) & ~lost
    size = np.where(may, size, -1.0)
    order = [int(place) for place in np.argsort(-size) if size[place] > WORTH_SAYING]
    names = tuple(judged.field.candidates[place].label for place in order)
    return Stake(tuple(order), max(float(size.max(initial=0.0)), 0.0), names)


def _spot(shown: DecisionCase) -> tuple[Judged, int, int | None]:
    """Return the arms at the load that is spoken about: the judgement, the place of the load, and
    the place of what is taken there (None: nothing)."""
    choice = shown.choice
    drafts = choice.server.arm is not None
    if choice.column is not None:
        return choice.column, 0, choice.row if drafts else None
    return choice.judged, choice.figures, choice.best if drafts else None


def to_settle(shown: DecisionCase, stake: Stake) -> Iterator[Settle]:
    """Yield how many more launches would settle whether the arm pays at the load that is spoken
    about, which of the arms is better there, and whether it pays at the other loads at which the
    server drafts."""
    judged, at, mine = _spot(shown)
    if not judged.independent:
        return
    load = shown.choice.spot.load
    yield from _pays(
        judged, at, shown.choice.row if shown.choice.column else shown.choice.best, load
    )
    for rival in stake.rivals[:1]:
        if mine is None:
            break
        launches = launches_until(
            float(judged.gains[rival, at] - judged.gains[mine, at]), float(judged.field.variance[rival, at]),
            int(judged.field.launches[rival, at]), WORTH_SAYING,
        )  # fmt: skip
        if launches is not None:
            label = judged.field.candidates[mine].label
            yield Settle(load, label, launches, judged.field.candidates[rival].label)
    whole, here = shown.judged, {at for at, _ in shown.choice.spot.shares}
    for other, place in enumerate(shown.choice.server.at):
        if place is not None and other not in here and whole.there[place, other]:
            yield from _pays(whole, other, place, whole.loads[other])


def _pays(judged: Judged, at: int, place: int, load: Load) -> Iterator[Settle]:
    if judged.words[place, at] in SETTLED:
        return
    launches = launches_needed(
        float(judged.gains[place, at]), float(judged.field.variance[place, at]),
        int(judged.field.launches[place, at]), float(judged.rate[place, at]),
    )  # fmt: skip
    if launches is not None:
        yield Settle(load, judged.field.candidates[place].label, launches)
