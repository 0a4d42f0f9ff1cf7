"""What a decision says, as values and as JSON: every page, table, report and file renders these."""

from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any, Literal

from msgspec import to_builtins

from analysis.evidence.words import Word
from analysis.matching.arms import BASELINE
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.loads import Load

Objective = Literal["throughput", "latency", "cost"]
DecisionAnswer = Literal["yes", "at some loads", "no", "open"]
#: Who says how many tokens are drafted; "unknown": no result does.
KKind = Literal["fixed", "table", "engine", "unknown"]
#: From batch size, to batch size, draft tokens.
Entry = tuple[int, int, int]


@dataclass(frozen=True)
class DecideQuestion:
    """What is asked. ``filters`` choose which decisions are shown, and never what they stand on.

    ``load``: the reader's load or shares of several, as ``analysis.choice.operating`` reads it; None:
    the largest at which the baseline and an arm were measured. ``slo``: as ``analysis.service.slo``
    reads it. ``mix``: weights of datasets, empty: equal. ``allow``: fields in which pairs may
    differ. ``nowhere_worse``: a yes allows no load where the interval reaches further below zero
    (ratio), None: no load that is a loss or a likely one.
    """

    filters: Filters = Filters()
    objective: Objective = "throughput"
    load: str | float | None = None
    slo: str | None = None
    mix: tuple[tuple[str, float], ...] = ()
    allow: tuple[str, ...] = ()
    nowhere_worse: float | None = None


@dataclass(frozen=True)
class RunningServer:
    """What is served now. ``arm``: its label; ``lengths``: tokens that a step of its ``family`` yields
    with K = 1, 2, … as seen now, empty: as measured."""

    arm: str
    family: str = ""
    lengths: tuple[float, ...] = ()


@dataclass(frozen=True)
class DecisionSubject:
    """What a decision is about: one model on one hardware with one engine, in one study."""

    study: str | None
    model: str | None
    gpu: str | None
    gpu_count: int | None
    engine: str | None
    engine_version: str | None
    tensor_parallel_size: int | None
    evidence: str | None
    configuration: str | None = None


@dataclass(frozen=True)
class DecidedTraffic:
    """One dataset (None: unknown), or a mix: datasets with the share of output tokens of each.
    ``loads``: the kind of load, where several were measured and each is decided apart."""

    dataset: str | None
    mix: tuple[tuple[str, float], ...] = ()
    loads: str = ""

    @property
    def name(self) -> str:
        """The traffic in words: ``code``, or ``half code, half prose`` in numbers."""
        told = " + ".join(f"{share * 100:.0f} % {name}" for name, share in self.mix)
        told = told or self.dataset or "an unknown dataset"
        return f"{told} {self.loads}" if self.loads else told


@dataclass(frozen=True)
class ArmDifference:
    """An arm against the baseline in one metric: ratios, positive is better; None: not known.

    ``improvement`` is the expected one (``analysis.choice.expected``), ``low`` and ``high`` the
    plain 95 % interval, ``adjusted_*`` the study-adjusted one.
    """

    metric: str
    statistic: str
    word: Word
    improvement: float | None
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None


@dataclass(frozen=True)
class ThroughputRates:
    """Tokens per second of an arm and of its baseline at one load, means over the launches; None:
    not known."""

    baseline_output: float | None = None
    baseline_total: float | None = None
    output: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class ServedArm:
    """What the decision's server does at a load where another arm is named: its K (0: nothing), its
    arm, and how that does; None: nothing is drafted there. ``launches``: how many were measured."""

    num_speculative_tokens: int | None
    arm: str | None
    difference: ArmDifference | None
    launches: int
    k_kind: KKind = "fixed"


