"""What speculation costs and saves, as values and as JSON: every page, table, report and file renders these."""

from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import to_builtins

from analysis.evidence.words import Word
from analysis.money.cost import Basis, BreakEven, Cost, Demand, Fleet
from analysis.money.paying import Paying
from answers.decide.values import Decision
from warehouse.loads import Load


@dataclass(frozen=True)
class Terms:
    """How money is counted. ``demand``: output tokens to serve, None for no fleet.
    ``whole_instances``: GPUs can only be rented by the instance. ``investment_usd``: what the
    benchmark and a draft's training cost, for the break-even. ``request_tokens``: of prompt and answer
    together, for the room in the KV cache; None: as measured."""

    paying: Paying = field(default_factory=Paying)
    demand: Demand | None = None
    whole_instances: bool = False
    investment_usd: float | None = None
    request_tokens: int | None = None


@dataclass(frozen=True)
class SavedAmount:
    """A sum or a number that speculation saves (negative: it takes more), with its plain 95 %
    interval (None: nothing repeats) and how sure its direction is."""

    value: float
    low: float | None
    high: float | None
    word: Word


@dataclass(frozen=True)
class ArmEnergy:
    """What the GPUs of one arm took at the load, without the rest of the machine: joules per output
    token and per token of all, prompts too, and their mean power (W), by so many ``samples``. ``joules_of_prefill``: per prompt
    token, ``joules_of_decode``: per output token, apart; ``share_at_limit`` (0-1): of the time at the
    limit of their power, ``limit_watts``. None: unknown."""

    joules_per_output_token: float
    joules_per_token: float | None
    watts: float
    samples: int
    limit_watts: float | None
    share_at_limit: float | None
    joules_of_prefill: float | None = None
    joules_of_decode: float | None = None


@dataclass(frozen=True)
class CacheRoom:
    """What the KV caches of the baseline's server and of the arm's hold: ``tokens``, as measured, and so many
    requests of ``request_tokens`` (prompt and answer) at once: ``fit``, computed. ``throughput``: output tokens/s
    of the baseline and of the arm with ``fit[0]`` at once, between measured loads (with longer requests than were
    measured the arm's is that with ``fit[1]``), and ``usd_per_million`` of these; ``worse_from``: the requests at
    once from which the baseline makes more, since the arm queues (``fit[1]``: before it does); None: it never does,
    or, with ``why_unknown``, nothing tells."""

    tokens: tuple[float, float]
    request_tokens: float
    fit: tuple[int, int]
    throughput: tuple[float, float] | None = None
    worse_from: int | None = None
    usd_per_million: tuple[float, float] | None = None
    why_unknown: str | None = None


@dataclass(frozen=True)
class ArmCost:
    """One arm at the load: tokens per second, USD per million tokens, the fleet for the demand,
    joules per output token. None: not known or not asked for."""

    output_throughput: float | None
    total_throughput: float | None
    cost: Cost | None
    fleet: Fleet | None
    joules_per_output_token: float | None = None


@dataclass(frozen=True)
class CostPoint:
    """What a million output tokens cost at a load (USD) with one arm, or with the baseline (``arm``
    None); ``low`` and ``high``: plain 95 % interval against the baseline. ``taken``: whether the
    decision takes this arm there; ``operating``: whether the decision is costed at this point;
    ``meets``: whether it keeps the service level that was asked for, None: none was, or unknown."""

    load: Load
    arm: str | None
    usd_per_million_output_tokens: float
    low: float | None
    high: float | None
    taken: bool
    operating: bool
    meets: bool | None = None


@dataclass(frozen=True)
class DecisionCost:
    """What one decision is worth at its operating load.

    What is saved of a token the decision says itself. The arm's throughput is the baseline's, measured, raised by
    what the decision expects of it: so costs, fleet and saving agree to the last digit. ``missing``:
    what cannot be said, and why, a sentence each. ``energy``: of the baseline and of the arm, taken or
    not; None: not asked for, or unknown of one. ``memory``: of the same two.
    """

    decision: Decision
    load: Load
    arm: str
    basis: Basis | None
    baseline: ArmCost | None
    speculative: ArmCost | None
    usd_saved_per_million: SavedAmount | None
    gpus_saved: SavedAmount | None
    usd_saved_per_year: SavedAmount | None
    break_even: BreakEven | None
    curve: tuple[CostPoint, ...]
    headline: str
    missing: tuple[str, ...]
    energy: tuple[ArmEnergy, ArmEnergy] | None = None
    memory: CacheRoom | None = None

    @property
    def gain_per_watt(self) -> float | None:
        """How many more output tokens a joule makes with the arm (ratio); None where nothing tells."""
        if self.energy is None:
            return None
        old, new = (side.joules_per_output_token for side in self.energy)
        return old / new - 1


@dataclass(frozen=True)
class Costs:
    """The money of every decision, in their order. ``headline``: that of the first; ``notes``: the
    bases, and what a reader must know. ``why_none``: where there is no decision, why."""

    rows: tuple[DecisionCost, ...]
    terms: Terms
    headline: str
    notes: tuple[str, ...]
    why_none: str | None = None


# --- Costs as JSON: a contract, described in ``docs/cost.md``. Unknown is null.


SCHEMA_VERSION = 1


def costs_json(costs: Costs) -> dict[str, Any]:
    """Return ``schema_version`` and ``costs`` as a dict for JSON; names and meanings only ever
    grow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "headline": costs.headline,
        "costs": [money_json(one) for one in costs.rows],
        "notes": list(costs.notes),
        "why_none": costs.why_none,
    }


def money_json(cost: DecisionCost) -> dict[str, Any]:
    traffic = cost.decision.traffic
    return {
        **asdict(cost.decision.subject),
        "traffic": {"mix": dict(traffic.mix)} if traffic.mix else {"dataset": traffic.dataset},
        "load": cost.load.as_json(),
        "arm": cost.arm,
        "num_speculative_tokens": cost.decision.operating.num_speculative_tokens,
        "basis": None if cost.basis is None else cost.basis.as_json(),
        "baseline": None if cost.baseline is None else _arm_json(cost.baseline),
        "speculative": None if cost.speculative is None else _arm_json(cost.speculative),
        "saving": to_builtins(cost.decision.saving),
        "usd_saved_per_million_output_tokens": to_builtins(cost.usd_saved_per_million),
        "gpus_saved": to_builtins(cost.gpus_saved),
        "usd_saved_per_year": to_builtins(cost.usd_saved_per_year),
        "break_even": None if cost.break_even is None else asdict(cost.break_even),
        "loads": to_builtins(cost.curve),
        "energy": None
        if cost.energy is None
        else dict(zip(("baseline", "arm"), map(asdict, cost.energy), strict=True)),
        "gain_per_watt": cost.gain_per_watt,
        "memory": None if cost.memory is None else asdict(cost.memory),
        "headline": cost.headline,
        "missing": list(cost.missing),
    }


def _arm_json(side: ArmCost) -> dict[str, Any]:
    return {
        "output_throughput": side.output_throughput,
        "total_throughput": side.total_throughput,
        **asdict(side.cost or Cost(None, None, None)),
        "fleet": None if side.fleet is None else asdict(side.fleet),
        "joules_per_output_token": side.joules_per_output_token,
    }
