"""From judged settings to decisions: the only place where an answer is made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.choice.gather import Terms, judged_settings, only
from analysis.choice.judged import Judged, mixed
from analysis.choice.operating import Choice, Spot, Wish, choice, expected_at, spot_of, wish
from analysis.choice.pick import served as table_for
from analysis.evidence.words import EQUIVALENCE, GAIN, LIKELY_LOSS, LOSS
from analysis.frames import plain
from analysis.service.slo import Slo, parse
from answers.decide import words as said
from answers.decide.configurations import configurations
from answers.decide.overview import system
from answers.decide.paste import flags_to_paste
from answers.decide.rates import Source, Speeds, speeds
from answers.decide.read import Ground, ground
from answers.decide.shown import (
    Pairs,
    Shown,
    answer_doubts,
    engines_told,
    k_kind,
    less_room,
    likely_broken,
    named_first,
    not_interleaved,
    number,
    off_is_baseline,
    settings_excluded,
    with_barred,
)
from answers.decide.unsettled import (
    WORTH_SAYING,
    forgone,
    mix_weights,
    mixes_of,
    not_in_all,
    of_adaptive,
    of_systems,
    of_tables,
    stake_of,
    to_settle,
)
from answers.decide.values import (
    Answer,
    Decision,
    Decisions,
    Entry,
    Forgone,
    KKind,
    Level,
    Question,
    Saving,
    Subject,
    Traffic,
)
from answers.decide.words import AtLoad, losses, met, served
from answers.wording import listed
from warehouse.store import Reader

Table = tuple[Entry, ...]


def decide(reader: Reader, question: Question) -> Decisions:
    """Return the decisions that the filters show, each standing on its whole study.

    Raises InvalidInput for an SLO, a load or a mix that does not fit the results.
    """
    slo = None if question.slo is None else parse(question.slo)
    return decide_on(ground(reader, question, slo), question)


def decide_on(known: Ground, question: Question) -> Decisions:
    """Decide as ``decide`` does, on results that were read already."""
    slo = None if question.slo is None else parse(question.slo)
    wish(question.load)
    terms = Terms(question.objective == "latency", slo, _arms(known, question))
    asked = _asked(known)
    # The others cost time and say nothing of what is asked.
    found, sure = only(of_systems(known.found, asked), known.found, known.sure)
    every = judged_settings(found, sure, known.cells, known.acceptance, terms)
    judged = {
        setting: replace(
            with_barred(known, setting, one),
            by_batch=_takes_tables(known, setting),
            off=off_is_baseline(known, setting, one),
        )  # fmt: skip
        for setting, one in every.items()
    }
    shown = sorted(asked & set(judged))
    case = Case(known, question, judged, speeds(known.found))
    single = [one for s in shown for one in case.of_setting(s, judged[s])]
    blends = list(_blends(case, judged, shown))
    if not single:
        return Decisions((), _why_none(known, asked))
    order = list(dict.fromkeys(system(one.subject) for one in single))
    # The sort is stable: a mix stands before the datasets of its own subject.
    return Decisions(
        tuple(sorted((*blends, *single), key=lambda one: order.index(system(one.subject))))
    )


def _arms(known: Ground, question: Question) -> frozenset[str]:
    """Return the labels of the arms that may be taken; none where the reader chose none, which
    allows all."""
    return frozenset(question.filters.arm) - {"baseline"}


def _takes_tables(known: Ground, setting: int) -> bool:
    """Return whether the setting's engine takes a table of K by batch size: vLLM alone does."""
    engine = known.found.keys["engine"].loc[setting].iloc[0]
    return not isinstance(engine, str) or engine.lower() == "vllm"


def _asked(known: Ground) -> set[int]:
    """Return the settings of which the filters keep a speculative cell with a partner."""
    pairs = known.found.pairs.drop_duplicates("speculative_id")
    there = pairs[pairs["speculative_id"].astype(object).isin(known.shown)]
    return {int(s) for s in there["setting"]}


def _why_none(known: Ground, asked: set[int]) -> str:
    if not asked and not known.found.pairs.empty:
        return "No speculative cell with a partner is among what the filters keep."
    if known.cells.empty:
        return "No cell matches; draftboard runs lists what there is."
    if known.found.pairs.empty and len(known.found.unmatched):
        reasons = known.found.unmatched["reason"].astype(str).tolist()
        # Of several the one that holds its way out helps most.
        reason = next((told for told in reasons if "--allow" in told), reasons[0])
        return f"No pair of cells can be compared, for example: {reason}. draftboard compare lists all."
    return "No pair of cells has a metric that decides; draftboard compare says what there is."


