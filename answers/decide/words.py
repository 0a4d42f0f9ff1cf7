"""The decision in sentences that a manager can repeat, open loads and what is told beside it among them."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from analysis.choice.operating import expected_at
from analysis.choice.pick import served as table_for
from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from analysis.frames import listed as rows_listed
from analysis.matching.arms import ATTAINED, KEEPS_UP
from analysis.matching.comparison import Comparison
from analysis.service.slo import Bound, Slo
from answers.decide.shown import WORTH_SAYING, DecisionCase, number
from answers.decide.values import ArmDifference, Decision, Entry, MapLevel, Saving, Settle
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


def headline(decision: Decision, how: str, why: str, sides: str) -> str:
    """Say in one sentence at which load, whether to serve with speculation, with which arm. ``how``: of
    an arm whose K is not fixed, how it is set; ``why``: a reason that comes before all figures (broken
    answers, an SLO that no arm meets, a load of which nothing is known); ``sides``: what is best beside
    a load that was not measured, where that differs."""
    arm = arm_words(decision.method, decision.num_speculative_tokens, how)
    if decision.table:
        arm = f"{arm_words(decision.method, None)} ({k_by_batch(decision.table)})"
    where, level = at_load(decision.operating), decision.operating
    gives = f"gives {change(level.difference)}"
    if decision.answer == "yes":
        text = f"Yes {where}: serve with {arm}; it {load_map(decision.levels)}"
    elif decision.answer == "at some loads":
        yours = "yours" if level.load.kind == "shares" else level.load.text
        text = f"At some loads, {yours} among them: {arm} {load_map(decision.levels)}"
    elif decision.answer == "no":
        text = f"No {where}: {why or f'no arm gains there; the best, {level.arm}, {gives}'}"
    else:
        launches = " (one launch)" if decision.started_once else ""
        text = f"Open{launches} {where}: {why or _open(decision, arm)}"
    return f"{text}{sides}."


def _open(decision: Decision, arm: str) -> str:
    level, once = decision.operating, decision.started_once
    # With one launch there is no interval and no other word, which the first words say.
    gives = f"gives {change(level.difference)}, {level.difference.word}"
    if once:
        gives = f"gives {_how_much(level.difference)}"
    if level.drafts and once:
        return f"{arm} {gives}"
    if level.drafts:
        return f"{arm} is the best so far, but it is not settled that it pays there: it {load_map(decision.levels)}"
    nothing = "no arm gained there" if once else "no arm is shown to beat the baseline"
    return f"{nothing}; the best, {level.arm}, {gives}"


def at_load(level: MapLevel) -> str:
    """Say the load that is spoken about: ``at 16 at once``; ``over 20 % at 1 at once and …``."""
    if level.load.kind == "shares":
        return f"over {level.load.text}"
    if level.stands_for is not None:
        return (
            f"at {level.load.text} (not measured: the figures are those of {level.stands_for.text})"
        )
    return f"at {level.load.text}"


def load_map(levels: Sequence[MapLevel]) -> str:
    """Say what the decision's server does at which loads, gains first: ``pays at 8 to 128 at once,
    loses at 1 at once``."""
    loads = {
        does: [x.load for x in levels if x.own is not None and x.own.word == word]
        for word, does in _DOES.items()
    }
    loads["drafts nothing"] = [x.load for x in levels if not x.drafts]
    loads["was not measured"] = [x.load for x in levels if not x.measured]
    return ", ".join(f"{does} at {loads_listed(where)}" for does, where in loads.items() if where)


def k_by_batch(table: Sequence[Entry]) -> str:
    """Write a table of K: ``5 draft tokens in batches up to 2, 3 up to 5, then no drafts``."""
    (_, end, first), *rest = table
    parts = [f"{first or 'no'} draft token{'' if first == 1 else 's'} in batches up to {end}"]
    parts += [f"{k or 'no drafts'} up to {end}" for _, end, k in rest[:-1]]
    return f"{', '.join(parts)}, then {rest[-1][2] or 'no drafts'}" if rest else parts[0]


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


def brief(decision: Decision) -> str:
    """Return the headline and what happens at the operating load."""
    return " ".join(
        filter(None, (decision.headline, _at_operating(decision.headline, decision.operating)))
    )


def change(difference: ArmDifference) -> str:
    """Write a difference in words, ``20.7 % more output tokens per second (95 %: 18.2 to 23.3 %)``,
    the interval in the direction of the word."""
    size = difference.improvement
    if size is None:
        return _how_much(difference)
    ends = directed(difference.low, difference.high, size >= 0)
    return f"{_how_much(difference)} ({f'95 %: {ends}' if ends else 'one launch: no interval'})"


def _how_much(difference: ArmDifference) -> str:
    size, metric = difference.improvement, METRICS[difference.metric]
    if size is None:
        return f"an unknown change of {metric.label}"
    better, worse = metric.changes
    statistic = f" ({percentile_label(difference.statistic)})" if metric.distribution else ""
    return f"{percent(size, sign=False)} {better if size >= 0 else worse}{statistic}"


def paragraph(decision: Decision, first: Sequence[str], extra: Sequence[str]) -> str:
    """Return the headline, what happens at the operating load, what it saves, and what to keep in
    mind. ``first``: known defects that show, then of each arm that is no candidate since its answers
    break, what breaks."""
    broken = "".join(f"{text}. " for text in first)
    parts = [
        f"{decision.subject.model or 'an unknown model'} on {decision.traffic.name}: {broken}{decision.headline}",
        _at_operating(decision.headline, decision.operating),
        "" if decision.saving is None else saved(decision.saving),
        *extra,
        EVIDENCE.get(decision.subject.evidence or "", ""),
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


def left_on(difference: ArmDifference) -> str:
    """Say what drafting would cost where nothing is drafted, so that what is served costs what the
    baseline costs; empty where that is not known or nothing is lost."""
    size = difference.improvement
    if difference.metric != "output_throughput" or size is None or size >= 0:
        return ""
    dearer = percent(-size / (1 + size), sign=False)
    return f"Left on there, an output token would cost {dearer} more."


#: Word -> how a sentence about money says how sure it is.
SURE = {GAIN: "", LOSS: "", LIKELY_GAIN: "probably ", LIKELY_LOSS: "probably "}


def saved(saving: Saving) -> str:
    """Say what an output token costs less or more at the operating load, and how sure that is."""
    size = percent(saving.per_output_token, sign=False)
    direction = "less" if saving.per_output_token >= 0 else "more"
    ends = directed(saving.low, saving.high, saving.per_output_token >= 0)
    how, interval = SURE.get(saving.word, "perhaps "), f" (95 %: {ends})" if ends else ""
    return f"An output token {how}costs {size} {direction} there on the same hardware{interval}."


def settle(needed: Sequence[Settle]) -> Iterator[str]:
    """Say how many more launches would settle which question, one sentence for each."""
    for one in needed:
        launches = "1 more launch" if one.launches == 1 else f"{one.launches} more launches"
        question = f"which of the two is better at {one.load.text}"
        if one.rival is None:
            question = f"whether {one.arm} pays at {one.load.text}"
        other = one.rival or "the baseline"
        yield f"{launches} of {one.arm} and of {other} would settle {question}."


def title(decision: Decision) -> str:
    """Return what a decision is about, in one line."""
    about = decision.subject
    parts = [
        known(about.model), known(about.gpu), f"TP {known(about.tensor_parallel_size)}",
        f"{known(about.engine)} {known(about.engine_version)}", decision.traffic.name,
    ]  # fmt: skip
    return ", ".join([*parts, *([about.configuration] if about.configuration else [])])


# --- What comes before all figures: a load of which nothing is known, an SLO that no arm meets.


def nothing_known(case: DecisionCase) -> str:
    """Say of which load nothing is known, and what is told instead."""
    level, measured = case.operating, loads_listed([x.load for x in case.levels])
    return (
        f"nothing is known of {loads_listed(case.choice.spot.missing)}, since no arm was measured there "
        f"with its baseline, nor on both sides; measured: {measured}. Here {level.arm} gives "
        f"{change(level.difference)}, {level.difference.word}"
    )


def no_arm_meets(case: DecisionCase, slo: Slo) -> str:
    """Say that no arm meets the SLO at the load that is spoken about, and where something does;
    empty where one does."""
    judged, at = case.judged, [place for place, _ in case.choice.spot.shares]
    if not at or (judged.allowed & judged.there)[:, at].all(axis=1).any():
        return ""
    also = "" if judged.baseline[at].all() else ", and the baseline misses it too"
    meets = np.flatnonzero(judged.allowed.any(axis=0) | judged.baseline).tolist()
    if not meets:
        return f"no arm meets {slo.text}{also}, nor does anything at any load measured"
    largest = meets[-1]
    who = [case.label(place) for place in np.flatnonzero(judged.allowed[:, largest]).tolist()]
    who += ["the baseline"] if judged.baseline[largest] else []
    return (
        f"no arm meets {slo.text}{also}; the largest load at which something does is "
        f"{judged.loads[largest].text} ({listed(who)})"
    )


def best_on_each_side(case: DecisionCase) -> str:
    """Say what is best on each side of a load that was not measured, where that differs."""
    sides = case.choice.sides
    if len(sides) < 2:
        return ""
    names = ["drafting nothing" if place is None else case.label(place) for place in sides]
    return f"; {names[0]} is best below and {names[1]} above, so which is best there is open"


# --- What is told beside the decision: at its load, and at the others.


def beside(case: DecisionCase, engines: Sequence[str], once: bool) -> Iterator[str]:
    """Yield what an arm's own launches say, where another gain is expected of it; what drafting would
    cost where nothing is drafted; in what the ``engines`` differ; what happens at other loads; and
    which arms were not measured at the load that is spoken about."""
    made, judged, level = case.choice, case.judged, case.operating
    if made.column is None and not made.spot.beside:
        expected = level.difference.improvement
        own = number(judged.measured[made.best, made.figures])
        if expected is not None and own is not None and abs(expected - own) > WORTH_SAYING:
            yield (
                f"Its own launches say {percent(own)} there; {percent(expected)} is expected when all arms "
                "and loads are weighed together, since each scatters."
            )
    yield from (
        "" if level.drafts else left_on(level.difference), *engines, *_stays_on(case),
        *_better_elsewhere(case), *_one_server(case), *(_one_launch_showed(case) if once else ()),
    )  # fmt: skip
    for at in [at for at, _ in made.spot.shares] if len(made.spot.shares) == 1 else ():
        names = [case.label(place) for place in np.flatnonzero(~judged.there[:, at]).tolist()]
        were = "was" if len(names) == 1 else "were"
        if names:
            yield f"{listed(names)} {were} not measured at {judged.loads[at].text}."


def _stays_on(case: DecisionCase) -> Iterator[str]:
    """Say where the server drafts and loses, since without its drafts it is not the baseline's and no
    table of K switches them off."""
    judged, server = case.judged, case.choice.server
    place = server.arm
    if place is None or judged.grounds.off[place] or None in judged.grounds.batches:
        return
    loads = [judged.loads[x] for x, p in enumerate(server.at)
             if p is not None and judged.there[p, x] and judged.gains[p, x] < 0]  # fmt: skip
    if loads:
        yield (
            f"It drafts at {loads_listed(loads)} too, where it is expected to lose: without its drafts this "
            "server is not the baseline's, so that takes two servers, or none."
        )


def _better_elsewhere(case: DecisionCase) -> Iterator[str]:
    drafts = case.choice.server.arm is not None
    named = sorted((x for x in case.levels if x.served is not None), key=lambda x: x.arm)
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


def _one_server(case: DecisionCase) -> Iterator[str]:
    """Say, where nothing is drafted at the load that is spoken about, which table of K would draft
    nothing there and what is better at other loads."""
    made = case.choice
    if made.server.arm is not None or len(made.spot.shares) != 1:
        return
    for at, place in enumerate(made.other):
        server = None if place is None else table_for(made.judged.grounds, place, at)
        if server is not None and server.table is not None and server.at[made.figures] is None:
            yield (
                f"One server could do both, with K by batch size ({k_by_batch(server.table.entries)}): "
                f"--load {made.judged.loads[at].short} decides for it."
            )
            return


def _one_launch_showed(case: DecisionCase) -> Iterator[str]:
    made, judged = case.choice, case.judged
    for at, load in enumerate(judged.loads):
        may = judged.grounds.open_to[:, at] & judged.there[:, at]
        if at == made.figures or not may.any():
            continue
        best = int(np.argmax(np.where(may, judged.gains[:, at], -np.inf)))
        own = np.nan_to_num(expected_at(judged, made.server, at))
        if np.expm1(judged.gains[best, at] - own) > WORTH_SAYING:
            gain = percent(float(np.expm1(judged.gains[best, at])))
            yield f"At {load.text} {case.label(best)} gave {gain}."


def stake(case: DecisionCase) -> str:
    """Say what the choice leaves open at the load that is spoken about."""
    (rivals, at_stake), judged = case.stake, case.spoken_about[0]
    if not rivals or at_stake is None:
        return ""
    names = listed([judged.field.candidates[place].label for place in rivals])
    size = percent(at_stake, sign=False)
    return f"{names} may be better {at_load(case.operating)}: open, at most {size} at stake."


#: Metric and statistic -> the baseline's value and the arm's, of each dataset.
_BothByLine = dict[tuple[str, str], list[tuple[float, float]]]


def at_open_load(comparison: Comparison, case: DecisionCase, slo: Slo | None) -> Iterator[str]:
    """Yield what share of an open operating load the baseline and its arm serve, on the dataset where
    it is least, and which of them meets the SLO there; nothing of a load that was not measured."""
    level, levels = case.operating, comparison.levels
    if case.choice.column is not None or level.load not in comparison.loads or level.stands_for:
        return
    if slo is None and not level.load.is_open:
        return
    here = pd.Series(False, index=levels.index)
    for one in case.sources[case.choice.best]:
        here |= (levels["setting"] == one.setting) & (levels["arm_id"] == one.arm_id)
    rows = levels[here & (levels["load"] == comparison.loads.index(level.load))]
    values: _BothByLine = {}
    names = ("metric", "statistic", "baseline", "speculative")
    for metric, statistic, old, new in rows_listed(
        rows.dropna(subset=["baseline", "speculative"]), *names
    ):
        values.setdefault((metric, statistic), []).append((old, new))
    if level.load.is_open and ATTAINED in values:
        old, new = (min(side) for side in zip(*values[ATTAINED], strict=True))
        yield _share_served(level.arm, old, new)
    if slo is None or rows.empty:
        return
    texts = []
    for side, name in enumerate(("the baseline", level.arm)):
        missed = [bound.text for bound in slo.bounds if not _holds(bound, values, side)]
        texts.append(f"{name} misses {listed(missed)}" if missed else f"{name} meets it")
    yield f"Of the SLO ({slo.text}) at {level.load.text}: {' and '.join(texts)}."


def _holds(bound: Bound, values: _BothByLine, side: int) -> bool:
    at = values.get((bound.metric, bound.statistic), [])
    return bool(at) and all(bound.holds(value[side]) for value in at)


def _share_served(arm: str, old: float, new: float) -> str:
    # More than all is a short measurement's luck.
    both = [percent(min(1.0, ratio), sign=False) for ratio in (old, new)]
    shares = f"the baseline {both[0]} and {arm} {both[1]}"
    if old >= KEEPS_UP and new >= KEEPS_UP:
        return f"Both keep up there ({shares} of what is offered), so latency decides."
    if new >= KEEPS_UP:
        return f"Only {arm} keeps up there: {shares} of what is offered is served."
    who = "The baseline alone keeps up" if old >= KEEPS_UP else "Neither keeps up"
    return f"{who} there: {shares} of what is offered is served."
