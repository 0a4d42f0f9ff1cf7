"""The arms that may be taken, and what each is expected to gain at each load.

The highest of several noisy means overstates itself, so an arm is not taken at its own word:

1. Within a method, acceptance is counted over thousands of drafts and is nearly free of noise; what
   scatters is the time of a step, and that is smooth in K. log(step time) = log(mean acceptance
   length) - log(speed) is taken apart, over K with the baseline as K = 0, into what drafting at all
   costs and orthogonal polynomials. That cost and a straight line are kept whole: a line through the
   baseline would give the smallest K a speed that nobody measured, since the first token costs more
   than the next. Of each higher degree the share is kept that noise does not explain over all loads.
   Where nothing was repeated the noise is unknown: then arms are taken at their word.
2. Among the arms of a setting, distances from their mean are shrunken by the share that noise
   explains (positive-part shrinkage; Efron and Morris 1973, doi:10.1080/01621459.1973.10481350): an
   arm's mean over the loads, and its own way over them, each by its own share.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.launches import Tails
from analysis.frames import records
from analysis.matching.arms import choosers, config_of, families
from analysis.matching.comparison import Comparison
from warehouse.contract import Chooser, Entry, steps_of, table_of

# --- One setting as numbers: every arm at every load against the baseline, in one objective.


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One arm: ``arm_id`` as ``Comparison`` numbers it; ``family``: its method and draft without K;
    ``k``: draft tokens, None where unknown or where they are not fixed: then ``chooser`` says who
    sets them, and ``table`` is their table by batch size, where it is one."""

    arm_id: int
    label: str
    family: str
    k: int | None
    chooser: Chooser | None = None
    table: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Field:
    """The arms of one setting and what was measured of each at each load. ``log`` (candidates,
    loads): log ratio of launch means, positive is better, NaN where not compared; ``launches``
    alike. ``variance`` (candidates, loads): of one launch's value, ``tails``: how well it is known;
    ``shared`` (candidates,): variance of a launch's mean over the loads. ``length`` (candidates,
    loads): mean acceptance length, NaN where unknown. Variances are NaN where nothing repeats."""

    candidates: tuple[Candidate, ...]
    log: Floats
    launches: Floats
    variance: Floats
    tails: Tails
    shared: Floats
    length: Floats

    @property
    def own_error(self) -> Floats:
        """The variance of each arm's own mean at each load, without that of the baseline's mean."""
        return self.variance / np.maximum(self.launches, 1)

    def has_measured(self, table: tuple[Entry, ...]) -> bool:
        """Whether a candidate drafted by this table of K."""
        steps = steps_of(table)
        return len(steps) > 1 and any(steps_of(one.table) == steps for one in self.candidates)

    def families(self) -> dict[str, list[int]]:
        """Return family -> the places of its candidates, by K."""
        found: dict[str, list[int]] = {}
        for place, one in enumerate(self.candidates):
            found.setdefault(one.family, []).append(place)
        return {name: sorted(at, key=lambda p: self.candidates[p].k or 0)
                for name, at in found.items()}  # fmt: skip


# --- The arms of each setting that may be taken, each under a name of its own.


_FACTS = ("cell_id", "arm_label", "spec_method", "num_speculative_tokens", "speculative_config")


def candidates(
    comparison: Comparison, cells: pd.DataFrame, arms: frozenset[str]
) -> dict[int, list[Candidate]]:
    """Return setting -> its arms with one of the labels ``arms``; empty: all. ``cells`` as the
    query of that name returns them. Arms are ordered by what they are: their numbers depend on what
    else was read."""
    once = comparison.pairs.drop_duplicates(["setting", "arm_id"])[
        ["setting", "arm_id", "speculative_id"]
    ]
    facts = cells.reindex(columns=list(_FACTS))
    facts = facts.assign(family=families(cells), chooser=choosers(cells))
    rows = once.astype({"speculative_id": object}).merge(
        facts, left_on="speculative_id", right_on="cell_id"
    )
    made: dict[int, list[Candidate]] = {}
    order = ["setting", "family", "num_speculative_tokens", "arm_label", "arm_id"]
    for row in records(rows.sort_values(order)):
        if not arms or row["arm_label"] in arms:
            k, chosen = row["num_speculative_tokens"], row["chooser"]
            made.setdefault(int(row["setting"]), []).append(Candidate(
                arm_id=int(row["arm_id"]),
                label=str(row["arm_label"]),
                family=str(row["family"]),
                k=None if pd.isna(k) or chosen is not None else int(k),
                chooser=chosen,
                table=table_of(config_of(row["speculative_config"])),
            ))  # fmt: skip
    for setting, alike in made.items():
        labels = Counter(one.label for one in alike)
        # Arms of one label get what they draft with: ``eagle3 K=3 (small)``.
        made[setting] = [
            replace(one, label=one.label + "".join(one.family.partition(" (")[1:]))
            if labels[one.label] > 1 else one
            for one in alike
        ]  # fmt: skip
    return made