@dataclass(frozen=True)
class Case:
    """A question with what it is answered from: the comparison, the judged settings, the speeds."""

    known: Ground
    question: Question
    judged: dict[int, Judged]
    speeds: Speeds

    def of_setting(self, setting: int, judged: Judged) -> Iterator[Decision]:
        """Yield the decision on one dataset for each kind of load."""
        dataset = _text(self.keys(setting).get("dataset"))
        for name, part in self.by_kind(judged):
            yield self.decision((setting,), part, Traffic(dataset, (), name))

    @cached_property
    def asked(self) -> Wish | None:
        """The reader's load."""
        return wish(self.question.load)

    def by_kind(self, judged: Judged) -> Iterator[tuple[str, Judged]]:
        """Yield the judgement of each kind of load with the words that tell it apart: the one that
        the reader speaks about, else all that were measured."""
        there = dict.fromkeys(
            x.axis for at, x in enumerate(judged.loads) if judged.there[:, at].any()
        )
        meant = None if self.asked is None else self.asked.axis(frozenset(there))
        for axis in [meant] if meant in there else list(there):
            loads = [x for x in judged.loads if x.axis == axis]
            part = judged.narrowed(loads, range(len(judged.field.candidates)))
            yield said.LOADS_OF[axis] if len(there) > 1 else "", part

    @cached_property
    def pairs(self) -> Pairs:
        """Setting, arm_id and load -> the pairs of cells measured there, the baseline's id
        first."""
        once = self.known.found.pairs.drop_duplicates("speculative_id")
        names = ("setting", "arm_id", "load", "baseline_id", "speculative_id")
        made: Pairs = {}
        for setting, arm, load, old, new in zip(*(once[n].tolist() for n in names), strict=True):
            if load >= 0:
                place = (setting, arm, self.known.found.loads[load])
                made.setdefault(place, []).append((old, new))
        return made

    @cached_property
    def configurations(self) -> dict[int, str]:
        """Setting -> the words that tell it apart from another setting of the same name."""
        return configurations(self.known.found.keys)

    def keys(self, setting: int) -> dict[str, Any]:
        """Return the facts of a setting; None for unknown."""
        table = self.known.found.keys
        row = table.loc[setting].iloc[0] if setting in table.index else pd.Series(dtype=object)
        return {str(name): plain(value) for name, value in row.items()}

    def decision(
        self, settings: tuple[int, ...], judged: Judged, traffic: Traffic,
        parts: dict[str, Judged] | None = None,
    ) -> Decision:  # fmt: skip
        """Return the decision on one kind of traffic and of load. ``settings``: those behind it;
        ``parts``: the datasets of a mix."""
        made = choice(judged, spot_of(judged, self.asked))
        sources = self._sources(settings, judged, traffic)
        shown = Shown(made, settings, self.pairs, self.speeds, sources)
        keys = self.keys(settings[0])
        levels, operating = shown.levels(), shown.operating()
        answer = _answer(levels, operating, made, self.question.nowhere_worse)
        lost = tuple(forgone(parts or {}, made))
        taken = _taken(shown, operating)
        saving = _saving(shown, operating)
        stake = stake_of(shown)
        settle = tuple(to_settle(shown, stake))
        against = (
            *likely_broken(self.known, settings, shown), *losses(self.known, settings, shown),
        )  # fmt: skip
        broken = named_first(self.known, settings, shown)
        once = not bool(judged.field.tails.known.any())
        facts = said.Facts(
            keys.get("model"), keys.get("evidence"), traffic, answer, taken.method, taken.k,
            taken.table, levels, operating, saving, taken.how, self._why(shown, broken), _sides(shown), once, broken,
        )  # fmt: skip
        one = judged.field.candidates[made.best]
        engines = engines_told(self.known, settings, one.arm_id, one.label)
        unreal = tuple(dict.fromkeys(
            sentence
            for setting in settings
            for arm in dict.fromkeys(arm for _, arm in shown.drafts_at())
            for sentence in answer_doubts(self.known, setting, arm)
        ))  # fmt: skip
        others = tuple(dict.fromkeys(self._doubts(settings, shown, lost, parts or {}, engines)))
        doubts = (*unreal, *engines, *others)
        drafts = made.server.arm is not None
        extra = [
            *_weighed(shown, operating),
            "" if operating.drafts else said.left_on(operating.difference),
            *engines,
            *_stays_on(shown),
            *said.elsewhere(levels, drafts),
            *_one_server(shown),
            *(_showed(shown) if once else ()),
            *_lacking(shown),
            *self._open(shown, operating),
            said.MORE_LAUNCHES
            if once
            else said.stake(stake.names, stake.size, said.at_load(operating)),
            *list(said.settle(settle))[:1],
            f"Against it: {against[0].sentence}." if against else "",
            *unreal,
            *others[:1],
        ]
        # A reader who is told not to speculate, or of whom nothing is known to pay, gets no flags
        # that switch it on unless he chose the arm.
        pays = self.known_to_pay(shown) or bool(_arms(self.known, self.question))
        config, serve = (
            flags_to_paste(self.known, settings[0], shown)
            if answer != "no" and pays
            else (None, None)
        )
        return Decision(
            subject=subject_of(keys, self.configurations.get(settings[0])), traffic=traffic, objective=self.question.objective,
            answer=answer, arm=taken.label, method=taken.method, num_speculative_tokens=taken.k,
            k_kind=taken.kind, table=taken.table, operating=operating,
            levels=levels, arms=tuple(shown.cells()), at_stake=stake.size, rivals=stake.names,
            settle=settle, against=against,
            excluded=tuple(settings_excluded(self.known, keys)), saving=saving, forgone=lost,
            doubts=doubts, config=config, serve=serve, headline=said.headline(facts),
            paragraph=said.paragraph(facts, extra),
        )  # fmt: skip

    def known_to_pay(self, shown: Shown) -> bool:
        """Whether anything is settled about the server that is taken."""
        at = shown.choice.server.at
        return any(
            place is not None and shown.judged.grounds.settled[place, load]
            for load, place in enumerate(at)
        )

    def _why(self, shown: Shown, broken: tuple[str, ...]) -> str:
        """Say what comes before all figures: a load of which nothing is known, answers that break,
        or an SLO that no arm meets at the load that is spoken about."""
        spot = shown.choice.spot
        if broken and shown.choice.best in shown.judged.barred and shown.choice.server.arm is None:
            return "; ".join(broken)
        if spot.unknown:
            return _nothing_known(shown, spot)
        if self.question.slo is None or shown.choice.server.arm is not None:
            return ""
        return _missed(shown, parse(self.question.slo))

    def _open(self, shown: Shown, operating: Level) -> Iterator[str]:
        """Yield what share of an open operating load is served, and which arm meets the SLO
        there."""
        if operating.stands_for is not None or shown.choice.column is not None:
            return
        at = AtLoad.of(self.known.found, shown.sources[shown.choice.best], operating)
        yield served(at)
        yield met(at, None if self.question.slo is None else parse(self.question.slo))

    def _sources(
        self, settings: tuple[int, ...], judged: Judged, traffic: Traffic
    ) -> tuple[tuple[Source, ...], ...]:
        """Return where each candidate's tokens per second are found: an arm in each of the
        settings, which are in the order of the mix."""
        if not traffic.mix:
            return tuple((Source(settings[0], one.arm_id, 1.0),) for one in judged.field.candidates)
        shares = [share for _, share in traffic.mix]
        arms = [
            {(one.family, one.k): one.arm_id for one in self.judged[setting].field.candidates}
            for setting in settings
        ]
        return tuple(
            tuple(
                Source(setting, known[one.family, one.k], share)
                for setting, known, share in zip(settings, arms, shares, strict=True)
            )
            for one in judged.field.candidates
        )

    def _doubts(
        self, settings: tuple[int, ...], shown: Shown, lost: tuple[Forgone, ...],
        parts: dict[str, Judged], engines: tuple[str, ...],
    ) -> Iterator[str]:  # fmt: skip
        if not shown.judged.independent:
            yield said.UNKNOWN_LAUNCHES
        yield from not_in_all(parts, shown.judged.loads)
        for one in lost:
            if one.loss > WORTH_SAYING:
                yield said.forgone(one)
        for setting in settings:
            yield from not_interleaved(self.known, setting)
        if shown.choice.server.table is not None:
            yield said.TABLE
        yield from of_tables(shown)
        yield from of_adaptive(shown)
        for setting in settings if not engines else ():
            yield from less_room(self.known, setting, shown)


