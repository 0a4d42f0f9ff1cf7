"""Which K for long prompts: the decision at each measured length of prompt, and whether one server suffices.

No engine takes K by the length of a prompt (vLLM by batch size alone), so where lengths want different arms
the answer is a split of the traffic.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from msgspec import to_builtins

from analysis.choice.judged import Judged, mixed
from analysis.choice.operating import Wish
from analysis.choice.pick import at_stake
from analysis.evidence.words import EQUIVALENCE, GAIN, LIKELY_LOSS, LOSS
from analysis.frames import listed as rows_listed
from analysis.matching.arms import BASELINE
from analysis.prediction.step_time import LENGTHS_APART
from answers.decide.answer import (
    Deciding,
    deciding_on,
    grounds,
    mix_weights,
    of_axis,
    systems_of,
    why_none,
)
from answers.decide.overview import Overview, names_apart, system
from answers.decide.tables import TextRows, size
from answers.decide.values import (
    SCHEMA_VERSION,
    ArmAtLoad,
    DecidedTraffic,
    DecideQuestion,
    Decision,
    RunningServer,
    decision_json,
)
from answers.decide.words import at_load
from answers.ground import Ground
from answers.wording import UNKNOWN, listed, percent
from answers.wording import known as stated
from warehouse.loads import Load
from warehouse.store import Reader

Servers = Literal["one", "split", "unknown"]


@dataclass(frozen=True)
class PromptContext:
    """One measured length of prompt. ``shortest``, ``longest``: mean tokens of its datasets' prompts; ``share``:
    of the output tokens (0-1); ``better``: what is better there than the arm that is best over all lengths
    ("baseline": no drafts), at least likely, None: nothing is known to be; ``at_risk``: by how much (ratio)
    something may be better than that arm, at most, None: unknown."""

    shortest: float
    longest: float
    datasets: tuple[str, ...]
    share: float
    decision: Decision
    better: str | None
    at_risk: float | None

    @property
    def name(self) -> str:
        """The length in words: ``416 tokens``, ``1,020 to 1,310 tokens``."""
        ends = dict.fromkeys(f"{end:,.0f}" for end in (self.shortest, self.longest))
        return f"{' to '.join(ends)} tokens"

    def of(self, arm: str) -> ArmAtLoad | None:
        """Return an arm at the load that is spoken about; None where it was not measured."""
        load = self.decision.operating.load
        return next((x for x in self.decision.arms if (x.arm, x.load) == (arm, load)), None)


@dataclass(frozen=True)
class ArmReach:
    """Up to which length an arm pays. ``no_longer_from``: the mean tokens of the first context from which on it
    does not although it does before; None: no such length was measured."""

    arm: str
    no_longer_from: float | None
    sentence: str


@dataclass(frozen=True)
class SubjectContexts:
    """All contexts of one model on one hardware with one engine. ``load``: the one that is spoken about; ``arm``:
    the best over all lengths there ("baseline": no drafts); ``servers``: whether it suffices for all; ``split``:
    the arm of each context, of which each is served by its own servers; ``worth``: by how much (ratio) these make
    more output tokens a second than as many servers with one arm, both in tokens/s a server, None: unknown."""

    name: str
    traffic: str
    load: Load
    contexts: tuple[PromptContext, ...]
    reaches: tuple[ArmReach, ...]
    arm: str
    servers: Servers
    split: tuple[str, ...]
    worth: float | None
    tokens_per_s: tuple[float, float] | None
    doubts: tuple[str, ...]
    sentence: str

    @property
    def overview(self) -> Overview:
        """The decisions of all contexts, the shortest first, as the load map draws them."""
        decisions = tuple(one.decision for one in self.contexts)
        return Overview(self.name, self.sentence, decisions, decisions)


@dataclass(frozen=True)
class ContextAnswer:
    """All that the filters show. ``why_none``: where no two contexts are known, why."""

    subjects: tuple[SubjectContexts, ...]
    why_none: str | None = None


HOW = (
    f"A context holds the datasets whose mean prompts are less than {LENGTHS_APART:g} times as long as its shortest; "
    "between and beyond the measured lengths nothing is known. No engine takes K by the length of a prompt (vLLM by "
    "batch size alone), so other arms for other lengths take servers of their own, each measured at the same load."
)
_ONE_LENGTH = (
    "Prompts of one length alone were measured{}, so nothing is known of others: state prompt_tokens in the study "
    "(docs/tuning.md), or take in results of prompts {:g} times as long or more."
)
_NOTHING_SHARED = (
    "{}: no arm was measured at one load with prompts of all lengths, so they cannot be compared."
)


def by_context(reader: Reader, question: DecideQuestion) -> ContextAnswer:
    """Decide at each measured length of prompt, each decision standing on its whole study. Raises as ``decide``."""
    known = grounds(reader, question)
    deciding, shown = deciding_on(known, question)
    if not shown:
        return ContextAnswer((), why_none(known))
    lengths = _lengths(known)
    keys, systems = systems_of(known.found)
    names = dict(zip(systems, keys["dataset"].tolist(), strict=True))
    wanted = {name for name, _ in question.mix}
    found, lacking = [], []
    for number in dict.fromkeys(systems[one] for one in shown):
        mine = [one for one in shown if systems[one] == number and one in lengths]
        mine.sort(key=lambda one: lengths[one])
        named = {str(names[one]): one for one in mine if not wanted or names[one] in wanted}
        contexts = contexts_of({name: lengths[one] for name, one in named.items()})
        if len(contexts) > 1 and (wanted or len(named) == len(mine)):
            parts = _Parts(deciding, named, dict(mix_weights(list(named), question.mix)))
            told = parts.subject(contexts, lengths)
            (lacking if isinstance(told, str) else found).append(told)
    if not found:
        told = sorted({round(lengths[one]) for one in shown if one in lengths})
        which = f" ({', '.join(f'{x:,}' for x in told[:3])} tokens)" if told else ""
        return ContextAnswer((), [*lacking, _ONE_LENGTH.format(which, LENGTHS_APART)][0])
    about = [one.contexts[0].decision.subject for one in found]
    called = names_apart(about)
    return ContextAnswer(tuple(
        replace(one, name=f"{called[system(of)]}, TP {stated(of.tensor_parallel_size)}")
        for one, of in zip(found, about, strict=True)
    ))  # fmt: skip


def _lengths(known: Ground) -> dict[int, float]:
    """Return by setting the mean prompt of its baselines (tokens), the median over cells."""
    pairs = known.found.pairs
    rows = pairs[(pairs["metric"] == "prompt_tokens") & (pairs["statistic"] == "mean")]
    medians = rows.groupby("setting")["baseline"].median().reset_index()
    return {int(at): float(x) for at, x in rows_listed(medians, "setting", "baseline") if x > 0}


def contexts_of(lengths: dict[str, float]) -> list[tuple[str, ...]]:
    """Return the datasets of each context, the shortest first. A context holds those less than LENGTHS_APART
    times as long as its shortest, so that two contexts are two lengths to a forecast as well."""
    found: list[list[str]] = []
    for name in sorted(lengths, key=lambda name: (lengths[name], name)):
        if not found or lengths[name] >= LENGTHS_APART * lengths[found[-1][0]]:
            found.append([])
        found[-1].append(name)
    return [tuple(names) for names in found]


@dataclass(frozen=True)
class _Parts:
    """The datasets of one system: setting and share of the output tokens of each."""

    deciding: Deciding
    settings: dict[str, int]
    shares: dict[str, float]

    def subject(
        self, contexts: Sequence[tuple[str, ...]], lengths: dict[int, float]
    ) -> SubjectContexts | str:
        """Return all that is told of the system, or why nothing can be."""
        every = self._blend(tuple(self.settings), "")
        blends = (
            [] if every is None else [self._blend(names, every.loads[0].axis) for names in contexts]
        )
        if every is None or None in blends:
            return _NOTHING_SHARED.format(listed(list(self.settings)))
        whole = next(part for _, part in self.deciding.by_kind(every))
        one = self._decided(tuple(self.settings), whole, self.deciding)
        load = one.operating.load
        arm = one.operating.arm if one.operating.drafts else BASELINE
        # At the load that all lengths share, each held against the one arm.
        asked = Wish(((load.value, 1.0),), load.is_rate) if load.value else self.deciding.load
        held = replace(self.deciding, load=asked, running=RunningServer(arm))
        told = []
        for names, part in zip(contexts, blends, strict=True):
            assert part is not None
            decision = self._decided(names, of_axis(part, load.axis), held)
            better = next((other for at, other in decision.beaten if at == load), None)
            tokens = [lengths[self.settings[name]] for name in names]
            context = PromptContext(
                min(tokens), max(tokens), names, sum(self.shares[name] for name in names), decision,
                better, _at_risk(part, load, arm),
            )  # fmt: skip
            traffic = DecidedTraffic(context.name, (), decision.traffic.loads)
            told.append(replace(context, decision=replace(decision, traffic=traffic)))
        return _told(one, arm, tuple(told))

    def _blend(self, names: tuple[str, ...], axis: str) -> Judged | None:
        parts = [self.deciding.judged[self.settings[name]] for name in names]
        parts = [of_axis(part, axis) for part in parts] if axis else parts
        weights = np.array([self.shares[name] for name in names])
        return parts[0] if len(parts) == 1 else mixed(parts, list(weights / weights.sum()))

    def _decided(self, names: tuple[str, ...], part: Judged, deciding: Deciding) -> Decision:
        settings = tuple(self.settings[name] for name in names)
        total = sum(self.shares[name] for name in names)
        mix = tuple((name, self.shares[name] / total) for name in names) if len(names) > 1 else ()
        traffic = DecidedTraffic(None if mix else names[0], mix)
        whole = {
            name: of_axis(deciding.judged[at], part.loads[0].axis)
            for name, at in zip(names, settings, strict=True)
        }
        return deciding.decision(settings, part, traffic, whole if mix else {})


def _at_risk(part: Judged, load: Load, arm: str) -> float | None:
    """Return by how much (ratio) another arm or drafting nothing may be better than an arm at a load, at most; None
    where nothing repeats or the arm was not measured."""
    labels = [one.label for one in part.field.candidates]
    mine = labels.index(arm) if arm in labels else None
    if load not in part.loads or (mine is None and arm != BASELINE):
        return None
    at = part.loads.index(load)
    if not part.field.tails.known[:, at].any() or (mine is not None and not part.there[mine, at]):
        return None
    stakes = np.expm1(at_stake(part.field, part.gains, at, mine))
    rivals = stakes[part.grounds.open_to[:, at] & np.isfinite(stakes)]
    nothing = 0.0 if mine is None else float(-part.plain[0][mine, at])
    return max(float(rivals.max(initial=0.0)), nothing, 0.0)


# --- In words: up to which length each arm pays, and whether one server suffices.


def _told(one: Decision, arm: str, contexts: tuple[PromptContext, ...]) -> SubjectContexts:
    arms = dict.fromkeys(x.arm for each in contexts for x in each.decision.arms)
    split = tuple(each.better or arm for each in contexts)
    rates = _rates(contexts, (arm,) * len(contexts)), _rates(contexts, split)
    both = None if rates[0] is None or rates[1] is None else (rates[0], rates[1])
    worth = None if both is None else both[1] / both[0] - 1
    servers: Servers = "unknown"
    if len(set(split)) > 1:
        servers = "split"
    elif all(x.at_risk is not None and x.at_risk <= EQUIVALENCE for x in contexts):
        servers = "one"
    where = at_load(one.operating)
    found = SubjectContexts(
        "", _traffic(one), one.operating.load, contexts,
        tuple(_reach(name, contexts) for name in sorted(arms)), arm, servers, split, worth, both,
        tuple(_doubts(contexts)), "",
    )  # fmt: skip
    return replace(found, sentence=_sentence(found, where))


def _traffic(one: Decision) -> str:
    shares = {round(share, 6) for _, share in one.traffic.mix}
    return "with equal shares" if len(shares) == 1 else f"with {one.traffic.name}"


def _rates(contexts: Sequence[PromptContext], arms: Sequence[str]) -> float | None:
    """Return the output tokens per second of a server, over all contexts by their shares, from what is expected of
    each one's arm; None where that is unknown, or throughput does not decide."""
    seconds = 0.0
    for one, arm in zip(contexts, arms, strict=True):
        there = one.of(arm) or (one.decision.arms[0] if arm == BASELINE else None)
        old = None if there is None else there.rates.baseline_output
        gain = 0.0 if arm == BASELINE or there is None else there.difference.improvement
        if (
            there is None
            or there.difference.metric != "output_throughput"
            or not old
            or gain is None
        ):
            return None
        seconds += one.share / (old * (1 + gain))
    return 1 / seconds


