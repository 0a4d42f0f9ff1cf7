"""From judged settings to decisions: the only place where an answer is made."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.choice.gather import JudgingTerms, judged_settings, only
from analysis.choice.judged import Judged, mixed
from analysis.choice.operating import Choice, Wish, choice, neighbours, spot_of, wish
from analysis.choice.pick import Server, taken
from analysis.drafts.dynamic_k import DynamicTable
from analysis.drafts.serve_line import serve_line, speculative_config, stated_config
from analysis.evidence.words import EQUIVALENCE, GAIN, LIKELY_LOSS, LOSS
from analysis.frames import listed, numbered, plain, records
from analysis.matching.arms import BASELINE, SYSTEM
from analysis.matching.comparison import Comparison
from analysis.matching.guess import SOME_METHOD
from analysis.service.slo import Slo, parse
from answers.decide import words as said
from answers.decide.doubts import (
    against,
    barred_arms,
    doubts,
    engine_differences,
    engines_differ,
    shown_defects,
    unlike_real_answers,
)
from answers.decide.overview import (
    NamedSubject,
    Overview,
    configurations,
    overviews,
    subject_of,
    system,
)
from answers.decide.shown import CellPairs, DecisionCase, Speeds, SpeedSource, k_kind, speeds
from answers.decide.values import (
    DecidedTraffic,
    DecideQuestion,
    Decision,
    DecisionAnswer,
    Decisions,
    Forgone,
    MapLevel,
    RunningServer,
    Saving,
)
from answers.ground import Ground, ground
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.loads import Load
from warehouse.store import Reader


def decide(reader: Reader, question: DecideQuestion) -> Decisions:
    """Return the decisions that the filters show, each standing on its whole study.

    Raises InvalidInput for an SLO, a load or a mix that does not fit the results, and UnknownKey for a
    field in ``question.allow`` that pairs need not share anyway.
    """
    return decide_on(grounds(reader, question), question)


def grounds(reader: Reader, question: DecideQuestion) -> Ground:
    """Return what the decisions on a question stand on, for ``decide_on``. Raises as ``decide``."""
    slo = None if question.slo is None else parse(question.slo)
    also = () if slo is None else tuple((one.metric, one.statistic) for one in slo.bounds)
    return replace(
        ground(reader, question.filters, question.allow, also),
        server_of=partial(_server_of, reader),
    )


def _server_of(reader: Reader, cell_id: str) -> dict[str, Any]:
    server: dict[str, Any] = queries.server_of_cell(reader, cell_id).to_pylist()[0]
    parsed = {name: json.loads(server[name] or "{}") for name in ("commands", "environment")}
    return server | parsed


def decide_on(
    known: Ground, question: DecideQuestion, running: RunningServer | None = None
) -> Decisions:
    """Decide as ``decide`` does, on results that were read already. ``running``: what is served now, which
    the decisions are held against, with what its drafts yield where that is told."""
    return judged_on(known, question, running).decisions()


def judged_on(
    known: Ground, question: DecideQuestion, running: RunningServer | None = None
) -> "Deciding":
    """Judge all that is asked about, once for every mix and load that is decided on then. ``running``: as in
    ``decide_on``."""
    slo = None if question.slo is None else parse(question.slo)
    asked = {int(setting) for setting in known.shown_pairs["setting"].unique()}
    looked = _LookedUp(known.found)
    wanted = {looked.systems[one] for one in asked}
    # The others cost time and say nothing of what is asked.
    settings = frozenset(one for one, number in looked.systems.items() if number in wanted)
    found, sure = only(settings, known.found, known.sure)
    arms = frozenset(question.filters.arm) - {"baseline"}
    terms = JudgingTerms(question.objective == "latency", slo, arms)
    every = judged_settings(found, sure, known.cells, known.acceptance, terms)
    judged = {setting: _as_measured(known, setting, one) for setting, one in every.items()}
    if running is not None and running.lengths:
        judged = {at: one.yielding(running.family, running.lengths) for at, one in judged.items()}
    return Deciding(known, question, judged, slo, wish(question.load), looked, running)


def _as_measured(known: Ground, setting: int, judged: Judged) -> Judged:
    """Return the judgement in which arms whose answers are settled to break may not be taken, with
    whether the engine takes a table of K by batch size (vLLM alone does), and whether each arm's server
    with its drafts switched off is the baseline's."""
    breaks = {one.arm_id for one in known.broken.get(setting, ()) if one.settled}
    arms = judged.field.candidates
    engine = known.found.keys["engine"].loc[setting].iloc[0]
    differences = (engine_differences(known, setting, one.arm_id) for one in arms)
    return replace(
        judged, barred=frozenset(at for at, one in enumerate(arms) if one.arm_id in breaks),
        by_batch=not isinstance(engine, str) or engine.lower() == "vllm",
        off=np.array([not any(x.matters for x in of_arm) for of_arm in differences], np.bool_),
    )  # fmt: skip