# --- What each arm is expected to gain at each load, when all that was measured is weighed together.


#: What every step time is taken to hold: a level, the cost of drafting at all, one for each token.
_WHOLE = 3
#: The least share that is kept: tells arms apart that noise explains wholly.
_LEAST = 1e-6
#: Fewer arms than this have no scatter to judge by.
_FEWEST_ARMS = 3


def expected_gains(field: Field) -> Floats:
    """Return expected log ratios (candidates, loads), positive is better; NaN where not
    compared."""
    # Step times are smoothed over K; ``kept``: the share of its noise that each arm keeps.
    gains, kept = field.log.copy(), np.ones(len(field.candidates))
    for places in field.families().values():
        ks = [field.candidates[place].k for place in places]
        rows = np.array(places)
        if None in ks or len(set(ks)) < len(ks) or len(ks) < _WHOLE:
            continue
        steps = np.log(field.length[rows]) - field.log[rows]
        there = np.isfinite(steps).all(axis=0)
        if not np.isfinite(field.own_error[rows][:, there]).any():
            continue
        curve = np.array([0.0, *(float(k or 0) for k in ks)])
        smooth, share = _smoothed(curve, steps[:, there], field.own_error[rows][:, there])
        gains[np.ix_(rows, there)] = np.log(field.length[np.ix_(rows, there)]) - smooth
        kept[rows] = share
    return _shrunken(field, gains, kept)


def _smoothed(ks: Floats, steps: Floats, error: Floats) -> tuple[Floats, float]:
    """Return ``steps`` (K without the baseline, loads) made as smooth in K as noise allows, and the
    share of a point's noise that is left. ``ks`` starts with the baseline's 0, whose step is 0."""
    points = np.vstack([np.zeros(steps.shape[1]), steps])
    drafts = np.vander(ks / ks.max(), len(ks) - 1, increasing=True)
    shapes = np.linalg.qr(np.insert(drafts, 1, ks > 0, axis=1))[0]
    held = shapes.T @ points
    # The baseline's error is taken to be that of an arm with as many launches, and one that is not
    # known to be that of the others.
    known = np.where(np.isfinite(error), error, error[np.isfinite(error)].mean())
    ratios = (held**2 / known.mean(axis=0)).mean(axis=1)
    keep = np.array([1.0 if at < _WHOLE else _own_share(x, 1.0) for at, x in enumerate(ratios)])
    smooth = shapes @ (keep[:, None] * held)
    return smooth[1:] - smooth[0], float((keep**2).mean())


def _own_share(square: float, noise: float) -> float:
    """Return the share of a mean square that noise does not explain: all of it without any noise.

    It is smallest where the noise is unknown. It is never 0, so that equal arms keep their order,
    whatever order they were read in.
    """
    ratio = square / noise if noise > 0 else 1e12
    return max(_LEAST, 1 - 1 / ratio) if np.isfinite(ratio) and ratio > 0 else _LEAST


def _shrunken(field: Field, gains: Floats, kept: Floats) -> Floats:
    """Shrink ``gains`` towards the mean of all arms as far as noise explains their distances."""
    there = np.isfinite(gains)
    known = np.isfinite(field.own_error) & there
    if len(gains) < _FEWEST_ARMS or not known.any():
        return gains
    centre = _mean(gains, there, axis=0)
    apart = np.where(there, gains - centre, 0.0)
    arms = _mean(apart, there, axis=1)
    ways = np.where(there, apart - arms, 0.0)
    noise = kept[:, None] * np.where(known, field.own_error, 0.0)
    of_arm = (kept * field.shared / np.maximum(field.launches.max(axis=1), 1)).mean()
    of_way = max(float(noise.sum() / known.sum()) - of_arm, 0.0)
    spare = len(gains) - 1
    keep_arm = _own_share(float((arms**2).sum() / spare), of_arm)
    ways_spare = max(int(there.sum()) - gains.shape[1] - spare, 1)
    keep_way = _own_share(float((ways**2).sum() / ways_spare), of_way)
    return np.where(there, centre + keep_arm * arms + keep_way * ways, np.nan)


def _mean(values: Floats, there: Floats, axis: int) -> Floats:
    count = np.maximum(there.sum(axis=axis, keepdims=True), 1)
    return np.asarray(np.where(there, values, 0.0).sum(axis=axis, keepdims=True) / count)
