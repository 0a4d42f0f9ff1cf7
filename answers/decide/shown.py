"""A judged setting as every face shows it, with what broken answers, unlike engines and doubts do to it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.choice.expected import Candidate
from analysis.choice.gather import DECIDING
from analysis.choice.judged import Judged
from analysis.choice.operating import Choice
from analysis.choice.pick import OFF
from analysis.drafts.acceptance_tables import believed
from analysis.evidence.words import LIKELY_LOSS, OPEN
from analysis.frames import listed, plain, records
from analysis.matching.comparison import Comparison
from analysis.matching.fields import READ, EngineDifference, differences, differing, sentence
from analysis.matching.pairing import shown
from answers.broken import BrokenAnswers
from answers.decide.values import (
    Against,
    ArmAtLoad,
    ArmDifference,
    ExcludedCell,
    KKind,
    MapLevel,
    ServedArm,
    ThroughputRates,
)
from answers.ground import Ground
from answers.wording import percent
from warehouse.loads import Load

# --- How many tokens a second an arm and its baseline make at each load, of a dataset or of a mix.


_OUTPUT, _TOTAL = "output_throughput", "total_throughput"
#: Setting, arm_id, place of the load.
_Key = tuple[int, int, int]
#: The baseline's value, the arm's.
_Both = tuple[float, float]


@dataclass(frozen=True)
class SpeedSource:
    """An arm in a setting, and its share of the output tokens (0-1)."""

    setting: int
    arm_id: int
    share: float


@dataclass(frozen=True)
class Speeds:
    """The mean throughputs over the launches, by metric and by setting, arm and load."""

    loads: dict[Load, int]
    means: dict[str, dict[_Key, _Both]]

    def of(self, sources: Sequence[SpeedSource], load: Load) -> ThroughputRates:
        """Return the tokens per second of an arm and its baseline at a load; over several sources,
        those of the mix.

        A token of the mix takes the mean of the datasets' times, so output rates are averaged as
        times, and total tokens as tokens for each output token.
        """
        place = self.loads[load]
        keys = [(one.setting, one.arm_id, place) for one in sources]
        shares = [one.share for one in sources]
        old, new = (self._side(keys, shares, side) for side in (0, 1))
        return ThroughputRates(*old, *new)

    def _side(
        self, keys: Sequence[_Key], shares: Sequence[float], side: int
    ) -> tuple[float | None, float | None]:
        """Return output and total tokens per second of the baseline (side 0) or the arm (1)."""
        outputs = self._values(_OUTPUT, keys, side)
        totals = self._values(_TOTAL, keys, side)
        if len(keys) == 1:
            return (outputs or (None,))[0], (totals or (None,))[0]
        if outputs is None:
            return None, None
        rate = 1 / sum(share / value for share, value in zip(shares, outputs, strict=True))
        if totals is None:
            return rate, None
        each = zip(shares, totals, outputs, strict=True)
        return rate, rate * sum(share * total / output for share, total, output in each)

    def _values(self, metric: str, keys: Sequence[_Key], side: int) -> list[float] | None:
        """Return a value for each key; None where one is missing or not above zero."""
        known = self.means.get(metric, {})
        values = [known[key][side] for key in keys if key in known]
        whole = len(values) == len(keys) > 0 and all(value > 0 for value in values)
        return values if whole else None


def together(parts: Sequence[tuple[float, ThroughputRates]]) -> ThroughputRates:
    """Return the tokens per second of traffic whose output tokens are made in these shares at
    several loads: times of a token add up. None where one part is not known."""
    return ThroughputRates(*(
        _over([(share, getattr(one, out), getattr(one, name)) for share, one in parts])
        for name, out in (
            ("baseline_output", "baseline_output"), ("baseline_total", "baseline_output"),
            ("output", "output"), ("total", "output"),
        )
    ))  # fmt: skip


def _over(parts: Sequence[tuple[float, float | None, float | None]]) -> float | None:
    """Return a rate over (share of output tokens, output tokens per second, the rate) of each part."""
    if any(not output or told is None for _, output, told in parts):
        return None
    seconds = sum(share / (output or 1.0) for share, output, _ in parts)
    made = sum(share * (told or 0.0) / (output or 1.0) for share, output, told in parts)
    return made / seconds


def speeds(found: Comparison) -> Speeds:
    """Return the throughputs of a comparison."""
    return Speeds(
        {load: place for place, load in enumerate(found.loads)},
        {metric: _means(found.levels, metric) for metric in (_OUTPUT, _TOTAL)},
    )


def _means(levels: pd.DataFrame, metric: str) -> dict[_Key, _Both]:
    rows = levels[(levels["metric"] == metric) & (levels["statistic"] == "mean")]
    columns = ("setting", "arm_id", "load", "baseline", "speculative")
    return {
        (setting, arm, load): (old, new)
        for setting, arm, load, old, new in zip(
            *(rows[name].tolist() for name in columns), strict=True
        )
    }


# ---


#: Setting, arm_id and load -> cell ids of the baseline and of the arm.
Pairs = dict[tuple[int, int, Load], list[tuple[str, str]]]


def k_kind(one: Candidate) -> KKind:
    """Return who says how many tokens an arm drafts."""
    if one.chooser is not None:
        return "engine"
    return "unknown" if one.k is None else "fixed"


@dataclass(frozen=True)
class DecisionCase:
    """A judged setting with the choice made there, as values. ``settings``: those behind it;
    ``sources``: where each candidate's speeds are found."""

    choice: Choice
    settings: tuple[int, ...]
    pairs: Pairs
    speeds: Speeds
    sources: tuple[tuple[SpeedSource, ...], ...]

    @property
    def judged(self) -> Judged:
        """The arms at all loads of one kind."""
        return self.choice.judged

    def label(self, place: int) -> str:
        """Return the name of an arm."""
        return self.judged.field.candidates[place].label

    def difference(self, place: int, load: int) -> ArmDifference:
        """Return the difference of one candidate at one load."""
        return difference(self.judged, place, load)

    def levels(self) -> tuple[MapLevel, ...]:
        """Return the load map."""
        return tuple(self._level(at) for at in range(len(self.judged.loads))
                     if self.judged.there[:, at].any())  # fmt: skip

    def _level(self, at: int) -> MapLevel:
        mine, other = self.choice.server.at[at], self.choice.other[at]
        own = self._of(mine if mine is not None else self.best_at(at), at)
        if mine is None:
            own = replace(own, num_speculative_tokens=OFF, k_kind="fixed")
        if other is None:
            return own
        named = self._of(other, at)
        told = None if mine is None else own.difference
        launches = 0 if mine is None else own.launches
        served = ServedArm(own.num_speculative_tokens, self._name(mine), told, launches, own.k_kind)
        return replace(named, served=served)

    def _name(self, place: int | None) -> str | None:
        return None if place is None else self.label(place)

    def best_at(self, at: int) -> int:
        """Return the arm of the highest expected value at a load; at the load that is spoken about
        the one that is told of."""
        if at == self.choice.figures and not self.choice.spot.beside:
            return self.choice.best
        return self.judged.best_at(at)

    def _of(self, place: int, at: int) -> MapLevel:
        one = self.judged.field.candidates[place]
        return MapLevel(
            self.judged.loads[at], one.k, one.label, self.difference(place, at),
            int(self.judged.field.launches[place, at]) if self.judged.there[place, at] else 0,
            self.speeds.of(self.sources[place], self.judged.loads[at]), k_kind(one),
        )  # fmt: skip

    def operating(self) -> MapLevel:
        """Return the level of the load that is spoken about; where it was not measured, with the
        figures of the worse of its neighbours."""
        choice = self.choice
        if choice.column is not None:
            return self._over()
        if not choice.spot.beside:
            return next(x for x in self.levels() if x.load == self.judged.loads[choice.figures])
        drafts = choice.server.arm is not None
        told = self._of(choice.best, choice.figures)
        return replace(
            told, load=choice.spot.load, stands_for=told.load,
            num_speculative_tokens=told.num_speculative_tokens if drafts else OFF,
            k_kind=told.k_kind if drafts else "fixed",
        )  # fmt: skip

    def _over(self) -> MapLevel:
        """Return the level of traffic over several loads."""
        column, row = self.choice.column, self.choice.row
        assert column is not None
        one, drafts = column.field.candidates[row], self.choice.server.arm is not None
        return MapLevel(
            self.choice.spot.load, one.k if drafts else OFF, one.label, difference(column, row, 0),
            int(column.field.launches[row, 0]), self._rates_over(), k_kind(one) if drafts else "fixed",
        )  # fmt: skip

    def _rates_over(self) -> ThroughputRates:
        parts = []
        for at, share in self.choice.spot.shares:
            place = self.choice.server.at[at]
            known = self.speeds.of(
                self.sources[self.choice.best if place is None else place], self.judged.loads[at]
            )
            if place is None:
                known = replace(known, output=known.baseline_output, total=known.baseline_total)
            parts.append((share, known))
        return together(parts)

    def cells(self) -> Iterator[ArmAtLoad]:
        """Yield every arm at every load."""
        for place, one in enumerate(self.judged.field.candidates):
            for at, load in enumerate(self.judged.loads):
                if self.judged.there[place, at]:
                    yield ArmAtLoad(
                        load, one.label, one.family, one.k, self.difference(place, at),
                        self.choice.server.at[at] == place,
                        int(self.judged.field.launches[place, at]),
                        tuple(self._met(one.arm_id, load)),
                        self.speeds.of(self.sources[place], load), place in self.judged.barred,
                    )  # fmt: skip

    def _met(self, arm_id: int, load: Load) -> Iterator[tuple[str, str]]:
        for setting in self.settings:
            yield from self.pairs.get((setting, arm_id, load), ())

    def drafts_at(self) -> Iterator[tuple[Load, int]]:
        """Yield each load at which the server drafts and was measured, with the arm_id that it is
        there."""
        for at, place in enumerate(self.choice.server.at):
            if place is not None and self.judged.there[place, at]:
                yield self.judged.loads[at], self.judged.field.candidates[place].arm_id


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


