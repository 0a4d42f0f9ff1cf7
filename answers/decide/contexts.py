"""Which K for long prompts: the decision at each measured length of prompt, and whether one server suffices.

No engine takes K by the length of a prompt (vLLM by batch size alone), so where lengths want different arms
the answer is a split of the traffic.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import isfinite, nan
from statistics import median
from typing import Any, Literal

from msgspec import to_builtins

from analysis.choice.operating import is_load, wish
from analysis.evidence.words import EQUIVALENCE, GAIN, LIKELY_LOSS, LOSS
from analysis.frames import listed as rows_listed
from analysis.matching.arms import BASELINE
from analysis.prediction.step_time import LENGTHS_APART
from answers.decide import answer, tables, values, words
from answers.wording import UNKNOWN, TextRows, listed, percent
from warehouse.store import Reader

Servers = Literal["one", "split", "unknown"]


@dataclass(frozen=True)
class PromptContext:
    """One measured length of prompt. ``name``: in words; ``shortest``, ``longest``: mean tokens of
    its datasets' prompts; ``share``: of the output tokens (0-1); ``better``: what is better there than the arm that is
    best over all lengths ("baseline": no drafts), at least likely, None: nothing is known to be; ``at_stake``: by how
    much (ratio) something may be better than that arm, at most, None: unknown, or it is open which is best."""

    name: str
    shortest: float
    longest: float
    datasets: tuple[str, ...]
    share: float
    decision: values.Decision
    better: str | None
    at_stake: float | None


@dataclass(frozen=True)
class ArmReach:
    """Up to which length an arm pays. ``no_longer_from``: the mean tokens of the first context from which on it
    does not although it does before; None: no such length was measured."""

    arm: str
    no_longer_from: float | None
    sentence: str


@dataclass(frozen=True)
class SubjectContexts:
    """All contexts of one model on one hardware with one engine. ``one``: the decision for all lengths together;
    ``servers``: whether that suffices; ``split``: else the arm of each
    context, served apart; ``tokens_per_s``: output of a server with one arm for all and, servers in proportion to the
    traffic, with the split; None: unknown."""

    one: values.Decision
    contexts: tuple[PromptContext, ...]
    arms: tuple[ArmReach, ...]
    servers: Servers
    split: tuple[str, ...]
    tokens_per_s: tuple[float, float] | None
    doubts: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Whether one server suffices, and what a split is worth."""
        alike = len({round(one.share, 6) for one in self.contexts}) == 1
        mix = "equal shares of all lengths" if alike else self.one.traffic.name
        on = f"{words.at_load(self.one.operating)}, on {mix}"
        if self.servers == "one":
            most = percent(EQUIVALENCE, sign=False)
            return f"One server suffices {on}: {_with(self.one.takes)}, nothing else that is compared is better by more than {most} at any length."
        if self.servers == "unknown":
            risks = [
                f"at {one.name} {'it is open which' if one.at_stake is None else f'by up to {percent(one.at_stake, sign=False)}'}"
                for one in self.contexts if one.at_stake is None or one.at_stake > EQUIVALENCE
            ]  # fmt: skip
            return (
                f"Whether one server suffices {on} cannot be said: {_with(self.one.takes)}, the best over all lengths, something "
                f"else may be better ({listed(risks)}). More launches would tell."
            )
        told, last = [], self.contexts[-1]
        for arm, group in groupby(
            zip(self.contexts, self.split, strict=True), lambda pair: pair[1]
        ):
            end = [one for one, _ in group][-1]
            told.append(
                f"{'above' if end is last else f'up to {_tokens(end.longest)}'} {_with(arm)}"
            )
        worth = "what that is worth in tokens is unknown"
        if self.tokens_per_s is not None:
            old, new = self.tokens_per_s
            worth = (
                f"likely worth {percent(new / old - 1, sign=False)} more output tokens ({new:,.0f} instead of {old:,.0f} "
                f"tokens/s a server, servers in proportion to the traffic) than all {_with(self.one.takes)}"
            )
        several = len({*self.split})
        return f"{'Two' if several == 2 else several} servers, {', '.join(told)} {on}: {worth}."


HOW = (
    f"A context holds the datasets whose mean prompts are less than {LENGTHS_APART:g} times as long as its shortest; "
    "between and beyond the measured lengths nothing is known. No engine takes K by the length of a prompt (vLLM by "
    "batch size alone), so other arms for other lengths take servers of their own, each measured at the same load."
)
_ONE_LENGTH = (
    "No results are of prompts of two lengths at one load ({}): state prompt_tokens in the study (docs/tuning.md), or "
    f"take in results of prompts {LENGTHS_APART:g} times as long or more."
)


