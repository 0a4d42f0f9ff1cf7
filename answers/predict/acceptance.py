"""How good a draft is: acceptance by position, over K and over the load, and what rules of thumb make of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

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
from answers.decide.values import Decision
from answers.ground import deciding_cells
from answers.wording import UNKNOWN, TextRows, listed, rounded
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
    tokens a step, the bonus token included). By position, empty where K changes from step to step:
    the shares accepted ``of_all`` drafts, and ``of_those`` accepted at the position before. None:
    unknown. ``about``: the facts of ``ABOUT``; ``setting``: a number, that of all cells that differ
    in the arm, load, prompts and seed alone; ``cells``: those behind it."""

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
    setting: int = -1
    cells: frozenset[str] = frozenset()

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
    placed = place_arms(cells).reset_index()
    ids = records_by(placed, place, ["cell_id"])
    once = placed.drop_duplicates(place[:3]).merge(cells, on="cell_id", suffixes=("", "_cell"))
    arms = records_by(once, place[:3], [str(name) for name in once])
    found = []
    for row in records(acceptance_by_level(cells, counts)):
        key = tuple(row[name] for name in place)
        arm, mine = arms[key[:3]][0], shares.get(key, [])
        found.append(DraftAcceptance(
            tuple(about(arm, ABOUT).values()), plain(row["dataset"]), row["family"], int(row["k"]),
            int(row["concurrency"]), str(arm["arm_label"]), plain(row["rate"]),
            plain(row["mean_length"]), tuple(one["rate"] for one in mine),
            tuple(plain(one["conditional"]) for one in mine), key[0],
            frozenset(one["cell_id"] for one in ids[key]),
        ))  # fmt: skip
    return tuple(found)


def accepted_in(
    decision: Decision, acceptance: Sequence[DraftAcceptance]
) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of all arms in the settings that were decided on."""
    decided = {cell for arm in decision.arms for _, cell in arm.pairs}
    settings = {level.setting for level in acceptance if not decided.isdisjoint(level.cells)}
    return tuple(level for level in acceptance if level.setting in settings)


def acceptance_rows(acceptance: Sequence[DraftAcceptance]) -> TextRows:
    """Return a row per dataset, arm and load."""
    header = ["dataset", "arm", "load", "rate", "length", "by position", "of those"]
    return header, [
        [
            x.dataset or UNKNOWN, x.arm, str(x.concurrency), rounded(x.rate, 3),
            rounded(x.length, 2), *(" ".join(rounded(share, 2) for share in shares) or UNKNOWN
                                    for shares in (x.of_all, x.of_those)),
        ]
        for x in acceptance
    ]  # fmt: skip


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
        for opinion in opinions(Arm(level.k, level.rate, level.length), best, tuple(gains)):
            yield RuleOfThumb(level.arm, level.concurrency, **vars(opinion))


def rule_rows(judged: Iterable[RuleOfThumb]) -> TextRows:
    """Return a row per rule of thumb and arm: what it says of it, and at which loads it is
    right."""
    grouped: dict[tuple[str, str, str], list[RuleOfThumb]] = {}
    for rule in judged:
        grouped.setdefault((rule.arm, rule.says, rule.rule), []).append(rule)
    return ["arm", "says", "right at", "wrong at", "not measured at", "rule of thumb"], [
        [
            arm, says,
            *(", ".join(str(rule.concurrency) for rule in those if rule.agrees is agrees)
              for agrees in (True, False, None)),
            words,
        ]
        for (arm, says, words), those in sorted(grouped.items(), key=lambda item: item[0][0])
    ]  # fmt: skip


# --- Acceptance over position, K or load, a line per dataset.


Over = Literal["position", "k", "concurrency"]
#: ``of_all``: accepted at a position / drafts; ``of_those``: / accepted at the one before it.
Measure = Literal["rate", "length", "of_all", "of_those"]


@dataclass(frozen=True)
class AcceptanceLine:
    """What was measured on one dataset, over position, K or load in ascending order."""

    dataset: str
    points: tuple[tuple[int, float], ...]


def lines(
    acceptance: Sequence[DraftAcceptance], over: Over, measure: Measure, k: int
) -> tuple[AcceptanceLine, ...]:
    """Return a line for each dataset: means over the loads, or over K's own levels. ``k``: of which K, for a
    line over positions or loads; a line over K has all."""
    values: dict[str, dict[int, list[float]]] = {}
    for level in acceptance:
        if over != "k" and level.k != k:
            continue
        measured = getattr(level, measure)
        at = level.k if over == "k" else level.concurrency
        points: Iterable[tuple[int, float | None]] = (
            enumerate(measured, 1) if over == "position" else [(at, measured)]
        )
        for place, value in points:
            if value is not None:
                values.setdefault(level.dataset or UNKNOWN, {}).setdefault(place, []).append(value)
    return tuple(
        AcceptanceLine(name, tuple((at, fmean(all_at)) for at, all_at in sorted(points.items())))
        for name, points in sorted(values.items())
    )


def headline(acceptance: Sequence[DraftAcceptance], k: int) -> str:
    """Say how many tokens a step yields on each dataset, at one K."""
    lengths = [
        f"{length:.2f} on {line.dataset}"
        for line in lines(acceptance, "k", "length", k)
        for draft_tokens, length in line.points if draft_tokens == k
    ]  # fmt: skip
    if not lengths:
        return f"With K = {k} the tokens of a step are unknown"
    return f"Tokens of a step with K = {k}: {listed(lengths)}"