# --- What broken answers do to a decision: arms that are no candidates, what speaks against, doubts.


#: Drafts that yield fewer tokens a step than this do nothing.
_NOTHING = 1.1
#: How the names of datasets begin whose prompts a load generator makes.
_RANDOM = ("random", "synthetic")
_UNKNOWN = ArmDifference("output_tokens", "p05", LIKELY_LOSS, None, None, None, None, None)


def broken_answers(known: Ground, setting: int) -> tuple[BrokenAnswers, ...]:
    """Return the arms of a setting whose answers break, at each load; settled ones first."""
    return known.broken.get(setting, ())


def with_barred(known: Ground, setting: int, judged: Judged) -> Judged:
    """Return the judgement in which arms whose answers are settled to break may not be taken."""
    out = {one.arm_id for one in broken_answers(known, setting) if one.settled}
    places = [at for at, one in enumerate(judged.field.candidates) if one.arm_id in out]
    return replace(judged, barred=frozenset(places))


def named_first(known: Ground, settings: Sequence[int], shown: DecisionCase) -> tuple[str, ...]:
    """Return a sentence, without its full stop, for each arm that is no candidate since its answers
    break."""
    arms = {one.arm_id for one in shown.judged.field.candidates}
    every = [one for setting in settings for one in broken_answers(known, setting)]
    out = {one.arm_id: one for one in every[::-1] if one.settled and one.arm_id in arms}
    return tuple(f"{one.told}, so it is no candidate" for one in out.values())


