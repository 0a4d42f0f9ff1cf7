"""Does the decision hold for what a server does now: what it takes at this load and acceptance, against what runs.

The rule stands in ``docs/live.md``. What is taken, and what is better than what runs, the decision says
(``answers.decide``): at the load seen, and where a step yields other tokens than were measured, with these.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from math import log

import pandas as pd

from analysis.drafts.acceptance import Counters
from analysis.drafts.acceptance_tables import believed
from analysis.drafts.watched import BLOCKS, LengthChange, length_change, scaled, summed
from analysis.frames import among, records, records_by
from analysis.matching.arms import BASELINE
from analysis.matching.fields import arguments
from answers.decide.answer import decide_on, grounds
from answers.decide.overview import overviews
from answers.decide.values import (
    ArmAtLoad,
    ArmDifference,
    DecideQuestion,
    Decision,
    Decisions,
    RunningServer,
)
from answers.ground import Ground
from answers.live.values import (
    CANNOT_SAY,
    HOLDS,
    NO_LONGER,
    LiveAcceptance,
    LiveAnswer,
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
#: Where K is fixed, a draft falls short of it by less than this share.
_FIXED = 0.05
_LONGER = "Watch longer, e.g. --for 10m."
_MEASURE = "Measure this traffic to know."
_MEASURE_LOAD = "Measure it at that load."
_Told = tuple[Standing, str, str]


def live(reader: Reader, question: LiveQuestion) -> LiveAnswer:
    """Hold a decision against what a server did while it was watched.

    Raises InvalidInput where the warehouse has no decision on this model, or several, and where the
    counters leave open which arm runs.
    """
    asked = question.decide.filters
    # All traffic of the subject is decided: what is seen may be another than the one asked about.
    whole = replace(
        question.decide, filters=replace(asked, model=_names(reader, question), dataset=(), arm=())
    )
    known = grounds(reader, whole)
    decided = _meant(decide_on(known, whole), asked)
    # The loads that were measured are those of a whole server, whatever engines it had.
    served = arguments(known.by_id.at[decided.arms[0].pairs[0][0], "server_args"])
    stated, seen = served.get("server_args.data-parallel-size", ""), question.watched
    ranks = max(int(stated) if stated.isdecimal() else 1, 1)
    question = replace(question, watched=replace(
        seen, in_flight=seen.in_flight * ranks, in_flight_most=seen.in_flight_most * ranks,
        waiting=seen.waiting * ranks,
    ))  # fmt: skip
    return _Watching(reader, question, whole, known, decided, _running(question, decided)).answer()


def _names(reader: Reader, question: LiveQuestion) -> tuple[str, ...]:
    """Return what the warehouse calls the model that is served: as the filters say, else by its name, else
    by the last part of it."""
    stored = queries.cells(reader, Filters()).column("model").unique().to_pylist()
    there = sorted(str(name) for name in stored if name is not None)
    served = {_last(name) for name in question.models}
    found = (
        question.decide.filters.model
        or [name for name in there if name in question.models]
        or [name for name in there if _last(name) in served]
    )
    if not found:
        raise InvalidInput(
            f"The server serves {listed([*question.models] or ['a model without a name'])}, and nothing "
            f"was measured of it; there is {listed(there or ['nothing'])}. Where it goes by another name, "
            "give --model."
        )
    return tuple(found)


def _last(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _meant(found: Decisions, asked: Filters) -> Decision:
    """Return the decision that is meant: of the one subject the dataset named, else the mix."""
    closed = [one for one in found.decisions if one.levels[0].load.kind == "concurrency"]
    if not closed:
        raise InvalidInput(found.why_none or "This was decided for rates or traces, and requests in "
                           "flight do not tell one; measure requests at once as well.")  # fmt: skip
    about = overviews(closed)
    meant = [
        one for one in (closed if asked.dataset else about[0].leads)
        if not asked.dataset or one.traffic.dataset in asked.dataset
    ]  # fmt: skip
    if len(about) > 1:
        names = listed([f"{one.name} ({one.about[0] or 'no study'})" for one in about])
        raise InvalidInput(
            f"There are decisions on {names}; name the one in production with --study, --gpu or "
            "--engine-version."
        )
    if len(meant) != 1:
        raise InvalidInput(
            f"Which traffic was decided on? There is {listed([about[0].place(x) for x in closed])}; name "
            "it with --dataset or --mix, a size with --tensor-parallel-size."
        )
    return meant[0]


def _running(question: LiveQuestion, decided: Decision) -> str | None:
    """Return the arm that runs, None where no measured one drafts like that. Raises InvalidInput where
    several do."""
    watched, stated = question.watched, question.decide.filters.arm
    arms = {one.arm: one for one in decided.arms}
    if not watched.drafts_at_all:
        return BASELINE
    most, short = watched.most, watched.most - (watched.k or 0.0) > _FIXED * watched.most
    if stated and (
        stated[0] not in arms
        or (
            most
            and arms[stated[0]].num_speculative_tokens not in (None, most, round(watched.k or 0))
        )
    ):
        raise InvalidInput(
            f"--arm names the arm that runs, one of: {', '.join(arms)}; the server's K is "
            f"{most or 'unknown'}."
        )
    if stated:
        return stated[0]
    own = arms[decided.arm].method if decided.arm in arms else None
    fits = [one for one in arms.values() if one.num_speculative_tokens == most]
    if short and decided.table is not None and most == max(entry[2] for entry in decided.table):
        k = round(watched.k or 0.0)
        fits = [x for x in arms.values() if (x.num_speculative_tokens, x.method) == (k, own)]
    elif short:
        # An engine that chooses K, or a text that holds fewer.
        fits = [one for one in arms.values() if one.num_speculative_tokens is None] or fits
    fits = [one for one in fits if one.method == own] or fits
    if len({one.method for one in fits}) > 1:
        raise InvalidInput(
            f"It drafts {most} tokens, as {listed([one.arm for one in fits])} do; say with --arm which "
            "of them runs."
        )
    return fits[0].arm if fits else None


# --- What was seen, held against the decision.


@dataclass(frozen=True)
class _Watching:
    """What was watched with all it is held against. ``whole``: what is decided, on all traffic;
    ``decided``: for the load that was decided for; ``arm``: what runs."""

    reader: Reader
    question: LiveQuestion
    whole: DecideQuestion
    known: Ground
    decided: Decision
    arm: str | None

    def answer(self) -> LiveAnswer:
        watched, drafts, told = self.question.watched, self.acceptance, self._gain(self.here)
        standing, why, instead = self._told()
        moved = drafts is not None and drafts.moved != "as measured"
        then = (self.like or self.seen if moved else self.here) if self.measured_at else None
        return LiveAnswer(
            datetime.now(UTC), standing, why, instead, self.here.subject, self.here.traffic.name,
            self.here.objective, self.arm,
            None if then is None else then.takes,
            told, self._gain(self.seen) if moved else told,
            self.decided.operating_load, self.measured_at, drafts, watched,
            then.config if then is not None and standing == NO_LONGER else None,
        )  # fmt: skip

    @cached_property
    def loads(self) -> list[tuple[float, Load]]:
        """The measured loads, by their size."""
        return [(one.load.value or 1.0, one.load) for one in self.decided.levels]

    @cached_property
    def level(self) -> tuple[float, Load]:
        """The measured load that is nearest to the one seen."""
        seen = max(self.question.watched.in_flight, 1.0)
        return min(self.loads, key=lambda one: abs(log(one[0] / seen)))

    @cached_property
    def measured_at(self) -> tuple[Load, ...]:
        """The measured load that is the one seen, or those on both sides of it; none outside them."""
        seen, (at, load) = self.question.watched.in_flight, self.level
        if at / SAME_LOAD <= seen <= at * (BEYOND if load == self.loads[-1][1] else SAME_LOAD):
            return (load,)
        below, above = (
            [x for at, x in self.loads if (at > seen) is side] for side in (False, True)
        )
        return (below[-1], above[0]) if below and above else ()

    def _decide(self, lengths: tuple[float, ...] = ()) -> tuple[Decision, ...]:
        """Return the decisions on all traffic of the subject at the load seen, or the nearest measured."""
        seen, (at, _) = self.question.watched.in_flight, self.level
        load = float(f"{seen:.3g}") if len(self.measured_at) == 2 else at
        running = RunningServer(self.arm or "", self._runs.method if self._runs else "", lengths)
        found = decide_on(self.known, replace(self.whole, load=load), running)
        return tuple(one for one in found.decisions if one.subject == self.decided.subject)

    @cached_property
    def _runs(self) -> ArmAtLoad | None:
        return next((one for one in self.decided.arms if one.arm == self.arm), None)

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
        lengths = tuple(1 + tokens / counted.drafts for tokens in accumulate(counted.by_position))
        if self._runs is None or self._runs.num_speculative_tokens is None or not lengths:
            return None
        return next((x for x in self._decide(lengths) if x.traffic == self.decided.traffic), None)

    def _gain(self, decision: Decision | None) -> float | None:
        there = None if decision is None else self._there(decision, self.measured_at)
        return None if there is None else there.difference.improvement

    def _there(self, decision: Decision, loads: tuple[Load, ...]) -> ArmAtLoad | None:
        """Return what runs at the one of these loads at which it gains least; None where it was measured at
        none."""
        there = [x for x in decision.arms if x.arm == self.arm and x.load in loads]
        return min(there, key=lambda one: one.difference.improvement or 0.0, default=None)

    # --- Acceptance.

    @cached_property
    def _measured(self) -> dict[str, list[Counters]]:
        """Dataset -> what was counted of the arm that runs."""
        arms = (one for decision in self.every for one in decision.arms if one.arm == self.arm)
        return counts_of(self.reader, self.known, {new for one in arms for _, new in one.pairs})

    def _counted(self, decision: Decision) -> list[Counters]:
        mix = decision.traffic.mix or ((decision.traffic.dataset or "", 1.0),)
        parts = [(share, self._measured.get(name, [])) for name, share in mix]
        return parts[0][1] if len(parts) == 1 else scaled(parts)

    def _change(self, decision: Decision) -> LengthChange | None:
        return length_change(self.question.watched.blocks, self._counted(decision))

    @cached_property
    def acceptance(self) -> LiveAcceptance | None:
        """Drafts now against those measured; None where one of them is not known."""
        change, counted = self._change(self.here), self.question.watched.counted
        if change is None:
            return None
        moved = _moved(change, self._there(self.here, self.measured_at or (self.level[1],)))
        like = None if moved == "as measured" or self.like is None else self.like.traffic.name
        return LiveAcceptance(
            counted.accepted_tokens / counted.draft_tokens, counted.drafts, change, moved, like
        )

    @cached_property
    def like(self) -> Decision | None:
        """The decision on the other dataset whose acceptance is that of now; None without one."""
        near = []
        for one in self.every:
            other = one.traffic != self.here.traffic and not one.traffic.mix
            change = self._change(one) if other else None
            if change is not None:
                size = abs(log(change.ratio))
                if size < SAME_LENGTH or change.low < 1 < change.high:
                    near.append((size, one))
        return min(near, key=lambda pair: pair[0])[1] if near else None

    # --- The answer.

    def _told(self) -> _Told:
        watched, drafts = self.question.watched, self.acceptance
        if self.arm == BASELINE and watched.generated > 0:
            return self._by_load(self.here)
        if watched.counted.drafts <= 0:
            made = "drafted" if watched.generated > 0 else "generated"
            return CANNOT_SAY, f"nothing was {made} in {duration(watched.seconds)}", _LONGER
        if self.arm is None:
            k = f"it drafts {watched.k or 0:.3g} tokens, which was not measured"
            return CANNOT_SAY, f"{k}; {_takes(self.here)}", ""
        if not self._counted(self.here):
            return (
                CANNOT_SAY,
                f"acceptance of {self.arm} on {self.here.traffic.name} is unknown",
                "",
            )
        if drafts is None or drafts.change.precise > PRECISE:
            few = (
                f"{watched.counted.drafts:,.0f} drafts in {len(watched.blocks)} of {BLOCKS} parts of "
                f"{duration(watched.seconds)} are too few"
            )
            return CANNOT_SAY, f"{few} to tell the tokens of a step within {PRECISE:.0%}", _LONGER
        if drafts.moved == "as measured":
            return self._by_load(self.here)
        yields = (
            f"a step yields {drafts.change.now:.2f} tokens where {drafts.change.measured:.2f} were "
            f"measured on {self.here.traffic.name}"
        )
        return self._fewer(yields) if drafts.moved == "fewer" else self._more(yields)

    def _fewer(self, yields: str) -> _Told:
        left = "what it gains at this load was not measured"
        if (there := self._there(self.here, self.measured_at)) is not None:
            now = f"about {percent(self._gain(self.seen))}" if self.seen is not None else "less"
            left = (
                f"of the {percent(there.difference.improvement)} measured at {there.load.text}, {now} is "
                "left"
            )
        instead = _MEASURE
        if self.like is not None:
            instead = f"Acceptance is that of {self.like.traffic.name}, where {_takes(self.like)}."
        elif self.seen is not None and self._runs is not None:
            instead = (
                f"With the tokens of now, of K up to {self._runs.num_speculative_tokens}, "
                f"{_takes(self.seen)}. {_MEASURE}"
            )
        return NO_LONGER, f"{yields}: {left}", instead

    def _more(self, yields: str) -> _Told:
        """Where more is accepted what runs gains more; whether a larger K would gain more still is told
        by the traffic that has this acceptance."""
        mine = self._runs
        larger = [
            one.arm for one in self.here.arms if mine is not None and one.load == self.level[1]
            and one.method == mine.method
            and (one.num_speculative_tokens or 0) > (mine.num_speculative_tokens or 0)
        ]  # fmt: skip
        if self.like is None and larger:
            unknown = f"whether {listed(larger)} gains more now was not measured"
            return (
                CANNOT_SAY,
                f"{yields}: it gains more than was decided on, and {unknown}",
                _MEASURE,
            )
        as_on = "" if self.like is None else f", as on {self.like.traffic.name}"
        how = "as measured" if self.like or not self.seen else "with the tokens of now"
        standing, why, instead = self._by_load(self.like or self.seen or self.here, how)
        return standing, f"{yields}{as_on}: {why}", instead

    def _by_load(self, here: Decision, how: str = "as measured") -> _Told:
        """Say whether something is better than what runs at the load seen, by the decision there. ``how`` its
        gain is known."""
        runs = "drafting nothing" if self.arm == BASELINE else str(self.arm)
        where, takes = f"at {self.question.watched.in_flight:.3g} at once", _takes(here)
        beaten = [(load, name) for load, name in here.beaten if name is not None]
        if not self.measured_at:
            span = f"{self.loads[0][1].short} to {self.loads[-1][1].text}"
            return CANNOT_SAY, f"{where} nothing was measured, only at {span}", _MEASURE_LOAD
        if not here.beaten:
            return CANNOT_SAY, f"{runs} was not measured {where}; {takes}", _MEASURE_LOAD
        if beaten:
            other = "drafting nothing" if beaten[0][1] == BASELINE else beaten[0][1]
            under = "" if self.whole.slo is None else f" under {self.whole.slo}"
            broken = self._runs is not None and self._runs.broken
            better = f"{other} is better than {runs}{', whose answers break' if broken else under}"
            if len(beaten) == len(here.beaten):
                return NO_LONGER, f"{where} {better}", f"Then {takes}."
            at = f"at {beaten[0][0].text} {better}"
            return CANNOT_SAY, f"{where} lies between measured loads, and {at}", _MEASURE_LOAD
        if self.arm != BASELINE and not here.operating.drafts:
            return CANNOT_SAY, f"{where} {runs} is not shown to pay; {takes}", ""
        is_what = (
            "what the decision takes"
            if here.takes == self.arm
            else f"not shown to be beaten; {takes}"
        )
        there = self._there(here, self.measured_at)
        gain = (
            None
            if there is None
            else f"{percent(there.difference.improvement)} {how} at {there.load.text}"
        )
        return HOLDS, ", ".join(filter(None, (f"{where} {runs} is {is_what}", gain))), ""


def _takes(decision: Decision) -> str:
    """Say what a decision takes at its load."""
    level = decision.operating
    if not level.drafts:
        return f"the decision drafts nothing at {level.load.text}"
    gain = percent(level.difference.improvement)
    return f"the decision takes {level.arm} at {level.load.text} ({gain})"


def _moved(change: LengthChange, there: ArmAtLoad | None) -> Moved:
    """Say whether a step yields so many more or fewer tokens, for certain, that the gain lies outside the
    interval that was told."""
    low, high = 1 - SAME_LENGTH, 1 + SAME_LENGTH
    if there is not None and None not in (there.difference.low, there.difference.high):
        middle, worst, best = (
            _speed(there.difference, getattr(there.difference, end))
            for end in ("improvement", "low", "high")
        )
        low, high = min(low, worst / middle), max(high, best / middle)
    if change.high < low:
        return "fewer"
    return "more" if change.low > high else "as measured"


def _speed(told: ArmDifference, gain: float | None) -> float:
    """Return how many times as fast as the baseline a gain is."""
    lower = METRICS[told.metric].better == "lower"
    return max(1 / max(1 - (gain or 0), 1e-9) if lower else 1 + (gain or 0), 1e-9)


def counts_of(reader: Reader, known: Ground, cells: Iterable[str]) -> dict[str, list[Counters]]:
    """Return dataset -> what the drafts of cells counted; cells of one prompt set count as one, with the
    mean of their counts."""
    rows = believed(known.acceptance[among(known.acceptance["cell_id"], set(cells))])
    rows = rows.dropna(subset=["drafts", "draft_tokens", "accepted_tokens"])
    places = queries.acceptance_by_position(reader, Filters()).to_pandas()
    places = places.merge(rows[["cell_id", "source"]]).sort_values(["cell_id", "position"])
    rates = records_by(places, ["cell_id"], ["rate"])
    sets: dict[tuple[str, str], list[Counters]] = {}
    for row in records(rows):
        facts = known.by_id.loc[row["cell_id"]]
        asked = facts["prompt_set_hash"]
        key = str(facts["dataset"]), str(facts["concurrency"] if pd.isna(asked) else asked)
        drafts = float(row["drafts"])
        sets.setdefault(key, []).append(Counters(
            drafts, float(row["draft_tokens"]), float(row["accepted_tokens"]),
            tuple(one["rate"] * drafts for one in rates.get((row["cell_id"],), [])),
        ))  # fmt: skip
    found: dict[str, list[Counters]] = {}
    for (dataset, _), alike in sets.items():
        found.setdefault(dataset, []).append(summed(alike, 1 / len(alike)))
    return found
