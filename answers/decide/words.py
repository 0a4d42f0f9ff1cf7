"""The decision in sentences that a manager can repeat."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from answers.decide.values import (
    Decision,
    Difference,
    Entry,
    Forgone,
    Level,
    Objective,
    Saving,
    Settle,
    Traffic,
)
from answers.wording import ORIGINS, arm_words, directed, known, listed, percent
from warehouse.catalogue import METRICS, percentile_label
from warehouse.loads import Load

#: Evidence -> what must not be forgotten when its numbers are repeated.
EVIDENCE = {
    "cpu": f"{ORIGINS['cpu']}: this says nothing about the speed of a GPU.",
    "mock": f"{ORIGINS['mock']}: this says nothing about any model.",
    "dummy_weights": f"{ORIGINS['dummy_weights']}: acceptance means nothing here.",
    "simulated": f"{ORIGINS['simulated']}.",
}
#: What repeats without stated server starts have to be read with.
UNKNOWN_LAUNCHES = (
    "Which files shared a server start is not known, so nothing here is more than likely; say so "
    "with --set launch=NAME, one name for each start."
)
#: What a table of K has to be read with.
TABLE = (
    "The table of K is put together from arms with one K each: measure it as an arm of its own "
    "before you rely on it."
)
#: What an arm has to be read with whose engine sets K as it goes.
ADAPTIVE = (
    "The engine sets the draft tokens of {arm} as it goes, from what it sees: other traffic gives it "
    "other K, and what was measured holds for traffic like this."
)
#: More loads than this are told as a span where there is little room.
_FEW = 4
#: Word -> what an arm does at a load.
_DOES: dict[Word, str] = {
    GAIN: "pays", LIKELY_GAIN: "probably pays", OPEN: "is open",
    LIKELY_LOSS: "probably loses", LOSS: "loses",
}  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """The facts of a decision from which its sentences are made."""

    model: str | None
    evidence: str | None
    traffic: Traffic
    objective: Objective
    answer: str
    method: str
    k: int | None
    table: tuple[Entry, ...] | None
    levels: tuple[Level, ...]
    operating: Level | None
    saving: Saving | None
    nowhere_worse: float
    how: str = ""
    """Of an arm whose K is not fixed: how it is set."""


def headline(facts: Facts) -> str:
    """Say in one sentence whether to serve with speculation, with which arm, up to which load."""
    arm = arm_words(facts.method, facts.k, facts.how)
    if facts.table:
        arm = f"{arm_words(facts.method, None)} ({k_by_batch(facts.table)})"
    told = {
        "yes": f"Yes: serve with {arm}, {_reach(facts)}.",
        "at some loads": f"At some loads: {arm} {load_map(facts.levels)}.",
        "no": f"No: do not serve with speculation; the best arm, {arm}, {load_map(facts.levels)}.",
        "open": f"Open: {arm} is the best so far, but it is not settled that it pays: it "
        f"{load_map(facts.levels)}.",
    }
    return told[facts.answer]


def k_by_batch(table: Sequence[Entry]) -> str:
    """Write a table of K: ``5 draft tokens in batches up to 2, 3 up to 5, then no drafts``."""
    (_, end, first), *rest = table
    told = [f"{first or 'no'} draft token{'' if first == 1 else 's'} in batches up to {end}"]
    told += [f"{k or 'no drafts'} up to {end}" for _, end, k in rest[:-1]]
    return f"{', '.join(told)}, then {rest[-1][2] or 'no drafts'}" if rest else told[0]


def _reach(facts: Facts) -> str:
    if all(level.difference.word == GAIN for level in facts.levels):
        measured = loads_listed([level.load for level in facts.levels])
        return f"at every load measured ({measured})"
    return f"nowhere more than {facts.nowhere_worse * 100:g} % worse"


def load_map(levels: Sequence[Level]) -> str:
    """Say what happens at which loads, gains first: ``pays at 8 to 128 at once, loses at 1 at
    once``."""
    parts = []
    for word, does in _DOES.items():
        loads = [level.load for level in levels if level.difference.word == word]
        if loads:
            parts.append(f"{does} at {loads_listed(loads)}")
    return ", ".join(parts)


def loads_listed(loads: Sequence[Load]) -> str:
    """List loads in words: ``1, 4 and 16 at once``; loads of other kinds by their own names."""
    kinds = {load.kind for load in loads}
    if kinds == {"concurrency"}:
        return f"{listed([load.short for load in loads], 6)} at once"
    return listed([load.text for load in loads], 6)


def loads_short(loads: Sequence[Load]) -> str:
    """List loads where there is little room: ``1, 4, 16``; a span where there are many."""
    names = [load.short for load in loads]
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} to {names[-1]}"


def brief(one: Decision) -> str:
    """Return the headline and what happens at the operating load."""
    return (
        one.headline if one.operating is None else f"{one.headline} {_at_operating(one.operating)}"
    )


def change(difference: Difference) -> str:
    """Write a difference in words, ``20.7 % more output tokens per second (95 %: 18.2 to 23.3 %)``,
    the interval in the direction of the word."""
    size = difference.improvement
    if size is None:
        return f"an unknown change of {METRICS[difference.metric].label}"
    better, worse = METRICS[difference.metric].changes
    words = better if size >= 0 else worse
    statistic = _statistic(difference)
    ends = directed(difference.low, difference.high, size >= 0)
    sure = f" (95 %: {ends})" if ends else " (one launch: no interval)"
    return f"{percent(size, sign=False)} {words}{statistic}{sure}"


def _statistic(difference: Difference) -> str:
    metric = METRICS[difference.metric]
    return f" ({percentile_label(difference.statistic)})" if metric.distribution else ""


def paragraph(facts: Facts, extra: Sequence[str]) -> str:
    """Return the headline, what happens at the operating load, what it saves, and what to keep in
    mind."""
    model = facts.model or "an unknown model"
    parts = [f"{model} on {facts.traffic.name}: {headline(facts)}"]
    if facts.operating is not None:
        parts.append(_at_operating(facts.operating))
    if facts.saving is not None:
        parts.append(saved(facts.saving))
    parts += [sentence for sentence in extra if sentence]
    if facts.evidence in EVIDENCE:
        parts.append(EVIDENCE[facts.evidence])
    return " ".join(parts)


def _at_operating(level: Level) -> str:
    if level.num_speculative_tokens == 0:
        return (
            f"At {level.load.text} drafting nothing is expected to be best; {level.arm} gives "
            f"{change(level.difference)} there: {level.difference.word}."
        )
    return f"At {level.load.text}, {level.arm} gives {change(level.difference)}: {level.difference.word}."


def weighed(expected: float, measured: float) -> str:
    """Say what an arm's own launches say, where another gain is expected of it."""
    return (
        f"Its own launches say {percent(measured)} there; {percent(expected)} is expected when all arms and loads "
        "are weighed together, since each scatters."
    )