def likely_broken(known: Ground, settings: Sequence[int], shown: DecisionCase) -> Iterator[Against]:
    """Yield what probably breaks of the answers that the server as pasted would give."""
    there = set(shown.drafts_at())
    for one in (one for setting in settings for one in broken_answers(known, setting)):
        if not one.settled and (one.load, one.arm_id) in there:
            yield Against(one.load, one.arm, _UNKNOWN, f"{one.told}: likely")


def answer_doubts(known: Ground, setting: int, arm_id: int) -> Iterator[str]:
    """Yield what makes the answers of an arm unlike those of real traffic: drafts that do nothing,
    made-up prompts, answers forced past their end."""
    keys = records(known.found.keys.loc[[(setting, arm_id)]])[0]
    mine = known.pairs[setting]["arm_id"] == arm_id
    cells = set(known.pairs[setting].loc[mine, "speculative_id"].astype(object))
    said = believed(known.acceptance[known.acceptance["cell_id"].isin(cells)])["mean_length"]
    length = float(said.astype(np.float64).max())
    if length < _NOTHING:
        yield (
            f"The drafts of {keys['arm_label']} do nothing: a step yields {length:.2f} tokens, so what "
            "differs comes from elsewhere."
        )
    if str(keys["dataset"]).lower().startswith(_RANDOM):
        yield (
            f"The prompts ({keys['dataset']}) were made by the load generator: what is accepted there says "
            "nothing of real traffic, so measure with your own."
        )
    if plain(keys["ignore_eos"]):
        yield (
            "Answers were forced past their end (ignore_eos), where texts repeat themselves: drafts are "
            "accepted there that real answers do not have."
        )