def _nothing_known(shown: Shown, spot: Spot) -> str:
    """Say of which load nothing is known, and what is told instead."""
    missing = said.loads_listed(spot.missing)
    measured = said.loads_listed([x.load for x in shown.levels()])
    level = shown.operating()
    gives = f"{level.arm} gives {said.change(level.difference)}, {level.difference.word}"
    return (
        f"nothing is known of {missing}, since no arm was measured there with its baseline, nor on both "
        f"sides; measured: {measured}. Here {gives}"
    )


def _missed(shown: Shown, slo: Slo) -> str:
    """Say that no arm meets the SLO at the load that is spoken about, and where something does;
    empty where one does."""
    judged, at = shown.judged, [place for place, _ in shown.choice.spot.shares]
    if not at or (judged.allowed & judged.there)[:, at].all(axis=1).any():
        return ""
    also = "" if judged.baseline[at].all() else ", and the baseline misses it too"
    meets = [
        x for x in range(len(judged.loads)) if judged.allowed[:, x].any() or judged.baseline[x]
    ]
    if not meets:
        return f"no arm meets {slo.text}{also}, nor does anything at any load measured"
    largest = meets[-1]
    who = [
        one.label
        for place, one in enumerate(judged.field.candidates)
        if judged.allowed[place, largest]
    ]
    who += ["the baseline"] if judged.baseline[largest] else []
    return (
        f"no arm meets {slo.text}{also}; the largest load at which something does is "
        f"{judged.loads[largest].text} ({listed(who)})"
    )


