"""What speculation gives each kind of prompt that one load mixes, or each turn of its sessions, arm by arm, and whether
one K fits all of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd
from msgspec import to_builtins

from analysis.evidence.broken_answers import IDS
from analysis.evidence.effects import ENDS
from analysis.evidence.kinds import (
    LEAST,
    MET,
    PLAIN,
    SPEEDS,
    accepted,
    against_one,
    first_tokens,
    gains,
    one_for_all,
    speeds,
    token_shares,
)
from analysis.evidence.words import EQUIVALENCE, GAIN, LOSS
from analysis.frames import listed as rows_listed
from analysis.frames import plain, records, records_by
from analysis.matching.arms import BASELINE
from analysis.matching.names import arm_names
from answers.compare.answer import compare_on
from answers.compare.values import (
    CAPPED,
    ONE_LAUNCH,
    SCHEMA_VERSION,
    ComparedSetting,
    CompareQuestion,
    JudgedChange,
    TextRow,
    load_name,
    number,
    where_measured,
)
from answers.decide.values import DecisionSubject
from answers.ground import Ground, ground
from answers.wording import UNKNOWN, directed, interval, listed, percent
from warehouse import queries
from warehouse.loads import Load
from warehouse.store import Reader

Fit = Literal["yes", "no", "unknown"]
By = Literal["category", "turn"]


@dataclass(frozen=True, kw_only=True)
class KindGain(JudgedChange):
    """What an arm changes in the time between tokens (``itl``), per token (``tpot``) or to the first one
    (``ttft``) of the requests of a kind; adjusted for all that the study compares by kind."""

    launches: int


@dataclass(frozen=True)
class KindOfArm:
    """One kind of prompt, or turn, with one arm. ``requests``: completed, in all launches; ``rate``: accepted
    of drafted tokens (0-1); ``length``: tokens that a step yields, with its 95 % interval over prompts;
    ``ttft_ms``, ``reference_ttft_ms``: time to the first token, mean over launches. ``tpot`` is judged by
    category alone, ``ttft`` by turn. ``why_no_length``, ``why_no_gain``: where one is unknown, why."""

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
    ttft: KindGain | None
    ttft_ms: float | None
    reference_ttft_ms: float | None
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
    """All kinds and arms at one load, the kind with most tokens first, or the first turn. ``prefix_hits``: arm
    -> share (0-1) of its prompt tokens that the prefix cache held, by the server's counters."""

    load: Load | None
    shares: tuple[KindShare, ...]
    arms: tuple[KindOfArm, ...]
    one: OneForAll
    prefix_hits: dict[str, float]


@dataclass(frozen=True)
class KindsOfSetting:
    """The kinds of one dataset on one hardware with one engine, by load."""

    name: str
    subject: DecisionSubject
    dataset: str | None
    badges: tuple[str, ...]
    loads: tuple[KindsAtLoad, ...]


@dataclass(frozen=True)
class KindComparison:
    """All that the filters show. ``why_none``: where no kind is known, why."""

    settings: tuple[KindsOfSetting, ...]
    reference: str
    by: By
    why_none: str | None = None