# --- Whether two arms ran the same engine, and what was compared by leave: for a decision's paragraph.


#: Fields of a server: where one differs by leave, the arm without its drafts is no baseline.
_OF_A_SERVER = (
    "model", "model_revision", "precision", "engine", "engine_version", "gpu", "gpu_count",
    "tensor_parallel_size", "prefix_caching", "server_args",
)  # fmt: skip
_LEAVE = " (by leave)"


def engine_differences(known: Ground, setting: int, arm_id: int) -> tuple[EngineDifference, ...]:
    """Return in what an arm differs from its baseline: by leave, then what the method brings with
    equal arguments; each field once, as the first pair has it."""
    # Most warehouses say nothing of it, and every decision asks.
    if not known.tells_engines and not any(known.pairs[setting]["allowed"]):
        return ()
    rows = known.pairs[setting].drop_duplicates("speculative_id")
    found: dict[str, EngineDifference] = {}
    names = ("baseline_id", "speculative_id", "allowed")
    for baseline, arm, allowed in listed(rows[rows["arm_id"] == arm_id], *names):
        one, other = known.by_id.loc[baseline], known.by_id.loc[arm]
        engines = (tuple(cell.get(name) for name in READ) for cell in (one, other))
        for each in (*_by_leave(one, other, allowed), *differences(*engines)):
            found.setdefault(each.field, each)
    return tuple(found.values())


def off_is_baseline(known: Ground, setting: int, judged: Judged) -> NDArray[np.bool_]:
    """Return (candidates,): whether an arm's server with its drafts switched off is the baseline's."""
    return np.array([
        not any(x.matters for x in engine_differences(known, setting, one.arm_id))
        for one in judged.field.candidates
    ], dtype=np.bool_)  # fmt: skip


def engines_told(
    known: Ground, settings: Collection[int], arm_id: int, arm: str
) -> tuple[str, ...]:
    """Return what a paragraph says of an arm's engine beside its baseline's, each sentence once."""
    found = [engine_differences(known, setting, arm_id) for setting in settings]
    told = (words(one, arm) for one in found for words in (engine_words, allowed_words))
    return tuple(filter(None, dict.fromkeys(told)))


def engine_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what the engine of an arm, which is called ``arm``, differs with equal arguments; empty
    for nothing."""
    return sentence([one for one in found if one.cause != _LEAVE], arm)


def allowed_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what an arm differs from its baseline by leave, with both values; empty for
    nothing."""
    leave = [one for one in found if one.cause == _LEAVE]
    if not leave:
        return ""
    values = "; ".join(f"{one.baseline} in the baseline, {one.arm} in {arm}" for one in leave)
    differ = "differs" if len(leave) == 1 else "differ"
    return f"Compared by leave although {' and '.join(x.field for x in leave)} {differ}: {values}."


def _by_leave(one: Any, other: Any, allowed: tuple[str, ...]) -> Iterator[EngineDifference]:
    arguments = differing(one.get("server_args"), other.get("server_args"))
    for name in allowed:
        both = {name: (shown(one.get(name)), shown(other.get(name)))}
        kind = name.partition(".")[0]
        if kind == "server_args":
            both = {x: told for x, told in arguments.items() if name in (x, kind)} or both
        for field, (here, there) in both.items():
            yield EngineDifference(field, field, here, there, kind in _OF_A_SERVER, _LEAVE)