def _sides(shown: Shown) -> str:
    """Say what is best on each side of a load that was not measured, where that differs."""
    sides = shown.choice.sides
    if len(sides) < 2:
        return ""
    names = ["drafting nothing" if place is None else shown.label(place) for place in sides]
    return f"; {names[0]} is best below and {names[1]} above, so which is best there is open"


def _one_server(shown: Shown) -> Iterator[str]:
    """Say, where nothing is drafted at the load that is spoken about, which table of K would draft
    nothing there and what is better at other loads."""
    made = shown.choice
    if made.server.arm is not None or len(made.spot.shares) != 1:
        return
    for load, place in enumerate(made.other):
        if place is None:
            continue
        server = table_for(made.judged.grounds, place, load)
        if server.table is not None and server.at[made.figures] is None:
            yield said.one_server(server.table.entries, made.judged.loads[load])
            return


def _showed(shown: Shown) -> Iterator[str]:
    """Say what one launch showed at other loads, where another arm did better than the server by more
    than is worth saying."""
    made, judged = shown.choice, shown.judged
    for at, load in enumerate(judged.loads):
        may = judged.grounds.open_to[:, at] & judged.there[:, at]
        if at == made.figures or not may.any():
            continue
        best = int(np.argmax(np.where(may, judged.gains[:, at], -np.inf)))
        ahead = np.expm1(
            judged.gains[best, at] - np.nan_to_num(expected_at(judged, made.server, at))
        )
        if ahead > WORTH_SAYING:
            yield said.showed(shown.label(best), load, float(np.expm1(judged.gains[best, at])))


def _stays_on(shown: Shown) -> Iterator[str]:
    """Say where the server drafts and loses, since without its drafts it is not the baseline's."""
    made, judged = shown.choice, shown.judged
    place = made.server.arm
    if place is None or judged.grounds.off[place] or None in judged.grounds.batches:
        return
    at = [x for x, p in enumerate(made.server.at)
          if p is not None and judged.there[p, x] and judged.gains[p, x] < 0]  # fmt: skip
    if at:
        yield said.stays_on([judged.loads[x] for x in at])


def _lacking(shown: Shown) -> Iterator[str]:
    """Say which arms were not measured at the load that is spoken about."""
    made = shown.choice
    if len(made.spot.shares) != 1:
        return
    at = made.spot.shares[0][0]
    names = [shown.label(p) for p in range(len(made.judged.gains)) if not made.judged.there[p, at]]
    if names:
        were = "was" if len(names) == 1 else "were"
        yield f"{listed(names)} {were} not measured at {made.judged.loads[at].text}."


def _weighed(shown: Shown, operating: Level) -> Iterator[str]:
    """Yield what was measured at the operating load, where what is expected of the arm differs by
    more than is worth saying."""
    made = shown.choice
    if made.column is not None or made.spot.beside:
        return
    expected = operating.difference.improvement
    measured = number(shown.judged.measured[made.best, made.figures])
    if expected is not None and measured is not None and abs(expected - measured) > WORTH_SAYING:
        yield said.weighed(expected, measured)


