"""What broken answers do to a decision: arms that are no candidates, what speaks against, doubts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from analysis.choice.judged import Judged
from analysis.drafts.acceptance_tables import believed
from analysis.evidence.words import LIKELY_LOSS
from analysis.frames import plain, records
from answers.broken import BrokenAnswers
from answers.decide.read import Ground
from answers.decide.shown import Shown
from answers.decide.values import Against, Decision, Difference

#: Drafts that yield fewer tokens a step than this do nothing.
_NOTHING = 1.1
#: How the names of datasets begin whose prompts a load generator makes.
_RANDOM = ("random", "synthetic")
_UNKNOWN = Difference("output_tokens", "p05", LIKELY_LOSS, None, None, None, None, None)


def broken_answers(known: Ground, setting: int) -> tuple[BrokenAnswers, ...]:
    """Return the arms of a setting whose answers break, at each load; settled ones first."""
    return known.broken.get(setting, ())


def sound(known: Ground, setting: int, judged: Judged) -> Judged:
    """Return the judgement without the arms whose answers are settled to break; as it is where there is
    no other."""
    out = {one.arm_id for one in broken_answers(known, setting) if one.settled}
    arms = [at for at, one in enumerate(judged.field.candidates) if one.arm_id not in out]
    if not out or not arms:
        return judged
    measured = np.flatnonzero(np.isfinite(judged.field.log[arms]).any(axis=0))
    return judged.narrowed([judged.loads[at] for at in measured], arms)


def with_broken(
    one: Decision, known: Ground, settings: Sequence[int], shown: Shown, arms: frozenset[str]
) -> Decision:
    """Return the decision with the arms named first whose answers break, a no where there is no other,
    and with what probably breaks against it. ``arms``: labels of those asked about; none: all."""
    every = [told for setting in settings for told in broken_answers(known, setting)]
    there = dict.fromkeys(shown.taken_at())
    arms_there = dict.fromkeys(arm for _, arm in there)
    likely = [x for x in every if not x.settled and (x.load, x.arm_id) in there]
    out = {x.arm_id: x for x in every[::-1] if x.settled and (not arms or x.arm in arms)}
    first = " ".join(f"{told.told}, so it is no candidate." for told in out.values())
    doubts = dict.fromkeys(
        x for s in settings for arm in arms_there for x in answer_doubts(known, s, arm)
    )
    against = tuple(Against(x.load, x.arm, _UNKNOWN, f"{x.told}: likely") for x in likely)
    about, _, rest = one.paragraph.partition(": ")
    told = [first, rest, *(f"Against it: {x.sentence}." for x in against), *doubts]
    one = replace(
        one, against=(*against, *one.against), doubts=(*one.doubts, *doubts),
        paragraph=f"{about}: {' '.join(filter(None, told))}",
    )  # fmt: skip
    if not out or any(x.arm_id not in out for x in shown.judged.field.candidates):
        return one
    return replace(
        one, answer="no", saving=None, config=None, serve=None, headline=f"No: {first}",
        paragraph=f"{about}: No: {first}",
    )  # fmt: skip


def answer_doubts(known: Ground, setting: int, arm_id: int) -> Iterator[str]:
    """Yield what makes the answers of an arm unlike those of real traffic: drafts that do nothing,
    made-up prompts, answers forced past their end."""
    keys = records(known.found.keys.loc[[(setting, arm_id)]])[0]
    mine = known.pairs[setting]["arm_id"] == arm_id
    cells = set(known.pairs[setting].loc[mine, "speculative_id"].astype(object))
    said = believed(known.acceptance[known.acceptance["cell_id"].isin(cells)])["mean_length"]
    length = float(said.astype(np.float64).mean())
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