def _why_none(known: Ground, asked: set[int]) -> str:
    pairs, unmatched = known.found.pairs, known.found.unmatched
    if not asked and not pairs.empty:
        return "No speculative cell with a partner is among what the filters keep."
    if known.cells.empty:
        return "No cell matches; draftboard runs lists what there is."
    if pairs.empty and len(unmatched):
        reasons = unmatched["reason"].astype(str).tolist()
        # Of several the one that holds its way out helps most.
        reason = next((text for text in reasons if "--allow" in text), reasons[0])
        return f"No pair of cells can be compared, for example: {reason}. draftboard compare lists all."
    return "No pair of cells has a metric that decides; draftboard compare says what there is."


@dataclass(frozen=True)
class _LookedUp:
    """What every decision on a comparison looks up."""

    found: Comparison

    @cached_property
    def systems(self) -> dict[int, int]:
        keys = _first_keys(self.found)
        settings = keys.index.get_level_values(0).tolist()
        return dict(zip(settings, numbered(keys, SYSTEM).tolist(), strict=True))

    @cached_property
    def keys(self) -> dict[int, dict[str, Any]]:
        return dict(zip(self.systems, records(_first_keys(self.found)), strict=True))

    @cached_property
    def speeds(self) -> Speeds:
        return speeds(self.found)

    @cached_property
    def pairs(self) -> CellPairs:
        once = self.found.pairs.drop_duplicates("speculative_id")
        names = ("setting", "arm_id", "load", "baseline_id", "speculative_id")
        made: CellPairs = {}
        for setting, arm, load, old, new in listed(once[once["load"] >= 0], *names):
            place = (setting, arm, self.found.loads[load])
            made.setdefault(place, []).append((old, new))
        return made

    @cached_property
    def configurations(self) -> dict[int, str]:
        return configurations(self.found.keys)


def _first_keys(comparison: Comparison) -> pd.DataFrame:
    return comparison.keys[~comparison.keys.index.get_level_values(0).duplicated()]