@dataclass(frozen=True)
class MapLevel:
    """One load of the map: the arm that is named there, its K (0: draft nothing; None: ``k_kind``
    says why), and how it does. ``arm``: whose difference it is; where nothing is to be drafted,
    that of the best arm there. ``launches`` is 0 where the arm was not measured at the load.
    ``served``: what the decision's server does where another arm is named; ``stands_for``: the
    measured load whose figures these are, where the load itself was not measured."""

    load: Load
    num_speculative_tokens: int | None
    arm: str
    difference: ArmDifference
    launches: int
    rates: ThroughputRates = ThroughputRates()
    k_kind: KKind = "fixed"
    served: ServedArm | None = None
    stands_for: Load | None = None

    @property
    def drafts(self) -> bool:
        """Whether the decision's server drafts there."""
        return (self if self.served is None else self.served).num_speculative_tokens != 0

    @property
    def own(self) -> ArmDifference | None:
        """How the decision's server does there; None where it drafts nothing or was not measured."""
        told = self.difference if self.served is None else self.served.difference
        return told if self.drafts and told is not None and told.improvement is not None else None

    @property
    def measured(self) -> bool:
        """Whether what the decision's server does there was measured."""
        return not self.drafts or self.own is not None


@dataclass(frozen=True)
class ArmAtLoad:
    """One field of the map of arms: ``taken`` where the decision takes this arm at this load.
    ``pairs``: ids of the cells behind it, those of the baseline first; ``broken``: it is no candidate,
    since its answers break."""

    load: Load
    arm: str
    method: str
    num_speculative_tokens: int | None
    difference: ArmDifference
    taken: bool
    launches: int
    pairs: tuple[tuple[str, str], ...]
    rates: ThroughputRates = ThroughputRates()
    broken: bool = False


@dataclass(frozen=True)
class Against:
    """Something that the arm makes worse: a metric at a load, settled or likely."""

    load: Load
    arm: str
    difference: ArmDifference
    sentence: str


@dataclass(frozen=True)
class Settle:
    """How many more launches of an arm (and of the baseline, or of the ``rival`` it is held
    against) would settle a question at a load."""

    load: Load
    arm: str
    launches: int
    rival: str | None = None


@dataclass(frozen=True)
class ExcludedCell:
    """A cell that is shown but decides nothing, and why."""

    cell: str
    why: str


@dataclass(frozen=True)
class Saving:
    """What an output token costs less at a load, the same GPUs paid (ratio, negative: dearer)."""

    load: Load
    per_output_token: float
    low: float | None
    high: float | None
    word: Word


@dataclass(frozen=True)
class Forgone:
    """What one arm for all traffic gives up on a dataset, against that dataset's own best."""

    dataset: str
    best: str
    loss: float


@dataclass(frozen=True)
class Decision:
    """Should this be served with speculation: with which arm, which K at which load, and what that
    saves. ``arm``: the one taken at the operating load, else the best one there (then the operating
    level's K is 0). ``levels`` is the load map, ``arms`` all arms at all loads. ``at_stake``: what
    another arm could still bring at the operating load, at most (ratio); None: unknown. ``beaten``: where a
    running server was held against it, loads and what is better there (None: nothing)."""

    subject: DecisionSubject
    traffic: DecidedTraffic
    objective: Objective
    answer: DecisionAnswer
    arm: str
    method: str
    num_speculative_tokens: int | None
    k_kind: KKind
    table: tuple[Entry, ...] | None
    operating: MapLevel
    levels: tuple[MapLevel, ...]
    arms: tuple[ArmAtLoad, ...]
    at_stake: float | None
    rivals: tuple[str, ...]
    settle: tuple[Settle, ...]
    against: tuple[Against, ...]
    excluded: tuple[ExcludedCell, ...]
    saving: Saving | None
    forgone: tuple[Forgone, ...]
    doubts: tuple[str, ...]
    config: str | None
    serve: str | None
    headline: str
    paragraph: str
    beaten: tuple[tuple[Load, str | None], ...] = ()

    @property
    def details(self) -> str:
        """What the paragraph says beside the headline."""
        _, _, told = self.paragraph.partition(": ")
        return told.replace(self.headline, "", 1).replace("  ", " ").strip()

    @property
    def started_once(self) -> bool:
        """Whether each arm was started once, so that no difference has an interval."""
        return all(cell.difference.low is None for cell in self.arms)

    @property
    def takes(self) -> str:
        """The arm that is served at the load at which gain and money are told; the baseline where nothing is
        drafted."""
        return self.operating.arm if self.operating.drafts else BASELINE

    @property
    def operating_load(self) -> Load:
        """The load at which gain and money are told."""
        return self.operating.load


