"""Whether two arms ran the same engine, and what was compared by leave: for a decision's paragraph."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.choice.judged import Judged
from analysis.frames import listed
from analysis.matching.fields import READ, EngineDifference, differences, differing, sentence
from analysis.matching.pairing import shown
from answers.decide.read import Ground

#: Fields of a server: where one differs by leave, the arm without its drafts is no baseline.
_OF_A_SERVER = (
    "model", "model_revision", "precision", "engine", "engine_version", "gpu", "gpu_count",
    "tensor_parallel_size", "prefix_caching", "server_args",
)  # fmt: skip
_LEAVE = " (by leave)"


def engine_differences(known: Ground, setting: int, arm_id: int) -> tuple[EngineDifference, ...]:
    """Return in what an arm differs from its baseline: by leave, then what the method brings with
    equal arguments; each field once, as the first pair has it."""
    # Most warehouses say nothing of it, and every decision asks.
    if not known.tells_engines and not any(known.pairs[setting]["allowed"]):
        return ()
    rows = known.pairs[setting].drop_duplicates("speculative_id")
    found: dict[str, EngineDifference] = {}
    names = ("baseline_id", "speculative_id", "allowed")
    for baseline, arm, allowed in listed(rows[rows["arm_id"] == arm_id], *names):
        one, other = known.by_id.loc[baseline], known.by_id.loc[arm]
        engines = (tuple(cell.get(name) for name in READ) for cell in (one, other))
        for each in (*_by_leave(one, other, allowed), *differences(*engines)):
            found.setdefault(each.field, each)
    return tuple(found.values())


def off_is_baseline(known: Ground, setting: int, judged: Judged) -> NDArray[np.bool_]:
    """Return (candidates,): whether an arm's server with its drafts switched off is the baseline's."""
    return np.array([
        not any(x.matters for x in engine_differences(known, setting, one.arm_id))
        for one in judged.field.candidates
    ], dtype=np.bool_)  # fmt: skip


def engines_told(
    known: Ground, settings: Collection[int], arm_id: int, arm: str
) -> tuple[str, ...]:
    """Return what a paragraph says of an arm's engine beside its baseline's, each sentence once."""
    found = [engine_differences(known, setting, arm_id) for setting in settings]
    told = (words(one, arm) for one in found for words in (engine_words, allowed_words))
    return tuple(filter(None, dict.fromkeys(told)))


def engine_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what the engine of an arm, which is called ``arm``, differs with equal arguments; empty
    for nothing."""
    return sentence([one for one in found if one.cause != _LEAVE], arm)


def allowed_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what an arm differs from its baseline by leave, with both values; empty for
    nothing."""
    leave = [one for one in found if one.cause == _LEAVE]
    if not leave:
        return ""
    values = "; ".join(f"{one.baseline} in the baseline, {one.arm} in {arm}" for one in leave)
    differ = "differs" if len(leave) == 1 else "differ"
    return f"Compared by leave although {' and '.join(x.field for x in leave)} {differ}: {values}."


def _by_leave(one: Any, other: Any, allowed: tuple[str, ...]) -> Iterator[EngineDifference]:
    arguments = differing(one.get("server_args"), other.get("server_args"))
    for name in allowed:
        both = {name: (shown(one.get(name)), shown(other.get(name)))}
        kind = name.partition(".")[0]
        if kind == "server_args":
            both = {x: told for x, told in arguments.items() if name in (x, kind)} or both
        for field, (here, there) in both.items():
            yield EngineDifference(field, field, here, there, kind in _OF_A_SERVER, _LEAVE)