@dataclass(frozen=True)
class Deciding:
    """A question with what it is answered from: the comparison, the judged settings, the service level,
    the load that the reader speaks about, and what is served now."""

    known: Ground
    question: DecideQuestion
    judged: dict[int, Judged]
    slo: Slo | None
    load: Wish | None
    looked: _LookedUp
    running: RunningServer | None = None

    def decisions(self) -> Decisions:
        """Return the decisions that the filters show."""
        asked = {int(setting) for setting in self.known.shown_pairs["setting"].unique()}
        shown = sorted(asked & set(self.judged))
        single = [one for setting in shown for one in self.on_dataset(setting)]
        blends = list(self.on_mixes(shown))
        if not single:
            return Decisions((), _why_none(self.known, asked))
        order = list(dict.fromkeys(system(one.subject) for one in single))
        # The sort is stable: a mix stands before the datasets of its own subject.
        return Decisions(
            tuple(sorted((*blends, *single), key=lambda one: order.index(system(one.subject))))
        )

    def on_mix(
        self, setting: int, mix: tuple[tuple[str, float], ...], load: str | float | None,
        running: RunningServer | None,
    ) -> Decision | None:  # fmt: skip
        """Return the decision on another mix of the datasets beside a setting, at another load; None where
        they share none."""
        question = replace(self.question, mix=mix, load=load)
        other = replace(self, question=question, load=wish(load), running=running)
        return next(other.on_mixes([setting]), None)

    def on_dataset(self, setting: int) -> Iterator[Decision]:
        dataset = plain(self.looked.keys[setting].get("dataset"))
        for loads, part in self._by_kind(self.judged[setting]):
            traffic = DecidedTraffic(None if dataset is None else str(dataset), (), loads)
            yield self._decision((setting,), part, traffic, {})

    def on_mixes(self, shown: list[int]) -> Iterator[Decision]:
        mix = self.question.mix
        for named in _mixes_of(self.looked, self.judged, shown):
            weights = dict(sorted(mix_weights(list(named), mix).items()))
            settings = tuple(named[name] for name in weights)
            # Who filters to some of the datasets asks about these alone.
            if not mix and not set(settings) <= set(shown):
                continue
            parts = {name: self.judged[named[name]] for name in weights}
            blend = mixed(list(parts.values()), list(weights.values()))
            for loads, part in () if blend is None else self._by_kind(blend):
                axis = part.loads[0].axis
                whole = {name: _of_axis(one, axis) for name, one in parts.items()}
                traffic = DecidedTraffic(None, tuple(weights.items()), loads)
                yield self._decision(settings, part, traffic, whole)

    def _by_kind(self, judged: Judged) -> Iterator[tuple[str, Judged]]:
        """Yield the judgement of each kind of load with the words that tell it apart: the one that
        the reader speaks about, else all that were measured."""
        there = dict.fromkeys(
            x.axis for at, x in enumerate(judged.loads) if judged.there[:, at].any()
        )
        meant = None if self.load is None else self.load.axis(frozenset(there))
        for axis in [meant] if meant in there else list(there):
            yield said.LOADS_OF[axis] if len(there) > 1 else "", _of_axis(judged, axis)

    def _decision(
        self, settings: tuple[int, ...], judged: Judged, traffic: DecidedTraffic,
        parts: dict[str, Judged],
    ) -> Decision:  # fmt: skip
        """Return the decision on one kind of traffic and of load. ``settings``: those behind it;
        ``parts``: the datasets of a mix."""
        made = choice(judged, spot_of(judged, self.load))
        sources = self._sources(settings, judged, traffic)
        case = DecisionCase(made, settings, self.looked.pairs, self.looked.speeds, sources)
        known, operating = self.known, case.operating
        keys = {name: plain(value) for name, value in self.looked.keys[settings[0]].items()}
        # The arm that names the decision: the one taken at the operating load, else the best there.
        column, place = (judged, made.best) if made.column is None else (made.column, made.row)
        named, best = column.field.candidates[place], judged.field.candidates[made.best]
        method, table = named.family.split(" (")[0], made.server.table
        answer = _answer(case, self.question.nowhere_worse)
        config, serve = self._to_paste(case) if answer != "no" else (None, None)
        unreal, defects = unlike_real_answers(known, case), shown_defects(known, case)
        engines = engines_differ(known, settings, best.arm_id, best.label)
        lost = tuple(_forgone(parts, made))
        others = dict.fromkeys(doubts(known, case, lost, parts, bool(engines)))
        decision = Decision(
            subject=subject_of(keys, self.looked.configurations.get(settings[0])), traffic=traffic,
            objective=self.question.objective, answer=answer, arm=operating.arm, method=method,
            num_speculative_tokens=named.k, k_kind="table" if table is not None else k_kind(named),
            table=None if table is None else table.entries, operating=operating, levels=case.levels,
            arms=tuple(case.arms()), at_stake=case.stake[1],
            rivals=tuple(column.field.candidates[rival].label for rival in case.stake[0]),
            settle=tuple(case.to_settle()), against=tuple(against(known, case)),
            excluded=known.excluded_beside(keys), saving=_saving(operating), forgone=lost,
            doubts=(*(f"{text}." for text in defects), *unreal, *engines, *others),
            config=config, serve=serve, headline="", paragraph="",
            beaten=() if self.running is None else tuple(_beaten(made, self.running.arm)),
        )  # fmt: skip
        barred, once = barred_arms(known, case), decision.started_once
        how = "" if named.chooser is None else named.label.removeprefix(method).strip()
        why = self._why(case, barred)
        headline = said.headline(decision, how, why, said.best_on_each_side(case))
        extra = [
            *said.beside(case, engines, once),
            *said.at_open_load(known.found, case, self.slo),
            said.MORE_LAUNCHES if once else said.stake(case),
            *said.settle(decision.settle[:1]),
            *(f"Against it: {one.sentence}." for one in decision.against[:1]),
            *unreal,
            *list(others)[:1],
        ]
        decision = replace(decision, headline=headline)
        first = [*defects[:1], *(text for text in barred if text not in why)]
        return replace(decision, paragraph=said.paragraph(decision, first, extra))

    def _why(self, case: DecisionCase, barred: tuple[str, ...]) -> str:
        """Say what comes before all figures: a load of which nothing is known, answers that break,
        or an SLO that no arm meets at the load that is spoken about."""
        none = case.choice.server.arm is None
        if barred and case.choice.best in case.judged.barred and none:
            return "; ".join(barred)
        if case.choice.spot.unknown:
            return said.nothing_known(case)
        return said.no_arm_meets(case, self.slo) if self.slo is not None and none else ""

    def _sources(
        self, settings: tuple[int, ...], judged: Judged, traffic: DecidedTraffic
    ) -> tuple[tuple[SpeedSource, ...], ...]:
        arms = judged.field.candidates
        if not traffic.mix:
            return tuple((SpeedSource(settings[0], one.arm_id, 1.0),) for one in arms)
        parts = [
            (setting, share, {(x.family, x.k): x.arm_id for x in self.judged[setting].field.candidates})
            for setting, (_, share) in zip(settings, traffic.mix, strict=True)
        ]  # fmt: skip
        return tuple(
            tuple(SpeedSource(at, ids[one.family, one.k], share) for at, share, ids in parts)
            for one in arms
        )

    def _to_paste(self, case: DecisionCase) -> tuple[str | None, str | None]:
        """Return the value of vLLM's ``--speculative-config`` and the whole line that serves the method
        taken and its K on the engine that was measured; None where nothing is to be drafted, where the
        method, K or the engine is unknown, and where nothing is known to pay and the reader did not
        choose the arm. Another engine has no such value."""
        server, settled = case.choice.server, case.judged.grounds.settled
        pays = any(at is not None and settled[at, load] for load, at in enumerate(server.at))
        if server.arm is None or not (pays or (set(self.question.filters.arm) - {"baseline"})):
            return None, None
        arm, pairs = case.judged.field.candidates[server.arm], self.known.pairs[case.settings[0]]
        mine = pairs.loc[pairs["arm_id"] == arm.arm_id, "speculative_id"]
        if arm.family.startswith(SOME_METHOD) or mine.empty or k_kind(arm) == "unknown":
            return None, None
        cell = str(mine.iloc[0])
        row = self.known.by_id.loc[cell]
        facts = {str(name): value for name, value in row.items()} | self.known.server_of(cell)
        engine = str(facts.get("engine")).lower()
        facts["command"] = facts.get("commands", {}).get(engine)
        if arm.k is None:
            # Where K is not fixed, the arm's own settings are the only ones.
            config = stated_config(facts) or None
        else:
            config = speculative_config(facts, server.table or DynamicTable(((1, 1, arm.k),), ()))
        shown = None if config is None or engine != "vllm" else json.dumps(config)
        return shown, serve_line(facts, config)