UNTOLD: dict[By, str] = {
    "category": "No request of these results says its kind of prompt: name the dataset's column in the study "
    "(category: FIELD), or take them in with: draftboard ingest RESULTS --replace --categories FILE",
    "turn": "No request of these results says its turn: give a dataset of the study sessions: {turns: 3}, or take "
    "in what GuideLLM 0.8 measured of them once more with: draftboard ingest RESULTS --replace",
}
#: What is called a kind, and what all of them are.
_NOUN: dict[By, str] = {"category": "kind of prompt", "turn": "turn"}
TITLES: dict[By, str] = {"category": "Kinds of prompts", "turn": "Turns of sessions"}
_JUDGED: dict[By, tuple[str, ...]] = {"category": SPEEDS, "turn": ("ttft", "itl")}
_NO_COUNTS = (
    "the server told what it accepted of no request (vLLM 0.32 with GuideLLM 0.8, and AIPerf, do)"
)
_FEW_PROMPTS = f"fewer than {LEAST} prompts tell it"
_FEW_REQUESTS = f"fewer than {LEAST} requests in a launch, of the arm or of the reference, tell it"
#: An arm that may wait so much less (ratio) was hardly measured: the figure says nothing.
_VAGUE = 0.5
#: What every face says beside the numbers.
HOW: dict[By, str] = {
    "category": "One server serves all kinds at once, so how fast a kind is, is the time between tokens of its own "
    "requests (ITL), and per token (TPOT); none has a throughput of its own. Adjusted: for all gains by kind that the "
    "study judges together; whether one K fits all, for all comparisons with the arm that is best over all kinds. A "
    "length's interval is over the prompts of its kind, a gain's over launches.",
    "turn": "A later turn is sent with the server's own answers before it: of it, what the user says is the same in all "
    "arms. One server serves all turns at once, so how fast a turn is, is the time to the first token of its own "
    "requests (TTFT) and between tokens (ITL); none has a throughput of its own. Adjusted: for all gains by turn that "
    "the study judges together. A gain's interval is over launches.",
}


def by_kind(reader: Reader, question: CompareQuestion, by: By = "category") -> KindComparison:
    """Compare kind by kind of prompt, or turn by turn, the arms that the filters show, each standing on its
    whole study."""
    ground_of = ground(reader, question.filters, question.allow, (), question.reference)
    shown = compare_on(ground_of, question)
    if not shown.settings:
        return KindComparison((), question.reference, by, shown.why_none)
    met = (
        ground_of.found.pairs[MET]
        .astype(dict.fromkeys(IDS, object))
        .drop_duplicates(ignore_index=True)
    )
    requests = queries.kinds(reader, {*met["baseline_id"], *met["speculative_id"]}, by).to_pandas()
    told = requests.loc[requests["category"].notna(), "cell_id"].astype(object)
    met = met[met["speculative_id"].isin(set(told))]
    if met.empty:
        return KindComparison((), question.reference, by, UNTOLD[by])
    # Whether answers break is held against the baseline's, whatever the reference.
    plain_one = (
        ground_of if question.reference == BASELINE
        else ground(reader, question.filters, question.allow)
    )  # fmt: skip
    breaking = {
        cell for setting, arms in plain_one.broken.items() for arm in arms if arm.settled
        for cell in plain_one.pairs[setting].query(f"arm_id == {arm.arm_id}")["speculative_id"]
    }  # fmt: skip
    kinds = _Kinds(ground_of, met, requests, question.reference, by, breaking)
    settings = tuple(kinds.settings(shown.settings))
    return KindComparison(settings, question.reference, by, None if settings else UNTOLD[by])


