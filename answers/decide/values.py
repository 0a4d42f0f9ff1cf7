"""What a decision says, as values: every page, table, report and file renders these."""

from dataclasses import dataclass
from typing import Literal

from analysis.evidence.words import Word
from warehouse.filters import Filters
from warehouse.loads import Load

Objective = Literal["throughput", "latency", "cost"]
Answer = Literal["yes", "at some loads", "no", "open"]
#: Who says how many tokens are drafted; "unknown": no result does.
KKind = Literal["fixed", "table", "engine", "unknown"]
#: From batch size, to batch size, draft tokens.
Entry = tuple[int, int, int]

#: A "yes" allows no load where the interval reaches further below zero than this (ratio).
NOWHERE_WORSE = 0.03


@dataclass(frozen=True)
class Question:
    """What is asked. ``filters`` choose which decisions are shown, and never what they stand on.

    ``load``: the reader's operating load (requests at once, or a second), None: the largest
    measured one that meets the SLO. ``slo``: as ``analysis.service.slo`` reads it. ``mix``: weights
    of datasets, empty: equal. ``allow``: fields in which pairs may differ. ``nowhere_worse``: see
    NOWHERE_WORSE.
    """

    filters: Filters = Filters()
    objective: Objective = "throughput"
    load: float | None = None
    slo: str | None = None
    mix: tuple[tuple[str, float], ...] = ()
    allow: tuple[str, ...] = ()
    nowhere_worse: float = NOWHERE_WORSE


@dataclass(frozen=True)
class Subject:
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
class Traffic:
    """One dataset (None: unknown), or a mix: datasets with the share of output tokens of each."""

    dataset: str | None
    mix: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The traffic in words: ``code``, or ``half code, half prose`` in numbers."""
        if not self.mix:
            return self.dataset or "an unknown dataset"
        return " + ".join(f"{share * 100:.0f} % {name}" for name, share in self.mix)


@dataclass(frozen=True)
class Difference:
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
class Rates:
    """Tokens per second of an arm and of its baseline at one load, means over the launches; None:
    not known."""

    baseline_output: float | None = None
    baseline_total: float | None = None
    output: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class Level:
    """One load of the map: the K taken there (0: draft nothing; None: ``k_kind`` says why), and how
    the arm does there. ``arm``: whose difference it is; where nothing is to be drafted, that of the
    arm which is best elsewhere."""

    load: Load
    num_speculative_tokens: int | None
    arm: str
    difference: Difference
    launches: int
    rates: Rates = Rates()
    k_kind: KKind = "fixed"


@dataclass(frozen=True)
class Cell:
    """One field of the map of arms: ``taken`` where the decision takes this arm at this load.
    ``pairs``: ids of the cells behind it, those of the baseline first."""

    load: Load
    arm: str
    method: str
    num_speculative_tokens: int | None
    difference: Difference
    taken: bool
    launches: int
    pairs: tuple[tuple[str, str], ...]
    rates: Rates = Rates()


@dataclass(frozen=True)
class Against:
    """Something that the arm makes worse: a metric at a load, settled or likely."""

    load: Load
    arm: str
    difference: Difference
    sentence: str


@dataclass(frozen=True)
class Settle:
    """How many more launches of an arm (and of the baseline) would settle a load."""

    load: Load
    arm: str
    launches: int


@dataclass(frozen=True)
class Excluded:
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
    saves. ``levels`` is the load map, ``arms`` all arms at all loads. ``at_stake``: what a better
    choice of K or method could still bring at a load, at most (ratio); None: unknown."""

    subject: Subject
    traffic: Traffic
    objective: Objective
    answer: Answer
    arm: str
    method: str
    num_speculative_tokens: int | None
    k_kind: KKind
    table: tuple[Entry, ...] | None
    operating: Level | None
    levels: tuple[Level, ...]
    arms: tuple[Cell, ...]
    at_stake: float | None
    rivals: tuple[str, ...]
    settle: tuple[Settle, ...]
    against: tuple[Against, ...]
    excluded: tuple[Excluded, ...]
    saving: Saving | None
    forgone: tuple[Forgone, ...]
    doubts: tuple[str, ...]
    config: str | None
    serve: str | None
    headline: str
    paragraph: str

    @property
    def operating_load(self) -> Load | None:
        """The load at which gain and money are told."""
        return None if self.operating is None else self.operating.load


@dataclass(frozen=True)
class Decisions:
    """All decisions asked for: mixes first, then a dataset each. ``why_none``: where there is none,
    why, in one sentence."""

    decisions: tuple[Decision, ...]
    why_none: str | None = None
