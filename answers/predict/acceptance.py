"""How good a draft is: acceptance by position, over K and over the load, and what rules of thumb make of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from analysis.drafts.acceptance_tables import (
    Arm,
    Says,
    acceptance_by_level,
    acceptance_by_position,
    opinions,
)
from analysis.evidence.words import EQUIVALENCE
from analysis.flags.validity import DECIDES_NOTHING, SHOWN_DEFECT
from analysis.frames import plain, records, records_by
from analysis.matching.arms import ENGINE_CHOOSES, about, choosers, place_arms
from answers.decide.tables import TextRows
from answers.decide.values import Decision
from answers.ground import deciding_cells
from answers.wording import UNKNOWN, listed
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

#: What ``DraftAcceptance.about`` holds.
ABOUT = (
    "study", "model", "gpu", "engine", "engine_version", "evidence", "tensor_parallel_size",
)  # fmt: skip


@dataclass(frozen=True)
class DraftAcceptance:
    """Acceptance of one arm on one dataset at one concurrency: ``rate`` (0-1), ``length`` (mean
    tokens a step, the bonus token included), by position (empty where K changes from step to step) ``of_all`` drafts and ``of_those`` that got
    so far. None: unknown. ``about``: study, model, gpu, engine, engine_version, evidence, tensor
    parallel size."""

    about: tuple[str | int | None, ...]
    dataset: str | None
    family: str
    k: int
    concurrency: int
    arm: str
    rate: float | None
    length: float | None
    of_all: tuple[float, ...]
    of_those: tuple[float | None, ...]

    def fact(self, name: str) -> str | None:
        """Return a fact of ``ABOUT`` as text; None: unknown."""
        value = self.about[ABOUT.index(name)]
        return None if value is None else str(value)


def accepted(reader: Reader, filters: Filters, own: bool = False) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of every arm that the filters keep. ``own``: what is a draft's own with its K
    alone, and not of cells that decide nothing, in which a defect of the engine shows, or whose engine
    chooses K."""
    cells = queries.cells(reader, filters).to_pandas()
    if own:
        cells = deciding_cells(reader, cells, DECIDES_NOTHING | {SHOWN_DEFECT})
        cells = cells[~choosers(cells).isin(ENGINE_CHOOSES)]
    counts = queries.acceptance(reader, filters).to_pandas()
    if cells.empty or counts.empty:
        return ()
    positions = queries.acceptance_by_position(reader, filters).to_pandas()
    place = ["setting", "family", "k", "concurrency"]
    by_position = acceptance_by_position(cells, counts, positions)
    shares = records_by(by_position, place, ["rate", "conditional"])
    placed = place_arms(cells).reset_index().drop_duplicates(place[:3])
    once = placed.merge(cells, on="cell_id", suffixes=("", "_cell"))
    arms = records_by(once, place[:3], [str(name) for name in once])
    found = []
    for row in records(acceptance_by_level(cells, counts)):
        key = tuple(row[name] for name in place)
        arm, mine = arms[key[:3]][0], shares.get(key, [])
        found.append(DraftAcceptance(
            tuple(about(arm, ABOUT).values()), plain(row["dataset"]), row["family"], int(row["k"]),
            int(row["concurrency"]), str(arm["arm_label"]), plain(row["rate"]),
            plain(row["mean_length"]), tuple(one["rate"] for one in mine),
            tuple(plain(one["conditional"]) for one in mine),
        ))  # fmt: skip
    return tuple(found)


def accepted_in(
    decision: Decision, acceptance: Sequence[DraftAcceptance]
) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of the arms on a decision's datasets."""
    subject = tuple(getattr(decision.subject, name) for name in ABOUT)
    names: set[str | None] = {name for name, _ in decision.traffic.mix} or {
        decision.traffic.dataset
    }
    return tuple(x for x in acceptance if x.about == subject and x.dataset in names)


def acceptance_rows(acceptance: Sequence[DraftAcceptance]) -> TextRows:
    """Return a row per dataset, arm and load."""
    header = ["dataset", "arm", "load", "rate", "length", "by position", "of those"]
    return header, [
        [
            x.dataset or UNKNOWN, x.arm, str(x.concurrency), _number(x.rate, 3),
            _number(x.length, 2), *(" ".join(_number(share, 2) for share in shares) or UNKNOWN
                                    for shares in (x.of_all, x.of_those)),
        ]
        for x in acceptance
    ]  # fmt: skip


