"""Does the decision hold for what a server does now: what it takes at this load and acceptance, against what runs.

The rule stands in ``docs/live.md``. What is taken, and what is better than what runs, the decision says
(``answers.decide``): at the load seen, and where a step yields other tokens than were measured, with these.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import log

import pandas as pd

from analysis.drafts.acceptance import Counters
from analysis.drafts.acceptance_tables import believed
from analysis.drafts.watched import (
    LengthChange,
    MeasuredLength,
    length_change,
    length_of,
    mixed_length,
    summed,
)
from analysis.frames import among, records
from analysis.matching.arms import BASELINE
from answers.decide.answer import decide_on, grounds
from answers.decide.overview import overviews
from answers.decide.tables import NO_DRAFTS
from answers.decide.values import ArmAtLoad, ArmDifference, Decision, RunningServer
from answers.ground import Ground
from answers.live.values import (
    CANNOT_SAY,
    HOLDS,
    NO_LONGER,
    LiveAcceptance,
    LiveAnswer,
    LiveLoad,
    LiveQuestion,
    Moved,
    Standing,
)
from answers.wording import listed, percent
from warehouse import queries
from warehouse.catalogue import METRICS, duration
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

#: A load nearer to a measured one than this (times) is that one, and beyond the largest this near.
SAME_LOAD, BEYOND = 2**0.5, 1.25
#: A step that yields more or fewer tokens by less than this (ratio) moves no gain that counts.
SAME_LENGTH = 0.05
#: An interval that reaches further (ratio) tells too little.
PRECISE = 0.15
#: A draft has so many tokens, give or take, where K is fixed.
_FIXED = 0.05
_TOLD = tuple[Standing, str, str]


def live(reader: Reader, question: LiveQuestion) -> LiveAnswer:
    """Hold a decision against what a server did while it was watched.

    Raises InvalidInput where the warehouse has no decision on this model, or several, and where the
    counters leave open which arm runs.
    """
    asked, filters = question.decide, question.decide.filters
    names = _names(reader, question)
    # All traffic of the subject is decided: what is seen may be another than the one asked about.
    whole = replace(filters, model=names, dataset=(), arm=())
    known = grounds(reader, replace(asked, filters=whole))
    found = decide_on(known, replace(asked, filters=whole))
    if not found.decisions:
        raise InvalidInput(f"There is no decision on {listed(list(names))}: {found.why_none}")
    decided = _one(found.decisions, filters)
    return _Watching(reader, question, known, decided, _running(question, decided)).answer()


def _names(reader: Reader, question: LiveQuestion) -> tuple[str, ...]:
    """Return what the warehouse calls the model that is served: as the filters say, else by its name, else
    by the last part of it."""
    if question.decide.filters.model:
        return question.decide.filters.model
    served = {name.rpartition("/")[2].lower(): name for name in question.models}
    stored = queries.cells(reader, Filters()).column("model").unique().to_pylist()
    there = sorted(str(name) for name in stored if name is not None)
    exact = [name for name in there if name in question.models]
    found = exact or [name for name in there if name.rpartition("/")[2].lower() in served]
    if not found:
        what = listed(sorted(question.models)) if question.models else "a model without a name"
        raise InvalidInput(
            f"The server serves {what}, and nothing was measured of it; there is "
            f"{listed(there) if there else 'nothing'}. Where it goes by another name, give --model."
        )
    return tuple(found)


def _one(decisions: Sequence[Decision], filters: Filters) -> Decision:
    """Return the decision that is meant: the dataset named, else the mix, of the one subject."""
    closed = [one for one in decisions if one.levels[0].load.axis == "concurrency"]
    if not closed:
        raise InvalidInput(
            "This was decided for rates or traces, and requests in flight do not tell one; measure "
            "the arms at requests at once as well."
        )
    about = overviews(closed)
    if len(about) > 1:
        names = listed([f"{one.name} ({one.about[0] or 'no study'})" for one in about])
        raise InvalidInput(
            f"There are decisions on {names}; name the one in production with --study, --gpu or "
            "--engine-version."
        )
    meant = list(about[0].leads)
    if filters.dataset:
        meant = [one for one in closed if one.traffic.dataset in filters.dataset]
    if len(meant) != 1:
        there = listed([about[0].place(one) for one in meant or closed])
        raise InvalidInput(
            f"Which traffic was decided on? There is {there}; name it with --dataset or --mix, a size "
            "with --tensor-parallel-size."
        )
    return meant[0]


# --- Which arm runs, by what is drafted.


@dataclass(frozen=True)
class _Arm:
    label: str
    family: str
    k: int | None


def _running(question: LiveQuestion, decided: Decision) -> _Arm | None:
    """Return the arm that runs, None where no measured one drafts like that. Raises InvalidInput where
    several do."""
    watched, stated = question.watched, question.decide.filters.arm
    arms = {one.arm: _Arm(one.arm, one.method, one.num_speculative_tokens) for one in decided.arms}
    if not watched.drafts_at_all:
        return _Arm(BASELINE, "", 0)
    if stated:
        if len(stated) > 1 or stated[0] not in arms:
            raise InvalidInput(f"--arm names the arm that runs, one of: {', '.join(arms)}.")
        return arms[stated[0]]
    fits = _fitting(arms.values(), watched.k, watched.most, decided)
    own = [one for one in fits if one.label == decided.arm or one.family == _family(decided)]
    if not own and len({one.family for one in fits}) > 1:
        raise InvalidInput(
            f"It drafts {watched.most} tokens, as {listed([one.label for one in fits])} do; say which "
            "of them runs with --arm."
        )
    return next(iter(own or fits), None)


def _fitting(arms: "Sequence[_Arm]", k: float | None, most: int, decided: Decision) -> list[_Arm]:
    if k is None:
        return []
    alike = [one for one in arms if one.k == most]
    if abs(k - most) <= _FIXED * most:
        return alike
    if decided.table is not None and most == max(entry[2] for entry in decided.table):
        return [one for one in arms if one.k == round(k) and one.family == _family(decided)]
    # An engine that chooses K, or a text that holds fewer.
    return [one for one in arms if one.k is None] or alike


def _family(decision: Decision) -> str | None:
    return next((one.method for one in decision.arms if one.arm == decision.arm), None)


# --- What was seen, held against the decision.


@dataclass(frozen=True)
class _Watching:
    """What was watched with all it is held against. ``decided``: for the load that was decided for;
    ``arm``: what runs."""

    reader: Reader
    question: LiveQuestion
    known: Ground
    decided: Decision
    arm: _Arm | None

    def answer(self) -> LiveAnswer:
        watched, here, arm = self.question.watched, self.here, self.arm
        drafts = self.acceptance
        standing, why, instead = self._told()
        moved = drafts is not None and drafts.moved != "as measured"
        then = (self._like or self.seen) if moved else here
        known = then is not None and bool(self.measured_at)
        return LiveAnswer(
            datetime.now(UTC), standing, why, instead, here.subject, self.decided.traffic.name,
            self.decided.objective, None if arm is None else arm.label, watched.k,
            _taken(then) if known and then else None, _gain(self.told),
            _gain(_at(self.seen, arm, self.level)) if moved else _gain(self.told),
            LiveLoad(
                watched.in_flight, watched.in_flight_most, watched.replicas, watched.waiting,
                watched.preempted, self.decided.operating_load, self.measured_at,
            ),
            drafts, watched.seconds, watched.restarts,
            here.config if standing == NO_LONGER and not moved else None,
        )  # fmt: skip

    @cached_property
    def loads(self) -> list[Load]:
        """The measured loads."""
        return sorted((one.load for one in self.decided.levels), key=lambda x: x.order)

    @cached_property
    def level(self) -> Load:
        """The measured load that is nearest to the one seen."""
        seen = max(self.question.watched.in_flight, 1.0)
        return min(self.loads, key=lambda one: abs(log((one.value or 1.0) / seen)))

    @cached_property
    def measured_at(self) -> tuple[Load, ...]:
        """The measured load that is the one seen, or those on both sides of it; none outside them."""
        seen, at = self.question.watched.in_flight, self.level.value or 1.0
        most = BEYOND if self.level == self.loads[-1] else SAME_LOAD
        if at / SAME_LOAD <= seen <= at * most:
            return (self.level,)
        below, above = (
            [one for one in self.loads if ((one.value or 0) > seen) is side]
            for side in (False, True)
        )
        return (below[-1], above[0]) if below and above else ()

    def _decide(self, lengths: tuple[float, ...] = ()) -> tuple[Decision, ...]:
        """Return the decisions on all traffic of the subject at the load seen, or the nearest measured."""
        between = len(self.measured_at) == 2
        load = float(f"{self.question.watched.in_flight:.3g}") if between else self.level.value
        decide = self.question.decide
        whole = replace(
            decide.filters, model=(str(self.decided.subject.model),), dataset=(), arm=()
        )
        arm = self.arm or _Arm("", "", None)
        running = RunningServer(arm.label, arm.family, lengths)
        found = decide_on(self.known, replace(decide, filters=whole, load=load), running).decisions
        return tuple(one for one in found if one.subject == self.decided.subject)

    @cached_property
    def every(self) -> tuple[Decision, ...]:
        """The decisions on all traffic at the load seen, with the tokens of a step as measured."""
        return self._decide()

    @cached_property
    def here(self) -> Decision:
        """The decision at the load seen, with the tokens of a step as measured."""
        return next(one for one in self.every if one.traffic == self.decided.traffic)

    @cached_property
    def seen(self) -> Decision | None:
        """The decision at the load seen with the tokens that a step yields now, by the arms of which that
        is known: those of the method that runs, up to its K. None where no K is fixed."""
        counted = self.question.watched.counted
        lengths = tuple(
            1 + sum(counted.by_position[: at + 1]) / counted.drafts
            for at in range(len(counted.by_position))
        )
        if self.arm is None or self.arm.k is None or not lengths:
            return None
        found = self._decide(lengths)
        return next((one for one in found if one.traffic == self.decided.traffic), None)

    @cached_property
    def told(self) -> ArmDifference | None:
        """The gain of what runs as measured at the load seen."""
        return _at(self.here, self.arm, self.level)

    # --- Acceptance.

    @cached_property
    def _drafts(self) -> dict[str, list[Counters]]:
        """Dataset -> the counts of each of its cells of the arm that runs; those of one prompt set as
        one, since they ask the same again."""
        arm = "" if self.arm is None else self.arm.label
        cells = {new for one in self.every for x in one.arms if x.arm == arm for _, new in x.pairs}
        return counts_of(self.reader, self.known, frozenset(cells))

    def _measured(self, decision: Decision) -> MeasuredLength | None:
        shares = decision.traffic.mix or ((decision.traffic.dataset or "", 1.0),)
        parts = [(share, length_of(self._drafts.get(name, ()))) for name, share in shares]
        known = [(share, one) for share, one in parts if one is not None]
        return mixed_length(known) if known and len(known) == len(parts) else None

    def _change(self, decision: Decision) -> LengthChange | None:
        measured = self._measured(decision)
        return None if measured is None else length_change(self.question.watched.blocks, measured)

    @cached_property
    def acceptance(self) -> LiveAcceptance | None:
        """Drafts now against those measured; None where one of them is not known."""
        change, counted = self._change(self.here), self.question.watched.counted
        if change is None:
            return None
        moved = _moved(change, self.told)
        like = None if moved == "as measured" else self._like
        return LiveAcceptance(
            counted.accepted_tokens / counted.draft_tokens, counted.drafts, change, moved,
            None if like is None else like.traffic.name,
        )  # fmt: skip

    @cached_property
    def _like(self) -> Decision | None:
        """The decision on the dataset whose acceptance is that of now; None without one."""
        near = []
        for one in self.every:
            change = self._change(one) if one.traffic != self.here.traffic else None
            if change is not None and not one.traffic.mix:
                size = abs(log(change.ratio))
                if size < SAME_LENGTH or change.low < 1 < change.high:
                    near.append((size, one))
        return min(near, key=lambda pair: pair[0])[1] if near else None

    # --- The answer.

    def _told(self) -> _TOLD:
        watched, arm = self.question.watched, self.arm
        if arm is not None and arm.label == BASELINE:
            return self._by_load(self.here)
        if watched.counted.drafts <= 0:
            return CANNOT_SAY, f"nothing was drafted in {duration(watched.seconds)}", _LONGER
        if arm is None:
            return (
                CANNOT_SAY,
                f"it drafts {watched.k or 0:.3g} tokens, which was not measured; {_takes(self.here)}",
                "",
            )
        drafts = self.acceptance
        if drafts is None and self._measured(self.here) is None:
            return CANNOT_SAY, f"no acceptance of {arm.label} was counted when it was measured", ""
        if drafts is None or drafts.change.precise > PRECISE:
            few = f"{watched.counted.drafts:,.0f} drafts in {duration(watched.seconds)}"
            return (
                CANNOT_SAY,
                f"{few} are too few to tell the tokens of a step within {PRECISE:.0%}",
                _LONGER,
            )
        if drafts.moved == "fewer":
            return NO_LONGER, f"{self._yields(drafts)}: {self._left()}", self._instead()
        if drafts.moved == "more":
            return self._more(drafts)
        return self._by_load(self.here)

    def _yields(self, drafts: LiveAcceptance) -> str:
        change = drafts.change
        return (
            f"a step yields {change.now:.2f} tokens where {change.measured:.2f} were measured on "
            f"{self.here.traffic.name}"
        )

    def _left(self) -> str:
        now = None if self.seen is None else _at(self.seen, self.arm, self.level)
        told = f"of the {percent(_gain(self.told))} measured at {self.level.text}"
        return f"{told}, about {percent(_gain(now))} is left" if now else f"{told}, less is left"

    def _instead(self) -> str:
        """Say what to do where acceptance is another: what the decision takes on the traffic that has it,
        else what it takes with the tokens of now."""
        if self._like is not None:
            return f"Acceptance is that of {self._like.traffic.name}, where {_takes(self._like)}."
        if self.seen is None:
            return _MEASURE
        return f"With the tokens of now, of {self._upto}, {_takes(self.seen)}. {_MEASURE}"

    @property
    def _upto(self) -> str:
        most = 0 if self.arm is None or self.arm.k is None else self.arm.k
        return f"K up to {most}"

    def _more(self, drafts: LiveAcceptance) -> _TOLD:
        """Where more is accepted what runs gains more; whether a larger K would gain more still is told
        by the traffic that has this acceptance."""
        yields, like = self._yields(drafts), self._like
        if like is not None:
            standing, why, instead = self._by_load(like)
            return standing, f"{yields}, as on {like.traffic.name}: {why}", instead
        larger = [
            one.arm for one in self.here.arms
            if self.arm and self.arm.k and one.method == self.arm.family and one.load == self.level
            and (one.num_speculative_tokens or 0) > self.arm.k
        ]  # fmt: skip
        if larger:
            more = f"whether {listed(larger)} gains more now was not measured"
            return CANNOT_SAY, f"{yields}: it gains more than was decided on, and {more}", _MEASURE
        return self._by_load(self.here)

    def _by_load(self, here: Decision) -> _TOLD:
        """Say whether something is better than what runs at the load seen, by the decision there."""
        arm = self.arm
        runs = NO_DRAFTS if arm is None or arm.label == BASELINE else arm.label
        where = f"at {self.question.watched.in_flight:.3g} at once"
        if not self.measured_at:
            span = f"{self.loads[0].short} to {self.loads[-1].text}"
            return CANNOT_SAY, f"{where} nothing was measured, only at {span}", _MEASURE_LOAD
        better = dict(here.beaten)
        beaten = [name for name in better.values() if name is not None]
        if not better:
            return CANNOT_SAY, f"{runs} was not measured {where}; {_takes(here)}", _MEASURE_LOAD
        if not beaten:
            if runs != NO_DRAFTS and not here.operating.drafts:
                return CANNOT_SAY, f"{where} it is open whether {runs} pays; {_takes(here)}", ""
            same = (
                "what the decision takes"
                if _taken(here) == (arm and arm.label)
                else f"not shown to be beaten; {_takes(here)}"
            )
            return HOLDS, f"{where} {runs} is {same}{self._gains(here)}", ""
        name = Counter(beaten).most_common(1)[0][0]
        other = "drafting nothing" if name == BASELINE else name
        if len(beaten) < len(better):
            at = next(load for load, one in better.items() if one is not None)
            return (
                CANNOT_SAY,
                f"{where} lies between measured loads, and at {at.text} {other} is better than {runs}",
                _MEASURE_LOAD,
            )
        return NO_LONGER, f"{where} {other} is better than {runs}", f"Then {_takes(here)}."

    def _gains(self, here: Decision) -> str:
        told = _gain(_at(here, self.arm, self.level))
        return "" if told is None else f", {percent(told)} as measured at {self.level.text}"


_LONGER = "Watch longer, e.g. --for 10m."
_MEASURE = "Measure this traffic to know."
_MEASURE_LOAD = "Measure it at that load."


def _taken(decision: Decision) -> str:
    return decision.operating.arm if decision.operating.drafts else BASELINE


def _takes(decision: Decision) -> str:
    """Say what a decision takes at its load."""
    level = decision.operating
    if not level.drafts:
        return f"the decision drafts nothing at {level.load.text}"
    return f"the decision takes {level.arm} at {level.load.text} ({percent(level.difference.improvement)})"


def _at(decision: Decision | None, arm: _Arm | None, load: Load) -> ArmDifference | None:
    """Return how an arm does at a measured load."""
    every: Sequence[ArmAtLoad] = () if decision is None or arm is None else decision.arms
    found = (one.difference for one in every if arm and (one.arm, one.load) == (arm.label, load))
    return next(found, None)


def _gain(difference: ArmDifference | None) -> float | None:
    return None if difference is None else difference.improvement


def _moved(change: LengthChange, told: ArmDifference | None) -> Moved:
    """Say whether a step yields so many more or fewer tokens, for certain, that the gain lies outside the
    interval that was told."""
    low, high = 1 - SAME_LENGTH, 1 + SAME_LENGTH
    if told is not None and told.improvement is not None:
        lower = METRICS[told.metric].better == "lower"
        speeds = [
            None if x is None else 1 / max(1 - x, 1e-9) if lower else 1 + x
            for x in (told.improvement, told.low, told.high)
        ]
        middle, worst, best = speeds
        if middle and worst is not None and best is not None:
            low, high = min(low, worst / middle), max(high, best / middle)
    if change.high < low:
        return "fewer"
    return "more" if change.low > high else "as measured"


def counts_of(reader: Reader, known: Ground, cells: frozenset[str]) -> dict[str, list[Counters]]:
    """Return dataset -> what the drafts of cells counted; cells of one prompt set count as one, with the
    mean of their counts."""
    rows = believed(known.acceptance[among(known.acceptance["cell_id"], cells)])
    rows = rows.dropna(subset=["drafts", "draft_tokens", "accepted_tokens"])
    places = queries.acceptance_by_position(reader, Filters()).to_pandas()
    places = places[among(places["cell_id"], cells)].merge(rows[["cell_id", "source"]])
    positions: dict[str, list[float]] = defaultdict(list)
    for row in records(places.sort_values(["cell_id", "position"])):
        positions[row["cell_id"]].append(row["rate"])
    sets: dict[tuple[str, str], list[Counters]] = {}
    for row in records(rows):
        facts = known.by_id.loc[row["cell_id"]]
        drafts = float(row["drafts"])
        asked = facts["prompt_set_hash"]
        key = str(facts["dataset"]), str(facts["concurrency"] if pd.isna(asked) else asked)
        sets.setdefault(key, []).append(Counters(
            drafts, float(row["draft_tokens"]), float(row["accepted_tokens"]),
            tuple(drafts * rate for rate in positions[row["cell_id"]]),
        ))  # fmt: skip
    found: dict[str, list[Counters]] = {}
    for (dataset, _), every in sets.items():
        total, n = summed(every), len(every)
        found.setdefault(dataset, []).append(Counters(
            total.drafts / n, total.draft_tokens / n, total.accepted_tokens / n,
            tuple(one / n for one in total.by_position),
        ))  # fmt: skip
    return found