def by_context(
    reader: Reader, question: values.DecideQuestion
) -> tuple[SubjectContexts, ...] | str:
    """Return what is known by length of prompt, each decision standing on its whole study, or why nothing is.
    Raises as ``decide``."""
    known, wanted = answer.grounds(reader, question), dict(question.mix)
    deciding = answer.judged_on(known, replace(question, mix=()))
    every, pairs = deciding.decisions(), known.found.pairs
    rows = pairs[(pairs["metric"] == "prompt_tokens") & (pairs["statistic"] == "mean")]
    prompts = dict(rows_listed(rows, "baseline_id", "baseline"))
    setting_of = dict(rows_listed(pairs, "speculative_id", "setting"))
    lengths: dict[values.DecisionSubject, dict[str, float]] = {}
    settings: dict[values.DecisionSubject, int] = {}
    for one in every.decisions:
        name, met = one.traffic.dataset, [pair for arm in one.arms for pair in arm.pairs]
        told = [prompts[old] for old, _ in met if old in prompts]
        if told and name is not None and (not wanted or name in wanted):
            lengths.setdefault(one.subject, {})[name] = median(told)
            settings[one.subject] = setting_of[met[0][1]]
    # A mix is told of those that have all of it; where none has, why not.
    whole = {about: of for about, of in lengths.items() if of.keys() >= wanted.keys()} or lengths
    found = [
        _of_subject(partial(deciding.on_mix, settings[about]), question, of)
        for about, of in whole.items()
    ]
    there = sorted({_tokens(length) for of in lengths.values() for length in of.values()})
    none = _ONE_LENGTH.format(listed(there or [UNKNOWN]))
    why = next((one for one in found if isinstance(one, str)), none)
    return tuple(x for x in found if isinstance(x, SubjectContexts)) or every.why_none or why


def _contexts_of(lengths: Mapping[str, float]) -> list[list[str]]:
    """Return the datasets of each context, the shortest first. A context holds those less than LENGTHS_APART
    times as long as its shortest, so that two contexts are two lengths to a forecast as well."""
    found: list[list[str]] = []
    for name in sorted(lengths, key=lambda name: (lengths[name], name)):
        if not found or lengths[name] >= LENGTHS_APART * lengths[found[-1][0]]:
            found.append([])
        found[-1].append(name)
    return found


def _of_subject(
    on_mix: Callable[..., values.Decision | None], question: values.DecideQuestion,
    lengths: Mapping[str, float],
) -> SubjectContexts | str | None:  # fmt: skip
    """Decide for all datasets together, then at each length, held against that; None where there is one length, or no
    arm was measured at one load with all of them. A sentence where that is not so at the load that is asked for."""
    shares = answer.mix_weights(list(lengths), question.mix)

    def decided(
        names: Sequence[str], load: str | float | None, running: values.RunningServer | None = None
    ) -> values.Decision | None:
        mix = tuple((name, shares[name] / sum(shares[n] for n in names)) for name in names)
        return on_mix(mix, load, running)

    groups, one = _contexts_of(lengths), decided(list(lengths), question.load)
    if len(groups) < 2 or one is None:
        return None
    arm, load = one.takes, one.operating.load
    if not _is_asked(question.load, one.operating):
        loads = words.loads_listed([level.load for level in one.levels])
        return f"{question.load} is no load at which all lengths were measured; these are: {loads}."
    # At the load that all lengths share.
    asked = f"{load.value}{'/s' if load.is_rate else ''}" if load.value else question.load
    contexts = []
    for names in groups:
        decision = decided(names, asked, values.RunningServer(arm))
        if decision is None:
            return None
        ends = [lengths[name] for name in names]
        called = " to ".join(dict.fromkeys((f"{ends[0]:,.0f}", f"{ends[-1]:,.0f}"))) + " tokens"
        pays = arm == BASELINE or _state(_measured(decision, arm)) == "pays"
        contexts.append(PromptContext(
            called, ends[0], ends[-1], tuple(names), sum(shares[name] for name in names),
            replace(decision, traffic=values.DecidedTraffic(called)),
            next((other for at, other in decision.beaten if at == load), None),
            decision.at_stake if pays and decision.takes == arm else None,
        ))  # fmt: skip
    return _told(one, arm, tuple(contexts))


def _is_asked(text: str | float | None, level: values.MapLevel) -> bool:
    """Return whether a level is what a reader asked for, and was measured."""
    asked = wish(text)
    if asked is None or asked.value is None or level.stands_for is not None:
        return asked is None
    return is_load(level.load, asked.value) and (level.load.is_rate or not asked.rate)


# --- In words: up to which length each arm pays, and whether one server suffices.