def _of_axis(judged: Judged, axis: str) -> Judged:
    loads = [load for load in judged.loads if load.axis == axis]
    return judged.narrowed(loads, range(len(judged.field.candidates)))


def _answer(case: DecisionCase, nowhere_worse: float | None) -> DecisionAnswer:
    """Answer for the load that is spoken about.

    Yes: a settled gain there, and no measured load is a loss or likely loss of the server as it
    would run. At some loads: such a gain, and a loss or likely loss elsewhere. No: no arm gains
    there, since each is a settled loss, lies inside the margin of equivalence or may not be taken.
    """
    made, operating = case.choice, case.operating
    if made.spot.unknown:
        return "open"
    gains = made.between_gains if made.spot.beside else operating.difference.word == GAIN
    if not (gains and operating.drafts):
        return "no" if _no_arm_gains(made) else "open"
    own = [level.own for level in case.levels if level.own is not None]
    loses = any(one.word in (LOSS, LIKELY_LOSS) for one in own)
    lows = [] if nowhere_worse is None else [one.adjusted_low for one in own]
    worse = any(low is None or low < -(nowhere_worse or 0.0) for low in lows)
    return "at some loads" if loses or worse else "yes"


def _no_arm_gains(made: Choice) -> bool:
    judged, columns = made.column, [0]
    if judged is None:
        judged, columns = made.judged, [at for at, _ in made.spot.shares]
        value = made.spot.load.value or 0.0
        for place in range(len(judged.gains)) if made.spot.beside else ():
            columns += neighbours(judged, place, value)
    may = (judged.grounds.open_to & judged.there)[:, columns]
    small = judged.adjusted[1][:, columns] < EQUIVALENCE
    return made.server.arm is None and not bool((may & ~small).any())