@dataclass(frozen=True)
class Decisions:
    """All decisions asked for: mixes first, then a dataset each. ``why_none``: where there is none,
    why, in one sentence."""

    decisions: tuple[Decision, ...]
    why_none: str | None = None


# --- Decisions as JSON: a contract, described in ``docs/decisions.md``. Unknown is null.


SCHEMA_VERSION = 1


def decisions_json(decisions: Decisions) -> dict[str, Any]:
    """Return ``schema_version`` and ``decisions`` as a dict for JSON; names and meanings only ever
    grow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "decisions": [decision_json(one) for one in decisions.decisions],
        "why_none": decisions.why_none,
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return one decision as a dict for JSON."""
    mix = dict(decision.traffic.mix)
    return {
        **asdict(decision.subject),
        "traffic": {"mix": mix} if mix else {"dataset": decision.traffic.dataset},
        "objective": decision.objective,
        "arm": decision.arm,
        "method": decision.method,
        "num_speculative_tokens": decision.num_speculative_tokens,
        "k_kind": decision.k_kind,
        "answer": decision.answer,
        "operating_load": decision.operating.load.as_json(),
        "operating": _level(decision.operating),
        "loads": [_level(level) for level in decision.levels],
        "num_speculative_tokens_per_batch_size": to_builtins(decision.table),
        "at_stake": decision.at_stake,
        "rivals": list(decision.rivals),
        "settle": to_builtins(decision.settle),
        "against": [
            {"load": a.load.as_json(), "arm": a.arm, **asdict(a.difference), "sentence": a.sentence}
            for a in decision.against
        ],
        "excluded": to_builtins(decision.excluded),
        "saving": to_builtins(decision.saving),
        "forgone": to_builtins(decision.forgone),
        "doubts": list(decision.doubts),
        "speculative_config": decision.config,
        "serve": decision.serve,
        "headline": decision.headline,
        "paragraph": decision.paragraph,
    }


def _level(level: MapLevel) -> dict[str, Any]:
    served = level.served
    return {
        "load": level.load.as_json(),
        **asdict(level.difference),
        "arm": level.arm,
        "num_speculative_tokens": level.num_speculative_tokens,
        "launches": level.launches,
        "stands_for": to_builtins(level.stands_for),
        "served": None if served is None else {
            "arm": served.arm, "num_speculative_tokens": served.num_speculative_tokens,
            "launches": served.launches,
            **({} if served.difference is None else asdict(served.difference)),
        },
    }  # fmt: skip


# --- A traffic mix as people write it.


_EXAMPLE = "code=0.7,prose=0.3"


def mix_from(text: str | None) -> tuple[tuple[str, float], ...]:
    """Read a traffic mix such as ``code=0.7,prose=0.3`` as weights; empty for none. Raises
    InvalidInput for another form."""
    weights = []
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, _, share = part.rpartition("=")
        try:
            weight = float(share)
        except ValueError:
            weight = nan
        if not name.strip() or not isfinite(weight):
            raise InvalidInput(f"--mix: {part!r} is no share of a dataset; write {_EXAMPLE}.")
        weights.append((name.strip(), weight))
    if len(dict(weights)) < len(weights):
        raise InvalidInput(f"--mix: {text!r} names a dataset twice; write each once.")
    return tuple(weights)