@dataclass(frozen=True)
class _Taken:
    label: str
    method: str
    k: int | None
    kind: KKind
    how: str
    table: Table | None


def _answer(
    levels: Sequence[Level], operating: Level, made: Choice, nowhere_worse: float | None
) -> Answer:
    """Answer for the load that is spoken about.

    Yes: a settled gain there, and no measured load is a loss or likely loss of the server as it
    would run. At some loads: such a gain, and a loss or likely loss elsewhere. No: no arm gains
    there, since each is a settled loss, lies inside the margin of equivalence or may not be taken.
    """
    if made.spot.unknown:
        return "open"
    gains = made.between_gains if made.spot.beside else operating.difference.word == GAIN
    if gains and operating.drafts:
        own = [level.own for level in levels if level.own is not None]
        loses = any(one.word in (LOSS, LIKELY_LOSS) for one in own)
        lows = [one.adjusted_low for one in own]
        worse = nowhere_worse is not None and any(
            low is None or low < -nowhere_worse for low in lows
        )
        return "at some loads" if loses or worse else "yes"
    return "no" if _no_arm_gains(made) else "open"


def _no_arm_gains(made: Choice) -> bool:
    """Return whether no arm that may be taken can gain at the load that is spoken about."""
    if made.server.arm is not None:
        return False
    judged = made.judged if made.column is None else made.column
    columns = [0] if made.column is not None else [at for at, _ in made.spot.shares]
    may = judged.grounds.open_to & judged.there
    return all(
        not may[place, at] or judged.adjusted[1][place, at] < EQUIVALENCE
        for at in columns or [made.figures]
        for place in range(len(may))
    )


def _saving(shown: Shown, operating: Level) -> Saving | None:
    """Return what an output token costs less at the operating load; None unless throughput decides
    there and an arm is taken."""
    told = operating.difference
    if told.metric != "output_throughput" or not operating.drafts or told.improvement is None:
        return None
    # A token costs what the time costs in which it is made: 1 - old / new.
    low, high = (None if x is None else x / (1 + x) for x in (told.low, told.high))
    return Saving(operating.load, told.improvement / (1 + told.improvement), low, high, told.word)


def _taken(shown: Shown, operating: Level) -> _Taken:
    """Return the arm that names the decision: the one taken at the operating load, else the best
    there."""
    made = shown.choice
    table = None if made.server.table is None else made.server.table.entries
    one = (
        made.judged.field.candidates[made.best]
        if made.column is None
        else made.column.field.candidates[made.row]
    )
    kind: KKind = "table" if table else k_kind(one)
    method = one.family.split(" (")[0]
    how = "" if one.chooser is None else one.label.removeprefix(method).strip()
    return _Taken(operating.arm, method, one.k, kind, how, table)


def _blends(case: "Case", judged: dict[int, Judged], shown: list[int]) -> Iterator[Decision]:
    """Yield the decisions on one arm for all datasets of a model on one hardware."""
    for named in mixes_of(case.known.found, judged, shown):
        weights = dict(sorted(mix_weights(list(named), case.question.mix).items()))
        settings = tuple(named[name] for name in weights)
        # Who filters to some of the datasets asks about these alone.
        if not case.question.mix and not set(settings) <= set(shown):
            continue
        parts = {name: judged[named[name]] for name in weights}
        blend = mixed(list(parts.values()), list(weights.values()))
        for name, part in () if blend is None else case.by_kind(blend):
            axis = part.loads[0].axis
            whole = {at: _of_axis(one, axis) for at, one in parts.items()}
            yield case.decision(settings, part, Traffic(None, tuple(weights.items()), name), whole)


def _of_axis(judged: Judged, axis: str) -> Judged:
    loads = [load for load in judged.loads if load.axis == axis]
    return judged.narrowed(loads, range(len(judged.field.candidates)))


def subject_of(keys: dict[str, Any], configuration: str | None) -> Subject:
    """Return what a decision is about, from the facts of a setting; None for unknown."""
    count = ("gpu_count", "tensor_parallel_size")
    texts = ("study", "model", "gpu", "engine", "engine_version", "evidence")
    told = {name: _text(keys.get(name)) for name in texts}
    whole = {name: None if keys.get(name) is None else int(keys[name]) for name in count}
    return Subject(**told, **whole, configuration=configuration)  # type: ignore[arg-type]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