def _told(one: values.Decision, arm: str, contexts: tuple[PromptContext, ...]) -> SubjectContexts:
    split, apart = (arm,) * len(contexts), tuple(each.decision.takes for each in contexts)
    # Each server of a split takes what is decided for its own traffic.
    if any(each.better for each in contexts) and len({*apart}) > 1:
        split = apart
    most = max(1.0 if each.at_stake is None else each.at_stake for each in contexts)
    enough: Servers = "one" if most <= EQUIVALENCE else "unknown"
    both = tuple(
        1 / sum(each.share / _rate(each, name) for each, name in zip(contexts, served, strict=True))
        for served in ((arm,) * len(split), split)
    )
    stems = [
        {re.sub(r"[-_.]?\d+[kKtc]?$", "", name) for name in each.datasets} for each in contexts
    ]
    of = listed([f"{', '.join(each.datasets)} at {each.name}" for each in contexts])
    doubt = (
        f"The lengths are of different texts ({of}), so that what looks like length may be the text: prompt_tokens in "
        "a study makes all lengths of one."
    )
    return SubjectContexts(
        one, contexts,
        tuple(_reach(x, contexts) for x in sorted({x.arm for each in contexts for x in each.decision.arms})),
        "split" if len({*split}) > 1 else enough, split,
        # As measured, what is expected to be better may have made less.
        (both[0], both[1]) if isfinite(sum(both)) and both[1] >= both[0] else None,
        () if all(stem == stems[0] for stem in stems) else (doubt,),
    )  # fmt: skip


def _measured(one: values.Decision, arm: str) -> values.ArmAtLoad | None:
    """Return an arm (the baseline: any, for its rates) at the load that is spoken about; None where it was not
    measured."""
    here = (x for x in one.arms if x.load == one.operating.load and arm in (x.arm, BASELINE))
    return next(here, None)


def _rate(one: PromptContext, arm: str) -> float:
    """Return the output tokens per second of an arm, as measured; NaN where unknown, or throughput does not decide."""
    cell = _measured(one.decision, arm)
    if cell is None or cell.difference.metric != "output_throughput":
        return nan
    return (cell.rates.baseline_output if arm == BASELINE else cell.rates.output) or nan


def _state(cell: values.ArmAtLoad | None) -> str:
    if cell is None:
        return "was not measured"
    if cell.broken:
        return "breaks answers"
    told = cell.difference
    small = told.adjusted_high is not None and told.adjusted_high < EQUIVALENCE
    lost = "does not pay" if small or told.word in (LOSS, LIKELY_LOSS) else "is open"
    return "pays" if told.word == GAIN else lost


def _reach(arm: str, contexts: Sequence[PromptContext]) -> ArmReach:
    parts, paid, since = list[str](), False, None
    for state, group in groupby(contexts, lambda one: _state(_measured(one.decision, arm))):
        part = list(group)
        where = (
            f"from {_tokens(part[0].shortest)} on"
            if parts
            else f"up to {_tokens(part[-1].longest)}"
        )
        if state == "does not pay" and paid:
            state, since = "no longer pays", since or part[0].shortest
        elif state == "pays":
            paid, since = True, None
        parts.append(f"{state} {where}")
    return ArmReach(arm, since, f"{arm} {', '.join(parts)}.")


def _tokens(length: float) -> str:
    return f"{length:,.0f} tokens"


def _with(arm: str) -> str:
    return "without drafts" if arm == BASELINE else f"with {arm}"


# --- As rows of text and as JSON.


def arm_rows(found: SubjectContexts) -> TextRows:
    """Return every arm at every length, at the load that is spoken about, and what to take there."""
    header = [f"gain at {found.one.operating.load.short}", *(one.name for one in found.contexts)]
    rows = [
        [reach.arm, *(UNKNOWN if cell is None else f"{tables.size(cell.difference)}, {cell.difference.word}"
                      for cell in (_measured(one.decision, reach.arm) for one in found.contexts))]
        for reach in found.arms
    ]  # fmt: skip
    return header, [*rows, ["take", *(tables.arm_taken(one.decision) for one in found.contexts)]]


def contexts_json(found: Sequence[SubjectContexts]) -> dict[str, Any]:
    """Return the answer as a dict for JSON. Unknown is null."""
    subjects = [
        {"arm": one.one.takes} | {name: to_builtins(getattr(one, name)) for name in (
            "arms", "servers", "split", "tokens_per_s", "sentence", "doubts",
        )} | {
            "name": words.title(one.one), "load": one.one.operating.load.as_json(),
            "mix": dict(one.one.traffic.mix),
            "contexts": [
                {name: to_builtins(getattr(each, name)) for name in (
                    "shortest", "longest", "datasets", "share", "better", "at_stake",
                )} | {"decision": values.decision_json(each.decision)}
                for each in one.contexts
            ],
        }
        for one in found
    ]  # fmt: skip
    return {"schema_version": values.SCHEMA_VERSION, "by": "context", "subjects": subjects}
