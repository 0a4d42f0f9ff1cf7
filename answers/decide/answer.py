"""From judged settings to decisions: the only place where an answer is made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.choice.gather import Terms, judged_settings, only
from analysis.choice.judged import Judged, Rule, mixed
from analysis.choice.pick import Pick
from analysis.evidence.words import EQUIVALENCE, GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS
from analysis.frames import plain
from analysis.service.slo import parse
from answers.decide import words as said
from answers.decide.configurations import configurations
from answers.decide.doubts import less_room, not_interleaved, settings_excluded
from answers.decide.losses import losses
from answers.decide.mix import forgone, mix_weights, mixes_of, of_systems
from answers.decide.operating import operating_level
from answers.decide.overview import system
from answers.decide.paste import flags_to_paste
from answers.decide.rates import Source, Speeds, speeds
from answers.decide.read import Ground, ground
from answers.decide.self_choosing import of_adaptive, of_tables
from answers.decide.served import AtLoad, met, served
from answers.decide.shown import Pairs, Shown, k_kind, number
from answers.decide.unsettled import WORTH_SAYING, settle_rivals, settle_words, worst_stake
from answers.decide.values import (
    Answer,
    Decision,
    Decisions,
    Difference,
    Entry,
    Forgone,
    KKind,
    Level,
    Question,
    Saving,
    Subject,
    Traffic,
)
from warehouse.store_read import Reader

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
    terms = Terms(question.objective == "latency", slo, _arms(known, question))
    asked = _asked(known)
    # The others cost time and say nothing of what is asked.
    found, sure = only(of_systems(known.found, asked), known.found, known.sure)
    judged = judged_settings(found, sure, known.cells, known.acceptance, terms)
    shown = sorted(asked & set(judged))
    case = Case(known, question, judged, speeds(known.found))
    single = [one for s in shown for one in case.of_setting(s, judged[s])]
    blends = list(_blends(case, judged, shown))
    if not single:
        return Decisions((), _why_none(known, asked, shown))
    order = list(dict.fromkeys(system(one.subject) for one in single))
    # The sort is stable: a mix stands before the datasets of its own subject.
    return Decisions(
        tuple(sorted((*blends, *single), key=lambda one: order.index(system(one.subject))))
    )


def _arms(known: Ground, question: Question) -> frozenset[str]:
    """Return the labels of the arms that may be taken; none where the reader chose none, which
    allows all."""
    return frozenset(question.filters.arm) - {"baseline"}


def _asked(known: Ground) -> set[int]:
    """Return the settings of which the filters keep a speculative cell with a partner."""
    pairs = known.found.pairs.drop_duplicates("speculative_id")
    there = pairs[pairs["speculative_id"].astype(object).isin(known.shown)]
    return {int(s) for s in there["setting"]}


def _why_none(known: Ground, asked: set[int], shown: list[int]) -> str:
    if shown:
        return "No arm meets the SLO at any load measured."
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
        """Yield the decision on one dataset, where an arm may be taken."""
        keys = self.keys(setting)
        traffic = Traffic(_text(keys.get("dataset")))
        picked = judged.picked(self.rule)
        if picked is not None:
            yield self.decision((setting,), judged, picked, traffic)

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

    @property
    def rule(self) -> Rule:
        """The rule by which arms are weighed."""
        return Rule(self.question.load)

    def keys(self, setting: int) -> dict[str, Any]:
        """Return the facts of a setting; None for unknown."""
        table = self.known.found.keys
        row = table.loc[setting].iloc[0] if setting in table.index else pd.Series(dtype=object)
        return {str(name): plain(value) for name, value in row.items()}

    def decision(
        self, settings: tuple[int, ...], judged: Judged, picked: Pick, traffic: Traffic,
        lost: tuple[Forgone, ...] = (),
    ) -> Decision:  # fmt: skip
        """Return the decision on one kind of traffic. ``settings``: those behind it."""
        sources = self._sources(settings, judged, traffic)
        shown = Shown(judged, picked, settings, self.pairs, self.speeds, sources)
        keys = self.keys(settings[0])
        levels = shown.levels()
        operating, unknown_load = operating_level(levels, judged, self.question.load)
        answer = _answer(levels, operating, self.question.nowhere_worse)
        saving = _saving(shown, operating)
        table = _entries(picked)
        taken = _taken(shown, operating, table)
        stake = worst_stake(shown)
        settle = (*settle_words(shown), *settle_rivals(shown, stake))
        against = tuple(losses(self.known, settings, shown))
        facts = said.Facts(
            keys.get("model"), keys.get("evidence"), traffic, self.question.objective, answer,
            taken.method, taken.k, table, levels, operating, saving,
            self.question.nowhere_worse, taken.how,
        )  # fmt: skip
        doubts = tuple(
            dict.fromkeys(
                (*([unknown_load] if unknown_load else []), *self._doubts(settings, shown, lost))
            )
        )
        extra = [
            *_weighed(shown, operating),
            *self._open(shown, operating),
            said.stake(stake.rivals, stake.size, stake.load),
            said.settle(settle),
            f"Against it: {against[0].sentence}." if against else "",
            *doubts[:1],
        ]
        # A reader who is told not to speculate gets no flags that switch it on.
        config, serve = (
            (None, None) if answer == "no" else flags_to_paste(self.known, settings[0], shown)
        )
        return Decision(
            subject=subject_of(keys, self.configurations.get(settings[0])), traffic=traffic, objective=self.question.objective,
            answer=answer, arm=taken.label, method=taken.method, num_speculative_tokens=taken.k,
            k_kind=taken.kind, table=table, operating=operating,
            levels=levels, arms=tuple(shown.cells()), at_stake=stake.size, rivals=stake.rivals,
            settle=settle, against=against,
            excluded=tuple(settings_excluded(self.known, keys)), saving=saving, forgone=lost,
            doubts=doubts, config=config, serve=serve, headline=said.headline(facts),
            paragraph=said.paragraph(facts, extra),
        )  # fmt: skip

    def _open(self, shown: Shown, operating: Level | None) -> Iterator[str]:
        """Yield what share of an open operating load is served, and which arm meets the SLO
        there."""
        if operating is None:
            return
        labels = [one.label for one in shown.judged.field.candidates]
        sources = shown.sources[labels.index(operating.arm)]
        at = AtLoad.of(self.known.found, sources, operating)
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
        self, settings: tuple[int, ...], shown: Shown, lost: tuple[Forgone, ...]
    ) -> Iterator[str]:
        if not shown.judged.independent:
            yield said.UNKNOWN_LAUNCHES
        for one in lost:
            if one.loss > WORTH_SAYING:
                yield said.forgone(one)
        for setting in settings:
            yield from not_interleaved(self.known, setting)
        if shown.picked.table is not None:
            yield said.TABLE
        yield from of_tables(shown)
        yield from of_adaptive(shown)
        for setting in settings:
            yield from less_room(self.known, setting, shown)


def _weighed(shown: Shown, operating: Level | None) -> Iterator[str]:
    """Yield what was measured at the operating load, where what is expected of the arm differs by
    more than is worth saying."""
    if operating is None or operating.load not in shown.judged.loads:
        return
    at = shown.judged.loads.index(operating.load)
    expected = operating.difference.improvement
    measured = number(shown.judged.measured[shown.place_at(at), at])
    if expected is not None and measured is not None and abs(expected - measured) > WORTH_SAYING:
        yield said.weighed(expected, measured)


@dataclass(frozen=True)
class _Taken:
    label: str
    method: str
    k: int | None
    kind: KKind
    how: str


def _answer(levels: Sequence[Level], operating: Level | None, nowhere_worse: float) -> Answer:
    """Answer yes for a settled gain at the operating load, no settled loss, and no interval that
    reaches further below zero than ``nowhere_worse``. Answer no where no load has a gain, a likely
    gain, or a possible gain beyond the margin of equivalence."""
    words = [level.difference.word for level in levels]
    lows = [level.difference.adjusted_low for level in levels]
    worst = min((-1.0 if low is None else low for low in lows), default=-1.0)
    pays = operating is not None and operating.difference.word == GAIN
    if pays and LOSS not in words and worst > -nowhere_worse:
        return "yes"
    if GAIN in words:
        return "at some loads"
    return "no" if words and all(_no_gain(level.difference) for level in levels) else "open"


def _no_gain(difference: Difference) -> bool:
    if difference.word in (LOSS, LIKELY_LOSS):
        return True
    high = difference.adjusted_high
    return difference.word != LIKELY_GAIN and high is not None and high < EQUIVALENCE


def _saving(shown: Shown, operating: Level | None) -> Saving | None:
    """Return what an output token costs less at the operating load; None unless throughput decides
    there and an arm is taken."""
    if operating is None or operating.difference.metric != "output_throughput":
        return None
    if operating.load not in shown.judged.loads:
        return _saving_between(operating)
    at = shown.judged.loads.index(operating.load)
    size, low, high = (number(x[shown.place_at(at), at]) for x in shown.judged.saving)
    if size is None:
        return None
    return Saving(operating.load, size, low, high, operating.difference.word)


def _saving_between(operating: Level) -> Saving | None:
    """Return the saving at a load between two measured ones, from the difference that stands for
    it."""
    told = operating.difference
    sizes = [None if x is None else x / (1 + x) for x in (told.improvement, told.low, told.high)]
    if sizes[0] is None:
        return None
    return Saving(operating.load, sizes[0], sizes[1], sizes[2], told.word)


def _entries(picked: Pick) -> Table | None:
    return None if picked.table is None else picked.table.entries


def _taken(shown: Shown, operating: Level | None, table: Table | None) -> _Taken:
    """Return the arm that names the decision: the one at the operating load, else the best
    overall."""
    labels = [one.label for one in shown.judged.field.candidates]
    place = shown.picked.fixed if operating is None else labels.index(operating.arm)
    one = shown.judged.field.candidates[place]
    kind: KKind = "table" if table and one.k is not None else k_kind(one)
    method = one.family.split(" (")[0]
    how = "" if one.chooser is None else one.label.removeprefix(method).strip()
    return _Taken(one.label, method, one.k, kind, how)


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
        picked = None if blend is None else blend.picked(case.rule)
        if blend is not None and picked is not None:
            traffic = Traffic(None, tuple(weights.items()))
            lost = tuple(forgone(parts, blend, picked, case.rule))
            yield case.decision(settings, blend, picked, traffic, lost)


def subject_of(keys: dict[str, Any], configuration: str | None) -> Subject:
    """Return what a decision is about, from the facts of a setting; None for unknown."""
    count = ("gpu_count", "tensor_parallel_size")
    texts = ("study", "model", "gpu", "engine", "engine_version", "evidence")
    told = {name: _text(keys.get(name)) for name in texts}
    whole = {name: None if keys.get(name) is None else int(keys[name]) for name in count}
    return Subject(**told, **whole, configuration=configuration)  # type: ignore[arg-type]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
