"""What a decided search would have one server do: one method, and its K at each load."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.dynamic_k import dynamic_table
from analysis.drafts.serve_line import speculative_config
from analysis.evidence.output_check import COLUMNS, TOKENS, Parting, parting
from analysis.search.belief import Belief, believe
from analysis.search.proof import FreshProof, proof
from analysis.search.space import (
    BASELINE,
    SearchArm,
    SeenLaunches,
    Space,
    config_of,
    method_of,
)
from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.words import brief, k_by_batch
from answers.search.measured import bare, measured, of_traffic
from answers.search.values import (
    ExcludedArm,
    LiveSearch,
    ProofAnswer,
    ProvenGain,
    SearchPlan,
    SearchReport,
    Winner,
    WinnerProof,
)
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

_AT = ["dataset", "concurrency"]


def answering_otherwise(reader: Reader, study: str, baseline: str) -> tuple[ExcludedArm, ...]:
    """Return the arms whose answers part from the baseline's more often than by rounding.

    Of every arm one cell of each dataset and load is read. Cells above temperature 0, answers that were
    not kept, and those of dummy weights, among which near ties are common, tell nothing.
    """
    cells = queries.cells(reader, Filters(study=(study,))).to_pandas()
    telling = (cells["temperature"] == 0) & (cells["evidence"] != "dummy_weights")
    greedy = cells[(cells["status"] == "good") & telling]
    rows = greedy.sort_values("started_at").astype({"cell_id": object})
    # How soon the first two launches of the baseline part, where there are two.
    twice = (ids["cell_id"].tolist()[:2] for _, ids in rows[rows["arm"] == baseline].groupby(_AT))
    own = sum((_parting(reader, *pair) for pair in twice if len(pair) == 2), Parting())
    first = rows.drop_duplicates(["arm", *_AT])[["arm", "cell_id", *_AT]]
    out = []
    for arm in rows["arm"].dropna().unique():
        if arm == baseline:
            continue
        pairs = first[first["arm"] == baseline].merge(first[first["arm"] == arm], on=_AT)
        met = zip(pairs["cell_id_x"], pairs["cell_id_y"], strict=True)
        found = sum((_parting(reader, *pair) for pair in met), Parting())
        if found.is_other(own):
            why = (
                f"it does not answer as the baseline at temperature 0: {found.parted} of {found.texts} answers "
                f"differ, after {found.tokens / found.parted:.0f} tokens on average; rounding alone makes fewer than "
                f"one in {TOKENS} differ, and --any-outputs takes the arm all the same"
            )
            out.append(ExcludedArm(str(arm), why))
    return tuple(out)


def _parting(reader: Reader, baseline: str, other: str) -> Parting:
    return parting(
        *(queries.requests(reader, cell, COLUMNS).to_pandas() for cell in (baseline, other))
    )


def winner(space: Space, seen: SeenLaunches, belief: Belief) -> Winner:
    """Return the method that is expected to be the fastest over all places, each counting alike, with
    the K of each load. A change of K between loads has to gain something (``dynamic_table``)."""
    best, found = 0.0, Winner(None, np.zeros(len(space.places), dtype=np.int64), "", "no drafts")
    for family, arms in space.families().items():
        able = [BASELINE, *(arm for arm in arms if arm not in seen.out)]
        served = _served(space, seen, belief, family, able, "winner")
        if served is not None and (gain := _gain(belief, served.arms)) > best:
            best, found = gain, served
    return found


def runner_up(space: Space, seen: SeenLaunches, belief: Belief, best: Winner) -> Winner | None:
    """Return what would have been served without the winner: the single arm that is expected to be
    the fastest over all places, with its one K; None without another."""
    served = (
        _served(space, seen, belief, family, [arm], "runner-up")
        for family, arms in space.families().items()
        for arm in arms
        if not seen.shut[arm].any()
    )
    others = [one for one in served if one and not np.array_equal(one.arms, best.arms)]
    return max(others, key=lambda one: _gain(belief, one.arms), default=None)


def _gain(belief: Belief, arms: NDArray[np.int64]) -> float:
    places = np.arange(len(arms))
    return float((belief.expected[arms, places] - belief.expected[BASELINE]).mean())


def _served(
    space: Space, seen: SeenLaunches, belief: Belief, family: str, able: list[int], role: str
) -> Winner | None:
    """Return a method with the K of each load, of those arms; None where nothing is drafted."""
    loads = np.array([place.load for place in space.places])
    gain = belief.expected - belief.expected[BASELINE]
    # What may be chosen at each load; the first of the arms where none may.
    worth = pd.DataFrame(
        [
            {"concurrency": int(load), "k": space.arms[arm].k,
             "worth": float(np.exp(gain[arm, loads == load].mean()))}
            for load in np.unique(loads)
            for arm in ([x for x in able if not seen.shut[x, loads == load].any()] or able[:1])
        ]
    )  # fmt: skip
    table = dynamic_table(worth)
    if not table.largest:
        return None
    at_load, of_k = dict(table.by_load), {space.arms[arm].k: arm for arm in able}
    taken = np.array([of_k[at_load[int(place.load)]] for place in space.places])
    words = f"K={table.largest}" if len(table.entries) == 1 else k_by_batch(table.entries)
    like = space.arms[int(taken.max())].label
    methods = [method_of(one) for one in space.families()]
    if len(methods) > 1:
        # Of two arms of one method only their names tell which is meant.
        mine = method_of(family)
        words = f"{mine if methods.count(mine) == 1 else like}: {words}"
    config = json.dumps(speculative_config({"speculative_config": config_of(family)}, table))
    return Winner(config, taken, like, words, role)


# --- What fresh launches prove of the winner of a search: promised and proven gain, told apart.


#: How often the winner, the runner-up and the baseline are launched.
LAUNCHES = 2
#: Answers, those that say the least for drafting first.
_RISING = ("no", "open", "at some loads", "yes")


def proven(
    reader: Reader,
    planned: SearchPlan,
    now: LiveSearch,
    study: str,
    refused: tuple[ExcludedArm, ...] = (),
) -> SearchReport:
    """Return the search with what its proof says; without one as long as the launches of the winner or
    of the baseline are not whole. A runner-up whose launches are not is compared with nothing.

    ``study``: the name of the proof's; ``refused``: arms of the proof whose answers keep them from being
    taken.
    """
    known, taken, rival = now.known, now.winner, now.rival
    if known is None or taken is None or taken.config is None:
        return now.told
    # The launches (launches, places) of the baseline, of the winner, and of the runner-up where
    # there is one; of each those that measured every place.
    ones = [one for one in (now.winner, now.rival) if one is not None]
    space, terms = bare(planned), now.told.terms
    arms = (space.arms[0], *(SearchArm(one.name, one.role, 1) for one in ones))
    fresh = measured(reader, study, replace(space, arms=arms), terms)
    _, seen = of_traffic(fresh.space, fresh.seen, terms)
    whole = [one for one in seen.launches if one.measured.all()]
    speeds = ([one.speed for one in whole if one.arm == arm] for arm in range(len(arms)))
    baseline, winner, *others = [np.array(rows) if rows else np.empty((0, 0)) for rows in speeds]
    if min(len(baseline), len(winner)) < LAUNCHES:
        return now.told
    stake, belief = now.told.terms.stake, believe(*known)
    found = proof(belief, taken.arms, winner, baseline, stake)
    both = [found]
    ahead: tuple[ProvenGain, ...] = ()
    if rival is not None and len(others[0]) >= LAUNCHES:
        beside = proof(belief, taken.arms, winner, others[0], stake, rival.arms)
        both, ahead = [found, beside], _gains(known[0], beside)
    kept = all(one.kept(len(both) * len(taken.arms)) for one in both)
    answer, decision, paste, more = _decided(reader, study, now.told)
    repeats = None
    if answer == "open" and more is not None:
        repeats = min(len(baseline), len(winner)) + more
    why = next((one.why for one in refused if one.arm == taken.name), None)
    told = WinnerProof(
        taken.config, taken.words, kept, answer, decision, paste, _gains(known[0], found),
        None if rival is None else rival.words, ahead, why, study, repeats,
    )  # fmt: skip
    return replace(now.told, proof=told)


def _decided(
    reader: Reader, study: str, report: SearchReport
) -> tuple[ProofAnswer, str, str | None, int | None]:
    """Return the decision on the study of the proof, as every page takes it: on the mix, on the only
    dataset, or on each where they cannot be mixed: the answer, which is the one that says the least for
    drafting, its words, what to paste, and how many more launches of each arm would settle what is open."""
    found = decide(reader, report.terms.question(Filters(study=(study,))))
    if not found.decisions:
        return "none", found.why_none or "", None, None
    (one, *_) = overviews(found.decisions)
    alone = len(one.leads) == 1
    words = (brief(lead) if alone else f"{one.place(lead)}: {brief(lead)}" for lead in one.leads)
    configs = {lead.config for lead in one.leads}
    return (
        min((lead.answer for lead in one.leads), key=_RISING.index), " ".join(words),
        configs.pop() if len(configs) == 1 else None,
        max((needed.launches for lead in one.leads for needed in lead.settle), default=None),
    )  # fmt: skip


def _gains(space: Space, found: FreshProof) -> tuple[ProvenGain, ...]:
    return tuple(
        ProvenGain(
            place.traffic, place.load, *found.promised.ratios(at), *found.proven.ratios(at),
            float(found.surprise[at]),
        )
        for at, place in enumerate(space.places)
    )  # fmt: skip
