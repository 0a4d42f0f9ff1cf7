"""The decision in sentences that a manager can repeat, open loads and what speaks against it among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from analysis.frames import records
from analysis.matching.arms import ATTAINED, KEEPS_UP
from analysis.matching.comparison import STUDY_TABLE, Comparison
from analysis.service.slo import Bound, Slo
from answers.decide.shown import DecisionCase, SpeedSource, number
from answers.decide.values import (
    Against,
    ArmDifference,
    DecidedTraffic,
    Decision,
    Entry,
    Forgone,
    MapLevel,
    Saving,
    Settle,
)
from answers.ground import Ground
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


#: What to do where each arm was started once.
MORE_LAUNCHES = (
    "One launch of each arm cannot tell a gain from luck: set repeats: 3 in the study and run it "
    "again, which measures the two that are missing."
)
#: The kinds of load that are decided apart.
LOADS_OF = {
    "concurrency": "",
    "rate": "by rate",
    "trace": "by trace",
    "unbounded": "without a bound",
}


@dataclass(frozen=True)
class Facts:
    """The facts of a decision from which its sentences are made. ``how``: of an arm whose K is not
    fixed, how it is set; ``why``: a reason that comes before all figures (broken answers, an SLO that
    no arm meets, a load of which nothing is known); ``sides``: what is best beside a load that was
    not measured, where that differs; ``once``: each arm was started once; ``broken``: of each arm that
    is no candidate since its answers break, what breaks."""

    model: str | None
    evidence: str | None
    traffic: DecidedTraffic
    answer: str
    method: str
    k: int | None
    table: tuple[Entry, ...] | None
    levels: tuple[MapLevel, ...]
    operating: MapLevel
    saving: Saving | None
    how: str = ""
    why: str = ""
    sides: str = ""
    once: bool = False
    broken: tuple[str, ...] = ()


def headline(facts: Facts) -> str:
    """Say in one sentence at which load, whether to serve with speculation, with which arm."""
    arm = arm_words(facts.method, facts.k, facts.how)
    if facts.table:
        arm = f"{arm_words(facts.method, None)} ({k_by_batch(facts.table)})"
    where, level = at_load(facts.operating), facts.operating
    if facts.answer == "yes":
        told = f"Yes {where}: serve with {arm}; it {load_map(facts.levels)}"
    elif facts.answer == "at some loads":
        told = f"At some loads, {_among(level)}: {arm} {load_map(facts.levels)}"
    elif facts.answer == "no":
        told = f"No {where}: {facts.why or _no_gain(level)}"
    else:
        told = f"Open{' (one launch)' if facts.once else ''} {_open(facts, arm)}"
    return f"{told}{facts.sides}."


def at_load(level: MapLevel) -> str:
    """Say the load that is spoken about: ``at 16 at once``; ``over 20 % at 1 at once and …``."""
    if level.load.kind == "shares":
        return f"over {level.load.text}"
    if level.stands_for is not None:
        return (
            f"at {level.load.text} (not measured: the figures are those of {level.stands_for.text})"
        )
    return f"at {level.load.text}"


def _among(level: MapLevel) -> str:
    return "yours among them" if level.load.kind == "shares" else f"{level.load.text} among them"


def _no_gain(level: MapLevel) -> str:
    return f"no arm gains there; the best, {level.arm}, gives {change(level.difference)}"


def _open(facts: Facts, arm: str) -> str:
    where, level = at_load(facts.operating), facts.operating
    told = f"gives {change(level.difference)}, {level.difference.word}"
    best = f"the best, {level.arm}, {told}"
    if facts.why:
        return f"{where}: {facts.why}"
    if facts.once:
        return f"{where}: {arm} {told}" if level.drafts else f"{where}: no arm gained there; {best}"
    if not level.drafts:
        return f"{where}: no arm is shown to beat the baseline; {best}"
    return f"{where}: {arm} is the best so far, but it is not settled that it pays there: it {load_map(facts.levels)}"


def load_map(levels: Sequence[MapLevel]) -> str:
    """Say what the decision's server does at which loads, gains first: ``pays at 8 to 128 at once,
    loses at 1 at once``."""
    parts = []
    for word, does in _DOES.items():
        loads = [x.load for x in levels if x.own is not None and x.own.word == word]
        if loads:
            parts.append(f"{does} at {loads_listed(loads)}")
    idle = [x.load for x in levels if not x.drafts]
    unknown = [x.load for x in levels if not x.measured]
    parts += [f"drafts nothing at {loads_listed(idle)}"] if idle else []
    parts += [f"was not measured at {loads_listed(unknown)}"] if unknown else []
    return ", ".join(parts)


def elsewhere(levels: Sequence[MapLevel], drafts: bool) -> Iterator[str]:
    """Say at which other loads another arm is better than the decision's server, and what that
    server forgoes there; ``drafts``: whether it drafts at all."""
    named = sorted((x for x in levels if x.served is not None), key=lambda x: x.arm)
    for arm, part in groupby(named, lambda x: x.arm):
        there = list(part)
        where = loads_listed([x.load for x in there])
        gains = listed([percent(x.difference.improvement) for x in there], 6)
        own = listed([percent(x.own.improvement) if x.own else "nothing" for x in there], 6)
        settled = {x.difference.word for x in there} == {GAIN}
        how = "is better" if settled else "is likely better"
        if not drafts:
            yield f"At {where} {arm} {'gains' if settled else 'likely gains'} {gains}."
        elif all(x.own is None for x in there):
            yield f"At {where} {arm} {how}: {gains}, where this server drafts nothing or was not measured."
        else:
            yield f"At {where} {arm} {how}: {gains}; this server gives {own}, and two servers would take both."


def k_by_batch(table: Sequence[Entry]) -> str:
    """Write a table of K: ``5 draft tokens in batches up to 2, 3 up to 5, then no drafts``."""
    (_, end, first), *rest = table
    told = [f"{first or 'no'} draft token{'' if first == 1 else 's'} in batches up to {end}"]
    told += [f"{k or 'no drafts'} up to {end}" for _, end, k in rest[:-1]]
    return f"{', '.join(told)}, then {rest[-1][2] or 'no drafts'}" if rest else told[0]


def stays_on(loads: Sequence[Load]) -> str:
    """Say that no table of K switches drafts off where they lose."""
    return (
        f"It drafts at {loads_listed(loads)} too, where it is expected to lose: without its drafts this "
        "server is not the baseline's, so that takes two servers, or none."
    )


def showed(arm: str, load: Load, gain: float) -> str:
    """Say what one launch showed at another load."""
    return f"At {load.text} {arm} gave {percent(gain)}."


def one_server(table: Sequence[Entry], load: Load) -> str:
    """Say which table of K drafts where that is better and nothing where it is not."""
    return (
        f"One server could do both, with K by batch size ({k_by_batch(table)}): --load {load.short} "
        "decides for it."
    )


def loads_listed(loads: Sequence[Load]) -> str:
    """List loads in words: ``1, 4 and 16 at once``, ``2 and 8 requests/s (Poisson)``; traces, and loads of
    several kinds, by their own names."""
    values = [load.text.partition(" ") for load in loads]
    if all(load.value is not None for load in loads) and len({unit for *_, unit in values}) == 1:
        return f"{listed([value for value, *_ in values], 6)} {values[0][2]}"
    return listed([load.text for load in loads], 6)


def loads_short(loads: Sequence[Load]) -> str:
    """List loads where there is little room: ``1, 4, 16``; a span where there are many."""
    names = [load.short for load in loads]
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} to {names[-1]}"


def brief(one: Decision) -> str:
    """Return the headline and what happens at the operating load."""
    return " ".join(filter(None, (one.headline, _at_operating(one.headline, one.operating))))


def change(difference: ArmDifference) -> str:
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


def _statistic(difference: ArmDifference) -> str:
    metric = METRICS[difference.metric]
    return f" ({percentile_label(difference.statistic)})" if metric.distribution else ""


def paragraph(facts: Facts, extra: Sequence[str]) -> str:
    """Return the headline, what happens at the operating load, what it saves, and what to keep in
    mind."""
    model = facts.model or "an unknown model"
    first = "".join(f"{one}. " for one in facts.broken if one not in facts.why)
    said = headline(facts)
    parts = [
        f"{model} on {facts.traffic.name}: {first}{said}",
        _at_operating(said, facts.operating),
        "" if facts.saving is None else saved(facts.saving),
        *extra,
        EVIDENCE.get(facts.evidence or "", ""),
    ]
    return " ".join(part for part in parts if part)


def _at_operating(said: str, level: MapLevel) -> str:
    """Say what happens at the operating load; empty where nothing is drafted there, or the headline
    (``said``) has it."""
    if not level.drafts or change(level.difference) in said:
        return ""
    plain = level.stands_for is None and level.load.kind != "shares"
    where = f"At {level.load.text}" if plain else "There"
    return f"{where}, {level.arm} gives {change(level.difference)}: {level.difference.word}."


def weighed(expected: float, measured: float) -> str:
    """Say what an arm's own launches say, where another gain is expected of it."""
    return (
        f"Its own launches say {percent(measured)} there; {percent(expected)} is expected when all arms and loads "
        "are weighed together, since each scatters."
    )


