"""What is told of a search: its steps, what they decided, and what that cost."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import SearchArm, SearchPlace, SeenLaunches, Space
from answers.decide.values import DecideQuestion, DecisionAnswer, DecisionSubject, Objective
from warehouse.filters import Filters


@dataclass(frozen=True)
class SearchTerms:
    """When a search is done and what it judges by. ``stake`` (ratio): a rival that is better by no
    more is not worth finding; ``error`` (0-1): the chance that one is; ``budget_min``: None for the
    minutes of the full grid. ``latency``: judge by the median request latency instead of output
    tokens per second. ``slo`` and ``mix``: as for a decision; an arm that breaks the SLO at a load is
    not taken there; without a mix each dataset is decided on its own. ``by_money``: the budget was
    stated as money, so its minutes are those of a machine."""

    stake: float = 0.02
    error: float = 0.05
    budget_min: float | None = None
    latency: bool = False
    slo: str | None = None
    mix: tuple[tuple[str, float], ...] = ()
    by_money: bool = False

    def question(self, filters: Filters) -> DecideQuestion:
        """Return what a decision on the same terms is asked."""
        objective: Objective = "latency" if self.latency else "throughput"
        return DecideQuestion(filters, objective, slo=self.slo, mix=self.mix)


@dataclass(frozen=True)
class LaunchStep:
    """One launch: ``where`` it measures; ``why`` it was asked for; ``open``: the chance, before it,
    that another arm than the leading one is better by more than the stake anywhere; None while screening."""

    arm: str
    where: str
    minutes: float
    why: str
    open: float | None


@dataclass(frozen=True)
class PlaceOutcome:
    """What is known at one place. ``arm`` leads and is expected to be better than the baseline by
    ``gain`` (ratio), from ``gain_low`` to ``gain_high`` (95 %); with a chance of at most ``chance`` another, most likely ``rival``, is better by
    more than the stake. ``alike``: the arms that are expected to be worse by no more than the stake.
    ``meets``: False where every arm that was measured breaks the SLO, so that none is to be taken.
    ``by_all``: what the decision takes there that weighs every recorded launch in full, None where
    there is none."""

    dataset: str
    load: float
    arm: str
    gain: float
    gain_low: float
    gain_high: float
    chance: float
    settled: bool
    rival: str | None
    alike: tuple[str, ...]
    by_all: str | None = None
    meets: bool = True

    @property
    def agrees(self) -> bool | None:
        """Whether the decision over everything takes this arm or one alike; None without one."""
        return None if self.by_all is None else self.by_all in (self.arm, *self.alike)


@dataclass(frozen=True)
class SearchCandidate:
    """An arm, and what is known of it. ``launches``: so many measured it; ``low`` and ``high``: its
    expected gain (ratios) against the baseline at the dataset and load where it gains least and most, None
    for the baseline, for an arm that is out and while nothing is known; ``state``: whether it leads, may still win or is out, and
    why, in words."""

    arm: str
    launches: int
    low: float | None
    high: float | None
    state: str


@dataclass(frozen=True)
class ProvenGain:
    """The gain of the winner at one place, as ratios: the search ``promised`` it, from ``promised_low`` to
    ``promised_high`` (95 %), and chose what looked best; ``proven`` by fresh launches, from ``low`` to
    ``high`` (95 %). ``surprise`` (0-1): the chance that the truth is less than the stake below what was
    promised."""

    dataset: str
    load: float
    promised: float
    promised_low: float
    promised_high: float
    proven: float
    low: float
    high: float
    surprise: float


#: What is decided of a winner by its fresh launches alone; "none": nothing can be, for the reason that
#: stands in words.
ProofAnswer = DecisionAnswer | Literal["none"]


@dataclass(frozen=True)
class WinnerProof:
    """What fresh launches prove of the winner. ``config``: the value of ``--speculative-config`` that was
    measured; ``words``: its K, or the K of each load; ``kept``: whether fresh launches exclude nowhere
    what was promised, less the stake. ``answer`` and ``decision``: what is decided by the fresh launches
    alone, as on every page, the latter in words, and ``paste`` its value of ``--speculative-config``, None where
    nothing is to be drafted or datasets differ; ``places``: the gain against the baseline; ``ahead``: against
    ``rival``, the runner-up, empty where it has no whole launches. ``refused``: why its answers keep it from
    being taken, None where they do not; ``study``: of the fresh launches; ``repeats``: so many launches of
    each arm would settle what is open, None where nothing is or nobody can tell."""

    config: str
    words: str
    kept: bool
    answer: ProofAnswer
    decision: str
    paste: str | None
    places: tuple[ProvenGain, ...]
    rival: str | None = None
    ahead: tuple[ProvenGain, ...] = ()
    refused: str | None = None
    study: str = ""
    repeats: int | None = None

    @property
    def recommended(self) -> bool:
        """Whether it is to be taken: it keeps its promise, and the decision is to draft."""
        return self.kept and self.refused is None and self.answer in ("yes", "at some loads")


@dataclass(frozen=True)
class ExcludedArm:
    """An arm of a study that is out of its search, and why, in words."""

    arm: str
    why: str


@dataclass(frozen=True)
class SearchReport:
    """A search over one study. ``ended``: why, or that it is under way; ``minutes`` against ``grid_min``, those of
    every recorded launch; ``dropped``: arms that no launch was spent on any more; ``out``: arms that
    could not be measured, each with its reason; ``proof``: None where nothing was proven; ``usd``: None
    without a price; ``chance`` (0-1): that the rest of the budget decides, None where it is early or
    decided; ``outlook``: that in words; ``candidates``: the baseline first; ``system``: of a replay, what
    it is over."""

    study: str | None
    model: str | None
    terms: SearchTerms
    steps: tuple[LaunchStep, ...]
    found: tuple[PlaceOutcome, ...]
    decided: bool
    ended: str
    minutes: float
    grid_min: float
    dropped: tuple[str, ...]
    left_out: tuple[str, ...]
    headline: str
    out: tuple[str, ...] = ()
    proof: WinnerProof | None = None
    usd: float | None = None
    chance: float | None = None
    outlook: str = ""
    candidates: tuple[SearchCandidate, ...] = ()
    system: DecisionSubject | None = None


@dataclass(frozen=True)
class SearchPlan:
    """A study as `draftboard plan` lays it out. ``arms``: the study's own names, the baseline first;
    ``launches``: of each arm, their ids in the order in which they are to be measured; ``launch_min``:
    minutes that one whole launch is expected to take; ``attempts``: tries at a cell that fails;
    ``usd_per_min``: None without a price; ``cells``: of each launch, the keys of its cells;
    ``at_once``: so many launches are measured side by side, on ``one_machine``, which is paid once for
    all of them, or on one each."""

    study: str
    arms: tuple[SearchArm, ...]
    places: tuple[SearchPlace, ...]
    launches: Mapping[str, tuple[str, ...]]
    launch_min: float
    attempts: int = 1
    usd_per_min: float | None = None
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at_once: int = 1
    one_machine: bool = True

    @property
    def repeats(self) -> int:
        """The most launches that an arm may get."""
        return max(map(len, self.launches.values()))


@dataclass(frozen=True)
class LaunchOrder:
    """A launch to measure: its id in the plan, and the datasets and loads of its cells."""

    launch_id: str
    datasets: tuple[str, ...]
    loads: tuple[int, ...]
    step: LaunchStep


@dataclass(frozen=True)
class Winner:
    """A configuration of a server. ``config``: the value of ``--speculative-config``, None where nothing
    is to be drafted; ``arms`` (places,): the arm of the search that it is at each place; ``like``: the
    name of one of these that drafts; ``words``: its K, or the K of each load, and its method where there are several; ``role``: winner or
    runner-up."""

    config: str | None
    arms: NDArray[np.int64]
    like: str
    words: str
    role: str = "winner"

    @property
    def name(self) -> str:
        """What it is called as an arm of its own; it follows from what it is."""
        return f"{self.role}-{zlib.crc32(f'{self.like} {self.config}'.encode()):08x}"


@dataclass(frozen=True)
class LiveSearch:
    """How a search stands. ``orders``: the launches to measure now, none where the search is over; ``told``: all that
    is known so far; ``winner``: the one configuration of a server that is expected to be the best, and
    ``rival``, the next best, both None until the search is decided; ``known``: what it was decided with;
    ``troubles``: why the machine is not to be trusted at present, in words."""

    orders: tuple[LaunchOrder, ...]
    told: SearchReport
    winner: Winner | None = None
    rival: Winner | None = None
    known: tuple[Space, SeenLaunches] | None = None
    troubles: tuple[str, ...] = ()


# --- A search as JSON: a contract, described in ``docs/tuning.md``. Unknown is null.


def searches_json(
    reports: Sequence[SearchReport], orders: Sequence[LaunchOrder] = ()
) -> dict[str, Any]:
    """Return ``schema_version``, ``searches`` and, of one that measures, the launches to measure
    ``next`` as a dict for JSON; names and meanings only ever grow."""
    searches = [
        asdict(report)
        | {"found": [asdict(place) | {"agrees": place.agrees} for place in report.found]}
        for report in reports
    ]
    return {
        "schema_version": 1, "searches": searches,
        "next": [
            {
                "launch": one.launch_id, "arm": one.step.arm, "datasets": one.datasets,
                "loads": one.loads, "minutes": one.step.minutes, "why": one.step.why,
            }
            for one in orders
        ],
    }  # fmt: skip