def _state(cell: ArmAtLoad | None) -> str:
    if cell is None:
        return "was not measured"
    told = cell.difference
    small = told.adjusted_high is not None and told.adjusted_high < EQUIVALENCE
    if told.word == GAIN:
        return "pays"
    return "does not pay" if small or told.word in (LOSS, LIKELY_LOSS) else "is open"


def _reach(arm: str, contexts: Sequence[PromptContext]) -> ArmReach:
    grouped = groupby(contexts, lambda one: _state(one.of(arm)))
    groups = [(state, list(part)) for state, part in grouped]
    parts, paid, since = [], False, None
    for place, (state, part) in enumerate(groups):
        if state == "does not pay" and paid:
            state, since = "no longer pays", since or part[0].shortest
        paid = paid or state == "pays"
        where = (
            f"at {part[0].name}" if len(part) == 1 else f"from {part[0].name} to {part[-1].name}"
        )
        if len(groups) == 1:
            where = f"at every measured length ({part[0].name} to {part[-1].name})"
        elif place == len(groups) - 1:
            where = f"from {part[0].name} on"
        elif not place:
            where = f"up to {part[-1].name}"
        parts.append(f"{state} {where}")
    return ArmReach(arm, since, f"{arm} {', '.join(parts)}.")


def _sentence(found: SubjectContexts, where: str) -> str:
    on = f"{where}, {found.traffic} of the output tokens"
    if found.servers == "split":
        runs = [(arm, [one for one, _ in part]) for arm, part in groupby(
            zip(found.contexts, found.split, strict=True), lambda pair: pair[1]
        )]  # fmt: skip
        told = [_placed(arm, part, place, len(runs)) for place, (arm, part) in enumerate(runs)]
        count = "Two servers" if len(set(found.split)) == 2 else f"{len(set(found.split))} servers"
        worth = "what that is worth in tokens is unknown"
        if found.worth is not None and found.tokens_per_s is not None:
            old, new = found.tokens_per_s
            worth = (
                f"likely worth {percent(found.worth, sign=False)} more output tokens ({new:,.0f} instead of {old:,.0f} tokens/s a "
                f"server, servers in proportion to the traffic) than all {_with(found.arm)}"
            )
        return f"{count}, {', '.join(told)} {on}: {worth}."
    if found.servers == "one":
        most = percent(EQUIVALENCE, sign=False)
        return (
            f"One server suffices {on}: {_with(found.arm)}, nothing else is better by more than {most} at any "
            "measured length."
        )
    risks = [
        f"at {one.name} by up to {percent(one.at_risk, sign=False)}" if one.at_risk is not None
        else f"at {one.name} nothing tells by how much"
        for one in found.contexts if one.at_risk is None or one.at_risk > EQUIVALENCE
    ]  # fmt: skip
    return (
        f"Whether one server suffices {on} cannot be said: {_with(found.arm)}, the best over all lengths, something "
        f"else may be better {listed(risks)}. More launches would tell."
    )


