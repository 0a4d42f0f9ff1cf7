"""What broken answers do to a decision: arms that are no candidates, what speaks against, doubts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from analysis.choice.judged import Judged
from analysis.drafts.acceptance import believed
from analysis.evidence.words import LIKELY_LOSS
from analysis.frames import plain, records
from answers.broken import BrokenAnswers
from answers.decide.read import Ground
from answers.decide.shown import Shown
from answers.decide.values import Against, Difference

#: Drafts that yield fewer tokens a step than this do nothing.
_NOTHING = 1.1
#: How the names of datasets begin whose prompts a load generator makes.
_RANDOM = ("random", "synthetic")
_UNKNOWN = Difference("output_tokens", "p05", LIKELY_LOSS, None, None, None, None, None)


def broken_answers(known: Ground, setting: int) -> tuple[BrokenAnswers, ...]:
    """Return the arms of a setting whose answers break, at each load; settled ones first."""
    return known.broken.get(setting, ())


def with_barred(known: Ground, setting: int, judged: Judged) -> Judged:
    """Return the judgement in which arms whose answers are settled to break may not be taken."""
    out = {one.arm_id for one in broken_answers(known, setting) if one.settled}
    places = [at for at, one in enumerate(judged.field.candidates) if one.arm_id in out]
    return replace(judged, barred=frozenset(places))


def named_first(known: Ground, settings: Sequence[int], shown: Shown) -> tuple[str, ...]:
    """Return a sentence, without its full stop, for each arm that is no candidate since its answers
    break."""
    arms = {one.arm_id for one in shown.judged.field.candidates}
    every = [one for setting in settings for one in broken_answers(known, setting)]
    out = {one.arm_id: one for one in every[::-1] if one.settled and one.arm_id in arms}
    return tuple(f"{one.told}, so it is no candidate" for one in out.values())


def likely_broken(known: Ground, settings: Sequence[int], shown: Shown) -> Iterator[Against]:
    """Yield what probably breaks of the answers that the server as pasted would give."""
    there = set(shown.drafts_at())
    for one in (one for setting in settings for one in broken_answers(known, setting)):
        if not one.settled and (one.load, one.arm_id) in there:
            yield Against(one.load, one.arm, _UNKNOWN, f"{one.told}: likely")


def answer_doubts(known: Ground, setting: int, arm_id: int) -> Iterator[str]:
    """Yield what makes the answers of an arm unlike those of real traffic: drafts that do nothing,
    made-up prompts, answers forced past their end."""
    keys = records(known.found.keys.loc[[(setting, arm_id)]])[0]
    mine = known.pairs[setting]["arm_id"] == arm_id
    cells = set(known.pairs[setting].loc[mine, "speculative_id"].astype(object))
    said = believed(known.acceptance[known.acceptance["cell_id"].isin(cells)])["mean_length"]
    length = float(said.astype(np.float64).max())
    if length < _NOTHING:
        yield (
            f"The drafts of {keys['arm_label']} do nothing: a step yields {length:.2f} tokens, so what "
            "differs comes from elsewhere."
        )
    if str(keys["dataset"]).lower().startswith(_RANDOM):
        yield (
            f"The prompts ({keys['dataset']}) were made by the load generator: what is accepted there says "
            "nothing of real traffic, so measure with your own."
        )
    if plain(keys["ignore_eos"]):
        yield (
            "Answers were forced past their end (ignore_eos), where texts repeat themselves: drafts are "
            "accepted there that real answers do not have."
        )