def left_on(difference: ArmDifference) -> str:
    """Say what drafting would cost where nothing is drafted, so that what is served costs what the
    baseline costs; empty where that is not known or nothing is lost."""
    size = difference.improvement
    if difference.metric != "output_throughput" or size is None or size >= 0:
        return ""
    dearer = percent(-size / (1 + size), sign=False)
    return f"Left on there, an output token would cost {dearer} more."


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


def against(load: Load, arm: str, difference: ArmDifference, dataset: str | None = None) -> str:
    """Say what became worse: ``ngram K=3 at 1 at once: 10.2 % longer time to first token (P95),
    settled``."""
    sure = "settled" if difference.word == LOSS else "likely"
    place = f"{arm} on {dataset}" if dataset else arm
    return f"{place} at {load.text}: {change(difference)}, {sure}"


def stake(rivals: Sequence[str], at_stake: float | None, where: str) -> str:
    """Say what the choice leaves open at the load that is spoken about."""
    if not rivals or at_stake is None:
        return ""
    size = percent(at_stake, sign=False)
    return f"{listed(list(rivals))} may be better {where}: open, at most {size} at stake."


def settle(needed: Sequence[Settle]) -> Iterator[str]:
    """Say how many more launches would settle which question, one sentence for each."""
    for one in needed:
        launches = "1 more launch" if one.launches == 1 else f"{one.launches} more launches"
        other, question = (
            ("the baseline", f"whether {one.arm} pays at {one.load.text}")
            if one.rival is None
            else (one.rival, f"which of the two is better at {one.load.text}")
        )
        yield f"{launches} of {one.arm} and of {other} would settle {question}."


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