def _with(arm: str) -> str:
    return "without drafts" if arm == BASELINE else f"with {arm}"


def _placed(arm: str, part: Sequence[PromptContext], place: int, of: int) -> str:
    where = "above"
    if not place:
        where = f"up to {part[-1].name}"
    elif place < of - 1:
        where = f"then up to {part[-1].name}"
    return f"{where} {_with(arm)}"


def _doubts(contexts: Sequence[PromptContext]) -> Iterator[str]:
    """Say where lengths are of other texts: what is told of length may be of the text."""
    stems = [{re.sub(r"[-_.]?\d+[kKtc]?$", "", name) for name in one.datasets} for one in contexts]
    if any(one != stems[0] for one in stems):
        told = [f"{', '.join(one.datasets)} at {one.name}" for one in contexts]
        yield (
            f"The lengths are of different texts ({listed(told)}), so that what looks like length may be the text: "
            "prompt_tokens in a study makes all lengths of one."
        )


# --- As rows of text and as JSON.


def arm_rows(found: SubjectContexts) -> TextRows:
    """Return every arm at every length, at the load that is spoken about."""
    rows = [
        [reach.arm, *(UNKNOWN if cell is None else f"{size(cell.difference)}, {cell.difference.word}"
                      for cell in (one.of(reach.arm) for one in found.contexts))]
        for reach in found.reaches
    ]  # fmt: skip
    return [f"gain at {found.load.short}", *(one.name for one in found.contexts)], rows


def contexts_json(found: ContextAnswer) -> dict[str, Any]:
    """Return the answer as a dict for JSON. Unknown is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "by": "context",
        "subjects": [
            {
                "name": one.name, "traffic": one.traffic, "load": one.load.as_json(), "arm": one.arm,
                "servers": one.servers, "split": list(one.split), "worth": one.worth,
                "tokens_per_s": to_builtins(one.tokens_per_s), "doubts": list(one.doubts),
                "sentence": one.sentence, "arms": to_builtins(one.reaches),
                "contexts": [
                    {
                        "shortest": each.shortest, "longest": each.longest,
                        "datasets": list(each.datasets), "share": each.share,
                        "better": each.better, "at_risk": each.at_risk,
                        "decision": decision_json(each.decision),
                    }
                    for each in one.contexts
                ],
            }
            for one in found.subjects
        ],
        "why_none": found.why_none,
    }  # fmt: skip