class _Kinds:
    """Everything that is counted and judged of whole studies, by setting and load."""

    def __init__(
        self, known: Ground, met: pd.DataFrame, requests: pd.DataFrame, reference: str, by: By,
        breaking: set[str],
    ) -> None:  # fmt: skip
        self._known, self._met, self._reference, self._by = known, met, reference, by
        measured = speeds(requests)
        levels = gains(known.found, met.assign(one=PLAIN), measured, known.cells, _JUDGED[by])
        at = ["setting", "load"]
        sides = [met[[*at, side]].set_axis([*at, "cell_id"], axis=1) for side in MET[-2:]]
        shares = token_shares(requests, pd.concat(sides))
        self._breaks = {
            (setting, arm)
            for setting, arm, cell in rows_listed(met, "setting", "arm_id", "speculative_id")
            if cell in breaking
        }
        self._one = one_for_all(self._sound(levels), shares.dropna(subset=["category"]))
        others = against_one(self._sound(met), self._one)
        rivals = gains(known.found, others, measured, known.cells, SPEEDS[:1])
        self._gains = {
            (r["setting"], r["load"], r["arm_id"], r["category"], r["metric"]): r
            for r in records(levels)
        }
        self._rivals, self._counts, self._shares = (
            records_by(rows, at, list(map(str, rows)))
            for rows in (rivals, accepted(requests, met), shares)
        )
        self._first = [first_tokens(met, measured, side) for side in IDS]
        pairs = known.found.pairs
        hits = pairs[(pairs["metric"] == "prefix_cache_hit_rate") & (pairs["load"] >= 0)]
        held = hits.groupby([*at, "arm_id"])[["baseline", "speculative"]].mean()
        self._hits = {key: row for key, *row in held.itertuples(name=None)}

    def _sound(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of arms whose answers are not settled to break: the others are no candidates."""
        places = rows_listed(rows, "setting", "arm_id")
        return rows.loc[[place not in self._breaks for place in places]]

    def settings(self, shown: Sequence[ComparedSetting]) -> Iterator[KindsOfSetting]:
        """Yield the settings that are shown and of which a kind is known."""
        at_cell = dict(zip(self._met["speculative_id"], zip(self._met["setting"], self._met["arm_id"],
                                                          strict=True), strict=True))  # fmt: skip
        for setting in shown:
            names = {
                at_cell[pair.arm_cell]: arm.name
                for arm in setting.arms for pair in arm.pairs if pair.arm_cell in at_cell
            }  # fmt: skip
            loads = [
                at for at, rows in self._counts.items()
                if any((at[0], row["arm_id"]) in names for row in rows)
            ]  # fmt: skip
            # A sentence calls an arm what the rows do.
            self._names.update({arm: name for (_, arm), name in names.items()})
            if loads:
                badges = tuple(sorted({badge for arm in setting.arms for badge in arm.badges}))
                told = tuple(self._at_load(at, names) for at in sorted(loads))
                yield KindsOfSetting(setting.name, setting.subject, setting.dataset, badges, told)

    def _at_load(self, at: tuple[int, int], names: Mapping[tuple[int, int], str]) -> KindsAtLoad:
        shares = sorted(
            (KindShare(plain(row["category"]), float(row["share"])) for row in self._shares[at]),
            key=lambda one: (
                one.kind is None, -one.share if self._by == "category" else len(one.kind or ""), one.kind
            ),
        )  # fmt: skip
        order = {one.kind: rank for rank, one in enumerate(shares)}
        arms = [
            self._of_arm(at, row, names[at[0], row["arm_id"]])
            for row in self._counts[at] if (at[0], row["arm_id"]) in names
        ]  # fmt: skip
        arms.sort(key=lambda one: (order[one.kind], one.arm))
        load = self._known.found.loads[at[1]] if at[1] >= 0 else None
        hits = {
            side: share
            for (setting, arm), name in names.items() if setting == at[0]
            for side, share in zip((self._reference, name), self._hits.get((*at, arm), ()), strict=False)
        }  # fmt: skip
        return KindsAtLoad(load, tuple(shares), tuple(arms), self._fit(at, load, shares), hits)

    def _of_arm(self, at: tuple[int, int], row: dict[str, Any], arm: str) -> KindOfArm:
        prompts, key = int(plain(row["prompts"]) or 0), (*at, row["arm_id"], row["category"])
        few = prompts < LEAST
        rate, length, low, high = (
            None if few else plain(row[name])
            for name in ("rate", "length", "length_low", "length_high")
        )
        itl, tpot, ttft = (_gain(self._gains.get((*key, metric))) for metric in (*SPEEDS, "ttft"))
        reference, own = (plain(one.get(key)) for one in self._first)
        return KindOfArm(
            row["category"], arm, int(row["requests"]), prompts, rate, length, low, high,
            itl, tpot, ttft, own, reference,
            (_FEW_PROMPTS if prompts else "it drafts nothing" if arm == BASELINE else _NO_COUNTS) if few else None,
            _FEW_REQUESTS if itl is None else None,
        )  # fmt: skip

    @cached_property
    def _names(self) -> dict[Any, str]:
        keys = self._known.found.keys
        first = keys[~keys.index.get_level_values("arm_id").duplicated()].droplevel("setting")
        names: dict[Any, str] = arm_names(first).to_dict()
        return names | {PLAIN: self._reference}

    def _beside(
        self, at: tuple[int, int], one: int | None, kinds: Sequence[str], broken: Iterable[int]
    ) -> Iterator[str]:
        """Yield which arms are no candidates, and which turns wait longer for their first token with the best arm."""
        out = sorted(self._names[arm] for arm in broken)
        if out:
            yield f"No candidate, since its answers break: {listed(out)}."
        first = {kind: self._gains.get((*at, one, kind, "ttft"), {}).get("word") for kind in kinds}
        later = [kind for kind, word in first.items() if word == LOSS]
        if later and one is not None:
            yield f"The first token of {listed(later)} comes later with {self._names[one]} than with {self._reference}."

    def _fit(
        self, at: tuple[int, int], load: Load | None, shares: Sequence[KindShare]
    ) -> OneForAll:
        """Say whether the arm that is best over all kinds is, for each of them, as good as any other."""
        kinds = [one.kind for one in shares if one.kind is not None]
        rows = sorted(
            (row | {"name": self._names[row["arm_id"]]} for row in self._rivals.get(at, [])),
            key=lambda row: -row["improvement"],
        )
        where, one = load_name(load), self._one.get(at)
        noun, every = ("", "kinds") if self._by == "category" else ("turns ", "turns")
        name = None if one is None else self._names[one]
        arms = {row["arm_id"] for row in self._counts[at]}
        sound = {arm for arm in arms if (at[0], arm) not in self._breaks}
        end = " ".join([".", *self._beside(at, one, kinds, arms - sound)])
        gained = [r for r in rows if r["word"] == GAIN and r["improvement"] > EQUIVALENCE]
        why: str | None = None if sound else "the answers of every arm break"
        if gained:
            best: dict[str, dict[str, Any]] = {}
            for row in gained:
                best.setdefault(row["category"], row)
            told = [
                f"{kind} waits {percent(row['improvement'], sign=False)} less between tokens with {row['name']} "
                f"({directed(row['low'], row['high'], better=True)})"
                for kind, row in best.items()
            ]  # fmt: skip
            than = f"{listed(told)} than with {name}, the best over all {every}"
            lost = {
                row["arm_id"]
                for row in rows
                if row["word"] == LOSS and row["improvement"] < -EQUIVALENCE
            }
            others = sorted(self._names[arm] for arm in {*sound, PLAIN} - {one} - lost)
            if not others:
                return OneForAll(
                    "no", name, f"One K does not fit all {noun}at {where}: {than}{end}"
                )
            why = f"{than}, but {listed(others)} may fit all"
        held = {(row["arm_id"], row["category"]) for row in rows}
        lacking = [k for k in kinds if {(arm, k) for arm in {*sound, PLAIN} - {one}} - held]
        if why is None:
            all_of = "all requests" if len(kinds) == len(shares) else "all requests that say theirs"
            few = [
                k for k in lacking
                if any((*at, arm, k, SPEEDS[0]) not in self._gains for arm in sound)
            ]  # fmt: skip
            why = _why_open(rows, all_of, kinds, lacking, few, f"{name}, the best over all {every}")
        if why is not None:
            return OneForAll(
                "unknown", name, f"Whether one K fits all {noun}at {where} is unknown: {why}{end}"
            )
        most = percent(EQUIVALENCE, sign=False)
        return OneForAll(
            "yes", name,
            f"One K fits all {noun}at {where}: with {name} no {_NOUN[self._by]} waits more than {most} longer between "
            f"tokens than with any other arm{end}",
        )  # fmt: skip


def _gain(row: dict[str, Any] | None) -> KindGain | None:
    if row is None:
        return None
    return KindGain(
        improvement=row["improvement"], **{end: plain(row[end]) for end in ENDS}, word=row["word"],
        launches=int(row["launches"]),
    )  # fmt: skip


def _why_open(
    rows: Sequence[dict[str, Any]], all_of: str, kinds: list[str], lacking: list[str], few: list[str], best: str
) -> str | None:  # fmt: skip
    """Return why no arm is known to fit all; None where the best over all does. ``rows``: what the others do
    against it; ``all_of``: whose the ``kinds`` are; ``lacking``: those of which one of the others was not compared,
    ``few``: for want of requests."""
    if len(kinds) < 2:
        return f"{all_of} are of {listed(kinds)}"
    if few:
        return f"of {listed(few)} {_FEW_REQUESTS}"
    if lacking:
        return "not all arms were measured beside the same launches of the reference"
    if any(plain(row["adjusted_high"]) is None for row in rows):
        return "an arm has one launch, and what one launch says of another is not known"
    if not all(row["independent"] for row in rows):
        return CAPPED.rstrip(".")
    most = max(rows, key=lambda row: row["adjusted_high"])
    size = most["adjusted_high"]
    if size <= EQUIVALENCE:
        return None
    than = f"less with {most['name']} than with {best}"
    if size > _VAGUE:
        told = f"{most['launches']:.0f} launch{'es do' if most['launches'] > 1 else ' does'}"
        return f"{most['category']} may wait {than}, and {told} not tell by how much"
    return f"{most['category']} may wait up to {percent(size, sign=False)} {than}"


# --- As JSON, and as lines of text.


_SAID: TextRow = ("95 % interval", "adjusted", "word")
HEADER: dict[By, TextRow] = {
    "category": (
        "kind of prompt", "tokens", "arm", "acceptance", "length", "length, 95 %", "ITL gain", *_SAID,
        "TPOT gain", "requests",
    ),
    "turn": (
        "turn", "arm", "TTFT, ms", "reference", "TTFT gain", *_SAID, "ITL gain",
        *(f"ITL, {name}" for name in _SAID), "length", "requests",
    ),
}  # fmt: skip


def kinds_json(found: KindComparison) -> dict[str, Any]:
    """Return the comparison as a dict for JSON. Unknown is null."""
    told = to_builtins(found)
    settings = [one.pop("subject") | one for one in told.pop("settings")]
    return {"schema_version": SCHEMA_VERSION, "settings": settings, **told}


def kind_rows(at: KindsAtLoad, by: By) -> list[TextRow]:
    """Return the rows of a load under HEADER; what is unknown is said so, its reason below the table."""
    if by == "turn":
        return [
            (
                one.kind, one.arm, number(one.ttft_ms, "ttft"), number(one.reference_ttft_ms, "ttft"),
                *_gain_words(one.ttft), *_gain_words(one.itl),
                number(one.length, "mean_acceptance_length"), f"{one.requests:,}",
            )
            for one in at.arms
        ]  # fmt: skip
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
    return (
        percent(gain.improvement),
        ONE_LAUNCH if gain.low is None else interval(gain.low, gain.high),
        interval(gain.adjusted_low, gain.adjusted_high),
        gain.word,
    )


def reasons(at: KindsAtLoad, by: By) -> Iterator[str]:
    """Yield of turns what the prefix cache held, and why something is unknown, each reason once with the kinds
    that it is true of, and the arms where it is not true of all."""
    if by == "turn":
        hits = [f"{percent(share, sign=False)} with {arm}" for arm, share in at.prefix_hits.items()]
        said = listed(hits, len(hits)) if hits else f"{UNKNOWN}, the server counts none"
        yield f"Share of prompt tokens that the prefix cache held, over all turns: {said}."
    found: dict[str, dict[str, list[str]]] = {}
    for one in at.arms:
        for what, why in (("acceptance", one.why_no_length), ("gain", one.why_no_gain)):
            if why is not None:
                whose = found.setdefault(f"{what} is unknown: {why}.", {})
                whose.setdefault(one.kind, []).append(one.arm)
    arms = len({one.arm for one in at.arms})
    for why, kinds in found.items():
        told = [k if len(of) == arms else f"{k} with {listed(of)}" for k, of in kinds.items()]
        yield f"{listed(told, len(told))}: {why}"
    untold = sum(one.share for one in at.shares if one.kind is None)
    if untold and by == "category":
        yield f"{percent(untold, sign=False)} of the output tokens are of no stated kind."


def kinds_title(setting: KindsOfSetting, at: KindsAtLoad, found: KindComparison) -> str:
    """Return what a table is about, in one line."""
    where = where_measured(setting.subject, setting.name, setting.badges)
    return f"{TITLES[found.by]} at {load_name(at.load)} against {found.reference}: {where}"