def saved(saving: Saving) -> str:
    """Say what an output token costs less or more at the operating load, and how sure that is."""
    size = percent(saving.per_output_token, sign=False)
    direction = "less" if saving.per_output_token >= 0 else "more"
    ends = directed(saving.low, saving.high, saving.per_output_token >= 0)
    sure = f" (95 %: {ends})" if ends else ""
    if saving.word in (GAIN, LOSS):
        return f"An output token costs {size} {direction} there on the same hardware{sure}."
    how = "probably " if saving.word in (LIKELY_GAIN, LIKELY_LOSS) else "perhaps "
    return f"An output token {how}costs {size} {direction} there on the same hardware{sure}."


def against(load: Load, arm: str, difference: Difference, dataset: str | None = None) -> str:
    """Say what became worse: ``ngram K=3 at 1 at once: 10.2 % longer time to first token (P95),
    settled``."""
    sure = "settled" if difference.word == LOSS else "likely"
    place = f"{arm} on {dataset}" if dataset else arm
    return f"{place} at {load.text}: {change(difference)}, {sure}"


def stake(rivals: Sequence[str], at_stake: float | None, load: Load | None) -> str:
    """Say what the choice of K or method leaves open, at the load where that is most."""
    if at_stake is None:
        return "One launch of each arm cannot tell a gain from luck: run at least three."
    if not rivals or load is None:
        return ""
    size = percent(at_stake, sign=False)
    return f"{listed(list(rivals))} may be better at {load.text}: open, at most {size} at stake."


def settle(needed: Sequence[Settle]) -> str:
    """Say how many more launches would settle what is open: the largest number of all loads."""
    if not needed:
        return ""
    most = max(needed, key=lambda one: one.launches)
    launches = "1 more launch" if most.launches == 1 else f"{most.launches} more launches"
    return f"{launches} of each arm would settle what can be settled."


def forgone(one: Forgone) -> str:
    """Say what one arm for all traffic gives up on a dataset."""
    return (
        f"On {one.dataset} alone {one.best} is expected to be {percent(one.loss, sign=False)} better "
        "than this one arm for all."
    )


def title(decision: Decision) -> str:
    """Return what a decision is about, in one line."""
    about = decision.subject
    parts = [
        known(about.model), known(about.gpu), f"TP {known(about.tensor_parallel_size)}",
        f"{known(about.engine)} {known(about.engine_version)}", decision.traffic.name,
    ]  # fmt: skip
    return ", ".join([*parts, *([about.configuration] if about.configuration else [])])