# --- What speaks against it: what the server as pasted makes worse, settled or likely.


#: A smaller loss (ratio) is none that anybody weighs.
SMALLEST = 0.01


def losses(known: Ground, settings: tuple[int, ...], shown: DecisionCase) -> Iterator[Against]:
    """Yield each loss of at least SMALLEST that the server has at a load where it drafts, once;
    settled ones first, the largest first."""
    arms = set(shown.drafts_at())
    lines = {*STUDY_TABLE, *shown.judged.lines}
    datasets = _datasets(known, settings)
    found: dict[tuple[Load, str, str], Against] = {}
    there = [known.losing[setting] for setting in settings if setting in known.losing]
    for row in (row for rows in there for row in records(rows)):
        load = known.found.loads[row["load"]]
        line = (row["metric"], row["statistic"])
        lost = -(number(row["improvement"]) or 0.0) >= SMALLEST
        if lost and line in lines and (load, row["arm_id"]) in arms:
            one = _against(row, load, shown, datasets.get(row["setting"]))
            found[load, *line] = min(found.get((load, *line), one), one, key=_weight)
    yield from sorted(found.values(), key=_weight)


def _datasets(known: Ground, settings: tuple[int, ...]) -> dict[int, str]:
    """Return setting -> its dataset where a mix has several settings; else nothing."""
    if len(settings) < 2:
        return {}
    named = known.found.keys["dataset"]
    return {setting: str(named.loc[setting].iloc[0]) for setting in settings}


