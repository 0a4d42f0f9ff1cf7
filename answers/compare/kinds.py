"""What speculation gives each kind of prompt that one load mixes, arm by arm, and whether one K fits all of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from msgspec import to_builtins

from analysis.evidence.effects import study_numbers
from analysis.evidence.kinds import (
    LEAST,
    MET,
    PLAIN,
    SPEEDS,
    accepted,
    against_one,
    gains,
    one_for_all,
    speeds,
    token_shares,
)
from analysis.evidence.words import EQUIVALENCE, GAIN, Word
from analysis.frames import listed, plain, records
from answers.compare.answer import compare_on
from answers.compare.values import (
    CAPPED,
    ONE_LAUNCH,
    ComparedSetting,
    CompareQuestion,
    TextRow,
    load_name,
    number,
)
from answers.decide.values import DecisionSubject
from answers.ground import Ground, ground
from answers.wording import UNKNOWN, directed, interval, known, percent
from answers.wording import listed as named
from warehouse import queries
from warehouse.loads import Load
from warehouse.store import Reader

Fit = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class KindGain:
    """What an arm changes in the time between tokens (``itl``) or per token (``tpot``) of the requests of
    a kind: ratios, positive is better; the plain 95 % interval, the one adjusted for all that the study
    compares by kind, None for one launch."""

    improvement: float
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word
    launches: int


@dataclass(frozen=True)
class KindOfArm:
    """One kind of prompt with one arm. ``requests``: completed, in all launches; ``rate``: accepted of
    drafted tokens (0-1); ``length``: tokens that a step yields, with its 95 % interval over prompts.
    ``why_no_length``, ``why_no_gain``: where one is unknown, why."""

    kind: str
    arm: str
    requests: int
    prompts: int
    rate: float | None
    length: float | None
    length_low: float | None
    length_high: float | None
    itl: KindGain | None
    tpot: KindGain | None
    why_no_length: str | None
    why_no_gain: str | None


@dataclass(frozen=True)
class KindShare:
    """The share (0-1) of the output tokens that a kind has; None: no kind was stated of them."""

    kind: str | None
    share: float


@dataclass(frozen=True)
class OneForAll:
    """Whether one arm fits all kinds: ``arm`` is the one with which the tokens of all take least
    time together."""

    answer: Fit
    arm: str | None
    sentence: str


@dataclass(frozen=True)
class KindsAtLoad:
    """All kinds and arms at one load, the kind with most tokens first."""

    load: Load | None
    shares: tuple[KindShare, ...]
    arms: tuple[KindOfArm, ...]
    one: OneForAll


@dataclass(frozen=True)
class KindsOfSetting:
    """The kinds of one dataset on one hardware with one engine, by load. ``gains``, ``rivals``: how many
    differences its study judges together, over loads too: against the reference, and against the best arm."""

    name: str
    subject: DecisionSubject
    dataset: str | None
    badges: tuple[str, ...]
    loads: tuple[KindsAtLoad, ...]
    gains: int
    rivals: int


@dataclass(frozen=True)
class KindComparison:
    """All that the filters show. ``why_none``: where no kind is known, why."""

    settings: tuple[KindsOfSetting, ...]
    reference: str
    why_none: str | None = None

    def of(self, setting: str) -> KindsOfSetting | None:
        """Return the setting of that name; None where nothing is known of its kinds."""
        return next((one for one in self.settings if one.name == setting), None)


UNTOLD = (
    "No request of these results says its kind of prompt: name the dataset's column in the study "
    "(category: FIELD), or take them in with: draftboard ingest RESULTS --replace --categories FILE"
)
_NO_COUNTS = (
    "the server told what it accepted of no request (vLLM 0.32 with GuideLLM 0.8, and AIPerf, do)"
)
#: What every face says beside the numbers.
HOW = (
    "One server serves all kinds at once, so how fast a kind is, is the time between tokens of its own requests (ITL), "
    "and per token (TPOT); none has a throughput of its own."
)


def by_kind(reader: Reader, question: CompareQuestion) -> KindComparison:
    """Compare kind by kind the arms that the filters show, each standing on its whole study."""
    ground_of = ground(reader, question.filters, question.allow, (), question.reference)
    shown = compare_on(ground_of, question)
    if not shown.settings:
        return KindComparison((), question.reference, shown.why_none)
    met = ground_of.found.pairs[MET].astype({"baseline_id": object, "speculative_id": object})
    met = met.drop_duplicates(ignore_index=True)
    requests = queries.kinds(reader, {*met["baseline_id"], *met["speculative_id"]}).to_pandas()
    told = set(requests.loc[requests["category"].notna(), "cell_id"].astype(object))
    met = met[met["speculative_id"].isin(told)]
    if met.empty:
        return KindComparison((), question.reference, UNTOLD)
    kinds = _Kinds(ground_of, met, requests, question.reference)
    settings = tuple(kinds.settings(shown.settings))
    why = None if settings else UNTOLD
    return KindComparison(settings, question.reference, why)


class _Kinds:
    """Everything that is counted and judged of whole studies, by setting and load."""

    def __init__(
        self, known: Ground, met: pd.DataFrame, requests: pd.DataFrame, reference: str
    ) -> None:
        self._known, self._met, self._reference = known, met, reference
        self._study = study_numbers(known.found.keys)
        cells = known.cells
        measured = speeds(requests)
        levels = gains(known.found, met.assign(one=PLAIN), measured, cells)
        at = ["setting", "load"]
        sides = [met[[*at, side]].set_axis([*at, "cell_id"], axis=1) for side in MET[-2:]]
        shares = token_shares(requests, pd.concat(sides))
        self._one = one_for_all(levels, shares.dropna(subset=["category"]))
        rivals = gains(known.found, against_one(met, self._one), measured, cells, SPEEDS[:1])
        self._families = tuple(self._family(rows) for rows in (levels, rivals))
        self._gains = {
            (r["setting"], r["load"], r["arm_id"], r["category"], r["metric"]): r
            for r in records(levels)
        }
        self._rivals = _by_place(rivals)
        self._counts = _by_place(accepted(requests, met))
        self._shares = _by_place(shares)
        self._fewest = _fewest(met, measured)

    def _family(self, rows: pd.DataFrame) -> Counter[int]:
        """Count by study what is judged together: each load, and the mean over loads."""
        study = rows["setting"].map(self._study)
        of_means = ~rows.duplicated(["setting", "category", "one", "arm_id", "metric"])
        return Counter(study.tolist()) + Counter(study[of_means].tolist())

    def settings(self, shown: Sequence[ComparedSetting]) -> Iterator[KindsOfSetting]:
        """Yield the settings that are shown and of which a kind is known."""
        place = dict(zip(self._met["speculative_id"], zip(self._met["setting"], self._met["arm_id"],
                                                          strict=True), strict=True))  # fmt: skip
        for setting in shown:
            names = {
                place[pair.arm_cell]: arm.name
                for arm in setting.arms for pair in arm.pairs if pair.arm_cell in place
            }  # fmt: skip
            loads = [at for at in self._counts if at[0] in {where for where, _ in names}]
            if loads:
                badges = tuple(sorted({badge for arm in setting.arms for badge in arm.badges}))
                told = tuple(self._at_load(at, names) for at in sorted(loads))
                sizes = (family[self._study[loads[0][0]]] for family in self._families)
                yield KindsOfSetting(
                    setting.name, setting.subject, setting.dataset, badges, told, *sizes
                )  # fmt: skip

    def _at_load(self, at: tuple[int, int], names: Mapping[tuple[int, int], str]) -> KindsAtLoad:
        shares = sorted(
            (KindShare(plain(row["category"]), float(row["share"])) for row in self._shares[at]),
            key=lambda one: (one.kind is None, -one.share, one.kind),
        )
        order = {one.kind: place for place, one in enumerate(shares)}
        rows = [row for row in self._counts[at] if (at[0], row["arm_id"]) in names]
        arms = [self._of_arm(at, row, names[at[0], row["arm_id"]]) for row in rows]
        arms.sort(key=lambda one: (order[one.kind], one.arm))
        load = self._known.found.loads[at[1]] if at[1] >= 0 else None
        kinds = [one.kind for one in shares if one.kind is not None]
        return KindsAtLoad(load, tuple(shares), tuple(arms), self._fit(at, load, kinds))

    def _of_arm(self, at: tuple[int, int], row: dict[str, Any], arm: str) -> KindOfArm:
        prompts, key = int(plain(row["prompts"]) or 0), (*at, row["arm_id"], row["category"])
        few = prompts < LEAST
        rate, length, low, high = (
            None if few else plain(row[name])
            for name in ("rate", "length", "length_low", "length_high")
        )
        itl, tpot = (self._gains.get((*key, metric)) for metric in SPEEDS)
        why_length = _NO_COUNTS if not prompts else _too_few(prompts, "prompt", "")
        return KindOfArm(
            row["category"], arm, int(row["requests"]), prompts, rate, length, low, high,
            None if itl is None else _gain(itl), None if tpot is None else _gain(tpot),
            why_length if few else None, self._why_no_gain(key) if itl is None else None,
        )  # fmt: skip

    def _why_no_gain(self, key: tuple[Any, ...]) -> str:
        fewest = self._fewest.get(key, 0)
        return "a launch's requests say no time between tokens" if fewest >= LEAST else _too_few(
            fewest, "request", " in a launch of the arm or of the reference"
        )  # fmt: skip

    def _name(self, setting: int, arm: int, one: int) -> str:
        if arm == PLAIN or (arm == one == PLAIN):
            return self._reference
        return str(self._known.found.keys["arm_label"].loc[(setting, arm)])

    def _fit(self, at: tuple[int, int], load: Load | None, kinds: Sequence[str]) -> OneForAll:
        """Say whether the arm that is best over all kinds is, for each of them, as good as any other."""
        one, rows = self._one.get(at), self._rivals.get(at, [])
        where = load_name(load)
        if one is None or len(kinds) < 2:
            why = (
                f"no kind has {LEAST} requests in every launch" if len(kinds) > 1
                else "all prompts are of one kind"
            )  # fmt: skip
            return OneForAll(
                "unknown", None, f"Whether one K fits all at {where} is unknown: {why}."
            )
        name = self._name(at[0], one, one)
        rows = sorted(rows, key=lambda row: -row["improvement"])
        better = [r for r in rows if r["word"] == GAIN and r["improvement"] > EQUIVALENCE]
        if better:
            # Of each kind the best of its arms, said once.
            best = {row["category"]: row for row in reversed(better)}
            told = [
                f"{kind} waits {percent(row['improvement'], sign=False)} less between tokens with "
                f"{self._name(at[0], row['arm_id'], one)} "
                f"({directed(row['low'], row['high'], better=True)})"
                for kind, row in sorted(best.items(), key=lambda pair: -pair[1]["improvement"])
            ]  # fmt: skip
            sentence = f"One K does not fit all at {where}: {named(told)} than with {name}, the best over all kinds."
            return OneForAll("no", name, sentence)
        open_ = _why_open(rows, kinds, lambda row: self._name(at[0], row["arm_id"], one), name)
        if open_ is not None:
            return OneForAll(
                "unknown", name, f"Whether one K fits all at {where} is unknown: {open_}."
            )
        most = percent(EQUIVALENCE, sign=False)
        return OneForAll(
            "yes", name,
            f"One K fits all at {where}: with {name} no kind of prompt waits more than {most} longer between "
            "tokens than with any other arm.",
        )  # fmt: skip


def _by_place(rows: pd.DataFrame) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in records(rows):
        found.setdefault((int(row["setting"]), int(row["load"])), []).append(row)
    return found


def _fewest(met: pd.DataFrame, measured: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """Return (setting, load, arm, kind) -> requests of that kind in the launch with fewest, of both sides."""
    long = met.melt(MET[:3], MET[3:], value_name="cell_id").drop(columns="variable")
    kinds = pd.DataFrame({"category": measured["category"].unique()})
    rows = long.merge(kinds, how="cross").merge(measured, on=["cell_id", "category"], how="left")
    least = rows.fillna({"requests": 0}).groupby([*MET[:3], "category"])["requests"].min()
    return {
        (setting, load, arm, kind): int(n)
        for setting, load, arm, kind, n in listed(
            least.reset_index(), *MET[:3], "category", "requests"
        )
    }


def _too_few(count: int, what: str, where: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}{where}, and {LEAST} are needed"


def _gain(row: dict[str, Any]) -> KindGain:
    low, high, least, most = (
        plain(row[name]) for name in ("low", "high", "adjusted_low", "adjusted_high")
    )
    return KindGain(row["improvement"], low, high, least, most, row["word"], int(row["launches"]))


def _why_open(
    rows: Sequence[dict[str, Any]], kinds: Sequence[str], name: Any, one: str
) -> str | None:
    """Return why no arm is known to fit all; None where the best over all does. ``rows``: what the others do
    against it, the largest gain first."""
    lacking = [kind for kind in kinds if kind not in {row["category"] for row in rows}]
    if lacking:
        return f"too few requests are of {named(lacking)} ({LEAST} in every launch are needed)"
    if any(plain(row["adjusted_high"]) is None for row in rows):
        return "an arm has one launch, and what one launch says of another is not known"
    if not all(row["independent"] for row in rows):
        return CAPPED.rstrip(".")
    open_ = max(rows, key=lambda row: row["adjusted_high"])
    if open_["adjusted_high"] <= EQUIVALENCE:
        return None
    return (
        f"{open_['category']} may wait up to {percent(open_['adjusted_high'], sign=False)} less with "
        f"{name(open_)} than with {one}, the best over all kinds"
    )


# --- As JSON, and as lines of text.


SCHEMA_VERSION = 1
HEADER: TextRow = (
    "kind of prompt", "tokens", "arm", "acceptance", "length", "length, 95 %", "ITL gain",
    "95 % interval", "adjusted", "word", "TPOT gain", "requests",
)  # fmt: skip


def kinds_json(found: KindComparison) -> dict[str, Any]:
    """Return the comparison as a dict for JSON. Unknown is null."""
    told = to_builtins(found)
    settings = [one.pop("subject") | one for one in told.pop("settings")]
    return {"schema_version": SCHEMA_VERSION, "by": "category", "settings": settings, **told}


def kind_rows(at: KindsAtLoad) -> list[TextRow]:
    """Return the rows of a load under HEADER; what is unknown is said so, its reason below the table."""
    shares = {one.kind: one.share for one in at.shares}
    return [
        (
            one.kind, percent(shares[one.kind], sign=False), one.arm,
            UNKNOWN if one.rate is None else percent(one.rate, sign=False),
            number(one.length, "mean_acceptance_length"),
            "" if one.length_low is None else f"{one.length_low:.2f} to {one.length_high:.2f}",
            *_gain_words(one.itl), UNKNOWN if one.tpot is None else percent(one.tpot.improvement),
            f"{one.requests:,}",
        )
        for one in at.arms
    ]  # fmt: skip


def _gain_words(gain: KindGain | None) -> tuple[str, str, str, str]:
    if gain is None:
        return UNKNOWN, "", "", UNKNOWN
    sure = ONE_LAUNCH if gain.low is None else interval(gain.low, gain.high)
    return (
        percent(gain.improvement),
        sure,
        interval(gain.adjusted_low, gain.adjusted_high),
        gain.word,
    )


def reasons(at: KindsAtLoad) -> Iterator[str]:
    """Yield why something is unknown, each reason once with the kinds that it is true of, and the arms where
    it is not true of all."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in at.arms:
        for what, why in (("acceptance", one.why_no_length), ("gain", one.why_no_gain)):
            if why is not None:
                whose = found.setdefault(f"{what} is unknown: {why}.", {})
                whose.setdefault(one.kind, []).append(one.arm)
    arms = len({one.arm for one in at.arms})
    for why, kinds in found.items():
        told = [k if len(of) == arms else f"{k} with {named(of)}" for k, of in kinds.items()]
        yield f"{named(told, len(told))}: {why}"
    untold = sum(one.share for one in at.shares if one.kind is None)
    if untold:
        yield f"{percent(untold, sign=False)} of the output tokens are of no stated kind."


def how_sure(setting: KindsOfSetting) -> str:
    """Say what the intervals stand for."""
    return (
        f"Adjusted: for the {setting.gains:,} gains by kind that the study judges together; whether one K fits all, "
        f"for its {setting.rivals:,} comparisons with the arm that is best over all kinds. A length's interval is over "
        "the prompts of its kind, a gain's over launches."
    )


def kinds_title(setting: KindsOfSetting, at: KindsAtLoad, reference: str) -> str:
    """Return what a table is about, in one line."""
    about, badges = setting.subject, "".join(f" [{badge}]" for badge in setting.badges)
    return (
        f"Kinds of prompts at {load_name(at.load)} against {reference}: {known(setting.dataset)}, "
        f"{known(about.model)}, TP {known(about.tensor_parallel_size)}, {known(about.gpu)}{badges}"
    )