# --- What a decision has to be read with: cells left out, arms that were not interleaved.


_SAME = ("study", "model", "gpu", "dataset")


def settings_excluded(known: Ground, keys: dict[str, Any]) -> Iterator[ExcludedCell]:
    """Yield the cells of the same study, model, hardware and dataset that decide nothing."""
    if not known.excluded:
        return
    cells = known.cells[known.cells["cell_id"].isin(known.excluded)]
    mask = np.ones(len(cells), dtype=bool)
    for name in _SAME:
        value = keys.get(name)
        mask &= (cells[name].isna() if value is None else cells[name] == value).to_numpy()
    for cell_id in cells.loc[mask, "cell_id"]:
        yield known.excluded[str(cell_id)]


def not_interleaved(known: Ground, setting: int) -> Iterator[str]:
    """Yield a sentence where the launches of an arm and its baseline followed one another in time.

    What drifts meanwhile (temperature, neighbours) then looks like a difference between the arms.
    The drift that could hide is estimated from the arms' own launches: slope per hour times the
    hours between the middles of both arms.
    """
    apart = known.hours_apart.get(setting)
    if apart is None:
        return
    slope = _slope(_deciding(known.pairs[setting]), known.hours)
    hidden = (
        ""
        if slope is None
        else f", and a drift like theirs of {percent(slope)} an hour could hide or feign "
        f"{percent(slope * apart, sign=False)}"
    )
    yield (
        "The arms were not interleaved: all launches of one came before those of the other, "
        f"{_apart(apart)}{hidden}."
    )


def _apart(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours apart"
    minutes = round(hours * 60)
    return "about a minute apart" if minutes <= 1 else f"{minutes} minutes apart"


def _deciding(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs in the first of the deciding metrics that they have."""
    mine = pairs[(pairs["baseline"] > 0) & (pairs["speculative"] > 0)]
    there = set(zip(mine["metric"].astype(str), mine["statistic"].astype(str), strict=True))
    metric, statistic = next((line for line in DECIDING if line in there), ("", ""))
    chosen: pd.DataFrame = mine[(mine["metric"] == metric) & (mine["statistic"] == statistic)]
    return chosen


def _slope(rows: pd.DataFrame, hours: pd.Series) -> float | None:
    """Return by how much the logarithm of a cell's throughput changes in an hour, within arm and
    load."""
    parts = []
    for arm, value in (("baseline_id", "baseline"), ("speculative_id", "speculative")):
        own = rows[["arm_id", "load", arm, value]].astype({arm: object})
        own = own.rename(columns={arm: "cell_id", value: "value"})
        parts.append(own.assign(arm=arm).drop_duplicates("cell_id"))
    every = pd.concat(parts, ignore_index=True)
    every = every[every["value"] > 0]  # Of nothing served there is no logarithm.
    every = every.assign(
        at=hours.reindex(every["cell_id"]).to_numpy(dtype=np.float64),
        log=np.log(every["value"].to_numpy(dtype=np.float64)),
    ).dropna(subset=["at", "log"])
    group = every.groupby(["arm", "arm_id", "load"])
    at = every["at"] - group["at"].transform("mean")
    log = every["log"] - group["log"].transform("mean")
    spread = float((at**2).sum())
    return float((at * log).sum() / spread) if spread > 0 else None


def less_room(known: Ground, setting: int, shown: DecisionCase) -> Iterator[str]:
    """Yield a sentence for each arm taken whose draft leaves less room in the KV cache."""
    names = {one.arm_id: one.label for one in shown.judged.field.candidates}
    rows = known.pairs[setting].drop_duplicates("speculative_id")
    for arm in dict.fromkeys(arm for _, arm in shown.drafts_at()):
        flags = (flag for told in rows.loc[rows["arm_id"] == arm, "flags"] for flag in told)
        said = next((flag.sentence for flag in flags if flag.name == "less_cache"), None)
        if said is not None:
            yield f"{names[arm]}: {said}"