def _against(row: dict[str, Any], load: Load, shown: DecisionCase, dataset: str | None) -> Against:
    labels = {one.arm_id: one.label for one in shown.judged.field.candidates}
    names = ("improvement", "low", "high", "adjusted_low", "adjusted_high")
    difference = ArmDifference(
        row["metric"], row["statistic"], row["word"], *(number(row[name]) for name in names)
    )
    arm = labels[row["arm_id"]]
    return Against(load, arm, difference, against(load, arm, difference, dataset))


def _weight(one: Against) -> tuple[bool, float]:
    return one.difference.word != LOSS, one.difference.improvement or 0.0


# --- An open load in words: what share of it each arm serves, and who meets the SLO there.


#: The baseline's value, the arm's.
_Both = tuple[float, float]


@dataclass(frozen=True)
class AtLoad:
    """What one arm and its baseline measured at one load; over several datasets, on each of
    them."""

    level: MapLevel
    rows: pd.DataFrame

    @classmethod
    def of(cls, found: Comparison, sources: Sequence[SpeedSource], level: MapLevel) -> "AtLoad":
        """Return what was measured with the level's arm; nothing at a load between two measured
        ones."""
        levels = found.levels
        here = pd.Series(False, index=levels.index)
        if level.load in found.loads:
            place = found.loads.index(level.load)
            for one in sources:
                here |= (levels["setting"] == one.setting) & (levels["arm_id"] == one.arm_id)
            here &= levels["load"] == place
        return cls(level, levels[here])

    def values(self, metric: str, statistic: str) -> list[_Both]:
        """Return the values of baseline and arm, a pair for each dataset; none where nobody
        measured them."""
        rows = self.rows[
            (self.rows["metric"] == metric) & (self.rows["statistic"] == statistic)
        ].dropna(subset=["baseline", "speculative"])
        return list(zip(rows["baseline"].tolist(), rows["speculative"].tolist(), strict=True))


def served(at: AtLoad) -> str:
    """Say what share of an open load each arm serves, on the dataset where it is least; empty for a
    closed load."""
    values = at.values(*ATTAINED)
    if not at.level.load.is_open or not values:
        return ""
    arm, (old, new) = at.level.arm, (min(side) for side in zip(*values, strict=True))
    shares = f"the baseline {_share(old)} and {arm} {_share(new)}"
    if old >= KEEPS_UP and new >= KEEPS_UP:
        return f"Both keep up there ({shares} of what is offered), so latency decides."
    if new >= KEEPS_UP:
        return f"Only {arm} keeps up there: {shares} of what is offered is served."
    who = "The baseline alone keeps up" if old >= KEEPS_UP else "Neither keeps up"
    return f"{who} there: {shares} of what is offered is served."


def met(at: AtLoad, slo: Slo | None) -> str:
    """Say which arm meets the SLO at a load, and which bounds the others miss; empty without an
    SLO."""
    if slo is None or at.rows.empty:
        return ""
    missed = [_missed(at, slo, side) for side in (0, 1)]
    names = ("the baseline", at.level.arm)
    told = [f"{name} misses {listed(texts)}" if texts else f"{name} meets it"
            for name, texts in zip(names, missed, strict=True)]  # fmt: skip
    return f"Of the SLO ({slo.text}) at {at.level.load.text}: {' and '.join(told)}."


def _missed(at: AtLoad, slo: Slo, side: int) -> list[str]:
    return [bound.text for bound in slo.bounds if not _holds(at, bound, side)]


def _holds(at: AtLoad, bound: Bound, side: int) -> bool:
    values = at.values(bound.metric, bound.statistic)
    return bool(values) and all(bound.holds(value[side]) for value in values)


def _share(ratio: float) -> str:
    """Write a served share in percent, at most 100: more than that is a short measurement's
    luck."""
    return percent(min(1.0, ratio), sign=False)