def _beaten(made: Choice, arm: str) -> Iterator[tuple[Load, str | None]]:
    """Yield, at the load that is spoken about or at both measured loads beside it, what is better there
    than an arm: another one, the baseline where it is a loss or a likely one, or None."""
    judged = made.judged
    labels = [one.label for one in judged.field.candidates]
    place = labels.index(arm) if arm in labels else None
    loads = tuple(at for at, _ in made.spot.shares)
    if made.spot.beside:
        everyone = range(len(labels)) if place is None else [place]
        value = made.spot.load.value or 0.0
        loads = next(filter(None, (neighbours(judged, one, value) for one in everyone)), ())
    for at in loads if place is not None or arm == BASELINE else ():
        if place is not None and not judged.there[place, at]:
            continue
        # Of an arm that may not be taken, whatever its speed, the one is better that is.
        may = place is None or bool(judged.grounds.open_to[place, at])
        server = Server(place, (place,) * len(judged.loads))
        other = judged.better(server, at) if may else taken(judged.grounds, at)
        if other is not None:
            yield judged.loads[at], labels[other]
        else:
            loses = place is not None and judged.words[place, at] in (LOSS, LIKELY_LOSS)
            loses = loses or not may and bool(judged.baseline[at])
            yield judged.loads[at], BASELINE if loses else None


def _saving(operating: MapLevel) -> Saving | None:
    """Return what an output token costs less at the operating load; None unless throughput decides
    there and an arm is taken."""
    gain = operating.difference
    if gain.metric != "output_throughput" or not operating.drafts or gain.improvement is None:
        return None
    # A token costs what the time costs in which it is made: 1 - old / new.
    low, high = (None if x is None else x / (1 + x) for x in (gain.low, gain.high))
    return Saving(operating.load, gain.improvement / (1 + gain.improvement), low, high, gain.word)


# --- One arm for all datasets: which belong together, what each weighs, what one arm for all forgoes.


def _mixes_of(
    looked: _LookedUp, judged: dict[int, Judged], shown: Sequence[int]
) -> Iterator[dict[str, int]]:
    """Yield dataset -> setting for each model on one hardware that has several datasets with one
    setting each, where one of them is ``shown``."""
    for number in sorted({looked.systems[one] for one in shown}):
        parts = [one for one in sorted(judged) if looked.systems[one] == number]
        named = {d: one for one in parts if isinstance(d := looked.keys[one].get("dataset"), str)}
        if len(named) > 1 and len(named) == len(parts):
            yield named


def mix_weights(names: Sequence[str], mix: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return dataset -> its share of the output tokens; equal where the reader gave none.

    Raises InvalidInput for a dataset that was not measured or shares that are no shares.
    """
    if not mix:
        return {name: 1 / len(names) for name in names}
    wanted = dict(mix)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise InvalidInput(
            f"--mix: there are no results of {', '.join(unknown)}; there are {', '.join(names)}."
        )
    total = sum(wanted.values())
    if not (abs(total - 1) < 1e-6 and all(share > 0 for share in wanted.values())):
        raise InvalidInput(
            f"--mix: the shares must be above 0 and add up to 1; these add up to {total:g}."
        )
    return wanted


def _forgone(parts: dict[str, Judged], made: Choice) -> Iterator[Forgone]:
    """Yield what the mix's arm gives up on each dataset against that dataset's own choice, at the
    load that is spoken about; nothing over shares of loads."""
    if len(made.spot.shares) != 1:
        return
    load, place = made.spot.shares[0][0], made.server.at[made.spot.shares[0][0]]
    for name, part in parts.items():
        at, arms = part.loads.index(made.judged.loads[load]), part.field.candidates
        own, mine, best, label = taken(part.grounds, at), 0.0, 0.0, "drafting nothing"
        if place is not None:
            one = made.judged.field.candidates[place]
            places = {(x.family, x.k): number for number, x in enumerate(arms)}
            mine = float(part.gains[places[one.family, one.k], at])
        if own is not None:
            best, label = float(part.gains[own, at]), arms[own].label
        yield Forgone(name, label, max(float(np.expm1(best - mine)), 0.0))


# --- The decision on one of the subjects that there are.


@dataclass(frozen=True)
class SubjectDecision:
    """The decisions on one subject; without any, ``why_none`` is a sentence."""

    overview: Overview | None
    why_none: str | None = None


def decide_one(reader: Reader, question: DecideQuestion, about: NamedSubject) -> SubjectDecision:
    """Decide on one of ``subjects``: the same as ``decide`` on all of them says of it.

    Raises InvalidInput for an SLO, a load or a mix that does not fit the results.
    """
    found = decide(reader, replace(question, filters=about.filters))
    there = [one for one in overviews(found.decisions) if one.about == system(about.about)]
    return SubjectDecision(replace(there[0], name=about.name) if there else None, found.why_none)
