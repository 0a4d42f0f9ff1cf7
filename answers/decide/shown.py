"""A judged setting with the choice made there, as values: load map, arms, speeds, and what another launch would tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analysis.choice.expected import Candidate
from analysis.choice.judged import Judged
from analysis.choice.operating import Choice
from analysis.choice.pick import OFF, at_stake, launches_needed, launches_until
from analysis.evidence.words import EQUIVALENCE, LIKELY_LOSS, LOSS, OPEN, SETTLED
from analysis.frames import listed
from analysis.matching.comparison import Comparison
from answers.decide.values import (
    ArmAtLoad,
    ArmDifference,
    KKind,
    MapLevel,
    ServedArm,
    Settle,
    ThroughputRates,
)
from warehouse.loads import Load

# --- How many tokens a second an arm and its baseline make at each load, of a dataset or of a mix.


#: Setting, arm_id, place of the load.
_SpeedKey = tuple[int, int, int]


@dataclass(frozen=True)
class SpeedSource:
    """An arm in a setting, and its share of the output tokens (0-1)."""

    setting: int
    arm_id: int
    share: float


@dataclass(frozen=True)
class Speeds:
    """The mean throughputs over the launches, of the baseline and of the arm, by metric and by setting,
    arm and load."""

    loads: dict[Load, int]
    means: dict[str, dict[_SpeedKey, tuple[float, float]]]

    def of(self, sources: Sequence[SpeedSource], load: Load) -> ThroughputRates:
        """Return the tokens per second of an arm and its baseline at a load; over several sources,
        those of the mix.

        A token of the mix takes the mean of the datasets' times, so output rates are averaged as
        times, and total tokens as tokens for each output token.
        """
        keys = [(one.setting, one.arm_id, self.loads[load]) for one in sources]
        shares = [one.share for one in sources]
        rates: list[float | None] = []
        for side in (0, 1):
            outputs = self._values("output_throughput", keys, side)
            totals = self._values("total_throughput", keys, side)
            if len(keys) == 1:
                rates += [outputs[0] if outputs else None, totals[0] if totals else None]
            elif outputs is None:
                rates += [None, None]
            else:
                rate = 1 / sum(share / value for share, value in zip(shares, outputs, strict=True))
                each = zip(shares, totals or (), outputs, strict=totals is not None)
                total = rate * sum(share * total / output for share, total, output in each)
                rates += [rate, None if totals is None else total]
        return ThroughputRates(*rates)

    def _values(self, metric: str, keys: Sequence[_SpeedKey], side: int) -> list[float] | None:
        """Return a value for each key; None where one is missing or not above zero."""
        known = self.means.get(metric, {})
        values = [known[key][side] for key in keys if key in known]
        whole = len(values) == len(keys) > 0 and all(value > 0 for value in values)
        return values if whole else None


def speeds(comparison: Comparison) -> Speeds:
    """Return the throughputs of a comparison."""
    rows = comparison.levels[comparison.levels["statistic"] == "mean"]
    means = {}
    for metric in ("output_throughput", "total_throughput"):
        columns = ("setting", "arm_id", "load", "baseline", "speculative")
        named = listed(rows[rows["metric"] == metric], *columns)
        means[metric] = {(setting, arm, at): (old, new) for setting, arm, at, old, new in named}
    return Speeds({load: place for place, load in enumerate(comparison.loads)}, means)


def together(parts: Sequence[tuple[float, ThroughputRates]]) -> ThroughputRates:
    """Return the tokens per second of traffic whose output tokens are made in these shares at
    several loads: times of a token add up. None where one part is not known."""
    rates: list[float | None] = []
    for name, out in (
        ("baseline_output", "baseline_output"), ("baseline_total", "baseline_output"),
        ("output", "output"), ("total", "output"),
    ):  # fmt: skip
        told = [(share, getattr(one, out), getattr(one, name)) for share, one in parts]
        if any(not output or rate is None for _, output, rate in told):
            rates.append(None)
        else:
            seconds = sum(share / output for share, output, _ in told)
            rates.append(sum(share * rate / output for share, output, rate in told) / seconds)
    return ThroughputRates(*rates)


# --- A judged setting with the choice made there.


#: Setting, arm_id and load -> cell ids of the baseline and of the arm.
CellPairs = dict[tuple[int, int, Load], list[tuple[str, str]]]
#: A rival that may be better by less than this (ratio) is no open question.
WORTH_SAYING = EQUIVALENCE


def k_kind(candidate: Candidate) -> KKind:
    """Return who says how many tokens an arm drafts."""
    if candidate.chooser is not None:
        return "engine"
    return "unknown" if candidate.k is None else "fixed"


@dataclass(frozen=True)
class DecisionCase:
    """A judged setting with the choice made there, as values. ``settings``: those behind it;
    ``sources``: where each candidate's speeds are found."""

    choice: Choice
    settings: tuple[int, ...]
    pairs: CellPairs
    speeds: Speeds
    sources: tuple[tuple[SpeedSource, ...], ...]

    @property
    def judged(self) -> Judged:
        """The arms at all loads of one kind."""
        return self.choice.judged

    def label(self, place: int) -> str:
        """Return the name of an arm."""
        return self.judged.field.candidates[place].label

    @cached_property
    def levels(self) -> tuple[MapLevel, ...]:
        """The load map."""
        found, choice = [], self.choice
        for at in np.flatnonzero(self.judged.there.any(axis=0)).tolist():
            mine, other = choice.server.at[at], choice.other[at]
            # Where nothing is drafted the best arm is told of: at the load that is spoken about, that one.
            told = at == choice.figures and not choice.spot.beside
            best = choice.best if told else self.judged.best_at(at)
            level = self._level(best if mine is None else mine, at)
            if mine is None:
                level = replace(level, num_speculative_tokens=OFF, k_kind="fixed")
            if other is not None:
                k, kind = level.num_speculative_tokens, level.k_kind
                served = ServedArm(k, level.arm, level.difference, level.launches, kind)
                nothing = ServedArm(k, None, None, 0, kind)
                level = replace(
                    self._level(other, at), served=nothing if mine is None else served
                )  # fmt: skip
            found.append(level)
        return tuple(found)

    def _level(self, place: int, at: int) -> MapLevel:
        one, load = self.judged.field.candidates[place], self.judged.loads[at]
        launches = self.judged.field.launches[place, at] if self.judged.there[place, at] else 0
        return MapLevel(
            load, one.k, one.label, difference(self.judged, place, at), int(launches),
            self.speeds.of(self.sources[place], load), k_kind(one),
        )  # fmt: skip

    @cached_property
    def operating(self) -> MapLevel:
        """The level of the load that is spoken about; where it was not measured, with the figures of
        the worse of its neighbours."""
        choice, column, row = self.choice, self.choice.column, self.choice.row
        if column is not None:
            one, launches = column.field.candidates[row], int(column.field.launches[row, 0])
            parts = []
            for at, share in self.choice.spot.shares:
                place = self.choice.server.at[at]
                arm = self.choice.best if place is None else place
                rates = self.speeds.of(self.sources[arm], self.judged.loads[at])
                if place is None:
                    rates = replace(rates, output=rates.baseline_output, total=rates.baseline_total)
                parts.append((share, rates))
            level = MapLevel(
                choice.spot.load, one.k, one.label, difference(column, row, 0), launches,
                together(parts), k_kind(one),
            )  # fmt: skip
        elif choice.spot.beside:
            there = self._level(choice.best, choice.figures)
            level = replace(there, load=choice.spot.load, stands_for=there.load)
        else:
            return next(x for x in self.levels if x.load == self.judged.loads[choice.figures])
        if choice.server.arm is None:
            level = replace(level, num_speculative_tokens=OFF, k_kind="fixed")
        return level

    def arms(self) -> Iterator[ArmAtLoad]:
        """Yield every arm at every load."""
        for place, one in enumerate(self.judged.field.candidates):
            for at, load in enumerate(self.judged.loads):
                if self.judged.there[place, at]:
                    keys = ((setting, one.arm_id, load) for setting in self.settings)
                    yield ArmAtLoad(
                        load, one.label, one.family, one.k, difference(self.judged, place, at),
                        self.choice.server.at[at] == place,
                        int(self.judged.field.launches[place, at]),
                        tuple(pair for key in keys for pair in self.pairs.get(key, ())),
                        self.speeds.of(self.sources[place], load), place in self.judged.barred,
                    )  # fmt: skip

    def drafts_at(self) -> Iterator[tuple[Load, int]]:
        """Yield each load at which the server drafts and was measured, with the arm_id that it is
        there."""
        for at, place in enumerate(self.choice.server.at):
            if place is not None and self.judged.there[place, at]:
                yield self.judged.loads[at], self.judged.field.candidates[place].arm_id

    @cached_property
    def spoken_about(self) -> tuple[Judged, int, int | None]:
        """The arms at the load that is spoken about: the judgement, the place of the load, and the
        place of what is taken there (None: nothing)."""
        choice = self.choice
        drafts = choice.server.arm is not None
        if choice.column is not None:
            return choice.column, 0, choice.row if drafts else None
        return choice.judged, choice.figures, choice.best if drafts else None

    @cached_property
    def stake(self) -> tuple[tuple[int, ...], float | None]:
        """The places of the arms that may beat what is taken at the load that is spoken about by more
        than is worth saying, the best first, and by how much (ratio) one may, at most; None where
        nothing repeats."""
        judged, at, mine = self.spoken_about
        if not judged.field.tails.known[:, at].any():
            return (), None
        size = np.expm1(at_stake(judged.field, judged.gains, at, mine))
        # Of an arm that is worse than the baseline nobody asks whether it is the best.
        lost = np.isin(judged.words[:, at].astype(str), [LOSS, LIKELY_LOSS])
        size = np.where(judged.grounds.open_to[:, at] & np.isfinite(size) & ~lost, size, -1.0)
        rivals = tuple(int(place) for place in np.argsort(-size) if size[place] > WORTH_SAYING)
        return rivals, max(float(size.max(initial=0.0)), 0.0)

    def to_settle(self) -> Iterator[Settle]:
        """Yield how many more launches would settle whether the arm pays at the load that is spoken
        about, which of the arms is better there, and whether it pays at the other loads at which the
        server drafts."""
        judged, at, mine = self.spoken_about
        if not judged.independent:
            return
        load, whole = self.choice.spot.load, self.judged
        own = self.choice.best if self.choice.column is None else self.choice.row
        yield from _until_it_pays(judged, at, own, load)
        rivals = self.stake[0]
        if mine is not None and rivals:
            rival, arms = rivals[0], judged.field.candidates
            launches = launches_until(
                float(judged.gains[rival, at] - judged.gains[mine, at]),
                float(judged.field.variance[rival, at]),
                int(judged.field.launches[rival, at]), WORTH_SAYING,
            )  # fmt: skip
            if launches is not None:
                yield Settle(load, arms[mine].label, launches, arms[rival].label)
        here = {place for place, _ in self.choice.spot.shares}
        for other, arm in enumerate(self.choice.server.at):
            if arm is not None and other not in here and whole.there[arm, other]:
                yield from _until_it_pays(whole, other, arm, whole.loads[other])


def _until_it_pays(judged: Judged, at: int, place: int, load: Load) -> Iterator[Settle]:
    if judged.words[place, at] not in SETTLED:
        launches = launches_needed(
            float(judged.gains[place, at]), float(judged.field.variance[place, at]),
            int(judged.field.launches[place, at]), float(judged.rate[place, at]),
        )  # fmt: skip
        if launches is not None:
            yield Settle(load, judged.field.candidates[place].label, launches)


def difference(judged: Judged, place: int, load: int) -> ArmDifference:
    """Return the difference of one candidate at one load; without figures where it was not
    measured."""
    metric, statistic = judged.lines[load]
    if not judged.there[place, load]:
        return ArmDifference(metric, statistic, OPEN, None, None, None, None, None)
    return ArmDifference(
        metric, statistic, judged.words[place, load],
        *(number(x[place, load]) for x in (judged.expected, *judged.plain, *judged.adjusted)),
    )  # fmt: skip


def number(value: float) -> float | None:
    """Return the value; None where it is not known."""
    return float(value) if np.isfinite(value) else None