def _number(value: float | None, decimals: int) -> str:
    return UNKNOWN if value is None else f"{value:.{decimals}f}"


# --- What the published rules of thumb make of it.


@dataclass(frozen=True)
class RuleOfThumb:
    """What a rule of thumb says of one arm at one load; ``agrees``: whether the decision's expected
    gains say so too, None where they cannot tell."""

    arm: str
    concurrency: int
    rule: str
    says: Says
    why: str
    agrees: bool | None


def rules(decision: Decision, acceptance: Sequence[DraftAcceptance]) -> Iterator[RuleOfThumb]:
    """Apply every rule to every arm and load of a dataset, and compare it with what is expected
    there.

    The right K at a load are those within the margin of equivalence of the best expected one of the
    same method, no drafts (0) among them.
    """
    for level in accepted_in(decision, acceptance):
        gains = {0: 0.0}
        for cell in decision.arms:
            k, gain, load = cell.num_speculative_tokens, cell.difference.improvement, cell.load
            here = (load.kind, load.value) == ("concurrency", level.concurrency)
            if cell.method == level.family and here and k is not None and gain is not None:
                gains[k] = gain
        if level.rate is None or level.length is None or level.k not in gains:
            continue
        best = [k for k, gain in gains.items() if gain >= max(gains.values()) - EQUIVALENCE]
        for said in opinions(Arm(level.k, level.rate, level.length), best, tuple(gains)):
            yield RuleOfThumb(
                level.arm, level.concurrency, said.rule, said.says, said.why, said.agrees
            )


def rule_rows(found: Iterator[RuleOfThumb]) -> TextRows:
    """Return a row per rule of thumb and arm: what it says of it, and at which loads it is
    right."""
    grouped: dict[tuple[str, str, str], list[RuleOfThumb]] = {}
    for one in found:
        grouped.setdefault((one.arm, one.says, one.rule), []).append(one)
    lines = []
    for (arm, says, rule), at in sorted(grouped.items(), key=lambda item: item[0][0]):
        loads = (
            ", ".join(str(one.concurrency) for one in at if one.agrees is truth)
            for truth in (True, False, None)
        )
        lines.append([arm, says, *loads, rule])
    return ["arm", "says", "right at", "wrong at", "not measured at", "rule of thumb"], lines


# --- Acceptance over position, K or load, a line per dataset.


Over = Literal["position", "k", "concurrency"]
#: ``of_all``: accepted at a position / drafts; ``of_those``: / accepted at the one before it.
Measure = Literal["rate", "length", "of_all", "of_those"]


@dataclass(frozen=True)
class AcceptanceLine:
    """What was measured on one dataset, over position, K or load in ascending order."""

    dataset: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class AcceptanceQuestion:
    """What a chart of acceptance shows. ``k``: of which K, for a line over positions or loads; a
    line over K has all."""

    over: Over
    measure: Measure
    k: int


def lines(
    acceptance: Sequence[DraftAcceptance], question: AcceptanceQuestion
) -> tuple[AcceptanceLine, ...]:
    """Return a line for each dataset: means over the loads, or over K's own levels."""
    values: dict[str, dict[int, list[float]]] = {}
    for one in acceptance:
        points: list[tuple[int, Any]] = [
            (one.k if question.over == "k" else one.concurrency, getattr(one, question.measure))
        ]
        if question.measure in ("of_all", "of_those"):
            points = list(enumerate(getattr(one, question.measure), 1))
        for at, value in points if question.over == "k" or one.k == question.k else ():
            if value is not None:
                values.setdefault(one.dataset or "unknown", {}).setdefault(at, []).append(value)
    return tuple(
        AcceptanceLine(name, tuple((at, fmean(all_at)) for at, all_at in sorted(points.items())))
        for name, points in sorted(values.items())
    )


def headline(acceptance: Sequence[DraftAcceptance], k: int) -> str:
    """Say how many tokens a step yields on each dataset, at one K."""
    drawn = lines(acceptance, AcceptanceQuestion("k", "length", k))
    lengths = [(line.dataset, dict(line.points).get(k)) for line in drawn]
    known = [f"{length:.2f} on {name}" for name, length in lengths if length is not None]
    if not known:
        return f"With K = {k} the tokens of a step are unknown"
    return f"With K = {k} a step yields {listed(known)} tokens"
