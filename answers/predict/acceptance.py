"""How good a draft is: acceptance by position, over K and over the load, a line per dataset."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from analysis.drafts.rules import Arm, Says, opinions
from analysis.evidence.words import EQUIVALENCE
from answers.decide.tables import TextRows
from answers.decide.values import Decision
from answers.wording import UNKNOWN, listed
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader

if TYPE_CHECKING:
    pass


# --- What the drafts of each arm achieve, over position, K and load, and what rules of thumb make of it.


# --- What the drafts of each arm achieve, and what the published rules of thumb make of it.


_FACTS = ("study", "model", "gpu", "engine", "engine_version", "evidence")
#: What ``DraftAcceptance.about`` holds.
ABOUT = (*_FACTS, "tensor_parallel_size")


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

    @property
    def evidence(self) -> str | None:
        """Where the arm's numbers come from; None: unknown."""
        told = self.about[_FACTS.index("evidence")]
        return None if told is None else str(told)


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


def accepted(reader: Reader, filters: Filters) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of every arm that the filters keep."""
    from analysis.drafts.acceptance_tables import acceptance_by_level, acceptance_by_position
    from analysis.frames import records

    cells = queries.cells(reader, filters).to_pandas()
    counts = queries.acceptance(reader, filters).to_pandas()
    if cells.empty or counts.empty:
        return ()
    levels = acceptance_by_level(cells, counts)
    positions = queries.acceptance_by_position(reader, filters).to_pandas()
    by_position = acceptance_by_position(cells, counts, positions)
    abouts = _abouts(cells)
    shares: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in records(by_position):
        shares.setdefault(_key(row), []).append((row["rate"], row["conditional"]))
    return tuple(
        _accepted(row, *abouts[row["setting"], row["family"], row["k"]], shares.get(_key(row), []))
        for row in records(levels)
    )


def _abouts(cells: Any) -> dict[tuple[int, str, int], tuple[str, tuple[str | int | None, ...]]]:
    """Map setting, family and K to the arm's name and to what its cells are about."""
    from analysis.frames import records
    from analysis.matching.arms import place_arms

    placed = place_arms(cells).reset_index().drop_duplicates(["setting", "family", "k"])
    once = placed.merge(cells, on="cell_id", suffixes=("", "_cell"))
    return {
        (row["setting"], row["family"], row["k"]): (
            str(row["arm_label"]),
            (*(_known(row[name]) for name in _FACTS), _whole(row["tensor_parallel_size"])),
        )
        for row in records(once)
    }


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["setting"], row["family"], row["k"], row["concurrency"]


def _accepted(
    row: dict[str, Any], arm: str, about: tuple[str | int | None, ...],
    shares: list[tuple[float, float]],
) -> DraftAcceptance:  # fmt: skip
    return DraftAcceptance(
        about, _known(row["dataset"]), row["family"], int(row["k"]), int(row["concurrency"]), arm,
        _known(row["rate"]), _known(row["mean_length"]), tuple(share for share, _ in shares),
        tuple(_known(share) for _, share in shares),
    )  # fmt: skip


def _known(value: Any) -> Any:
    """Return the value; None for what a frame shows as missing."""
    return None if value is None or value != value else value


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)


def accepted_in(one: Decision, found: Sequence[DraftAcceptance]) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of the arms on a decision's datasets."""
    about = (*(getattr(one.subject, name) for name in _FACTS), one.subject.tensor_parallel_size)
    mix: set[str | None] = {name for name, _ in one.traffic.mix}
    names = mix or {one.traffic.dataset}
    return tuple(x for x in found if x.about == about and x.dataset in names)


def rules(one: Decision, found: Sequence[DraftAcceptance]) -> Iterator[RuleOfThumb]:
    """Apply every rule to every arm and load of a dataset, and compare it with what is expected
    there.

    The right K at a load are those within the margin of equivalence of the best expected one of the
    same method, no drafts (0) among them.
    """
    for level in accepted_in(one, found):
        gains = _gains(one, level)
        if level.rate is None or level.length is None or level.k not in gains:
            continue
        best = [k for k, gain in gains.items() if gain >= max(gains.values()) - EQUIVALENCE]
        for said in opinions(Arm(level.k, level.rate, level.length), best, tuple(gains)):
            yield RuleOfThumb(
                level.arm, level.concurrency, said.rule, said.says, said.why, said.agrees
            )


def _gains(one: Decision, level: DraftAcceptance) -> dict[int, float]:
    """Return K -> expected improvement at a load, for one method; 0 for no drafts."""
    told = {
        cell.num_speculative_tokens: cell.difference.improvement
        for cell in one.arms
        if cell.method == level.family
        and cell.load.kind == "concurrency"
        and cell.load.value == level.concurrency
    }
    known = {k: gain for k, gain in told.items() if k is not None and gain is not None}
    return {0: 0.0, **known} if known else {}


def acceptance_rows(found: Sequence[DraftAcceptance]) -> TextRows:
    """Return a row per dataset, arm and load."""
    header = ["dataset", "arm", "load", "rate", "length", "by position", "of those"]
    return header, [
        [
            x.dataset or UNKNOWN, x.arm, str(x.concurrency), _number(x.rate, 3),
            _number(x.length, 2), _shares(x.of_all), _shares(x.of_those),
        ]
        for x in found
    ]  # fmt: skip


def _number(value: float | None, decimals: int) -> str:
    return UNKNOWN if value is None else f"{value:.{decimals}f}"


def _shares(values: Sequence[float | None]) -> str:
    return " ".join(_number(value, 2) for value in values) or UNKNOWN


def rule_rows(found: Iterator[RuleOfThumb]) -> TextRows:
    """Return a row per rule of thumb and arm: what it says of it, and at which loads it is
    right."""
    grouped: dict[tuple[str, str, str], list[tuple[int, bool | None]]] = {}
    for one in found:
        grouped.setdefault((one.arm, one.says, one.rule), []).append((one.concurrency, one.agrees))
    return ["arm", "says", "right at", "wrong at", "not measured at", "rule of thumb"], [
        [arm, says, *(_loads_where(at, truth) for truth in (True, False, None)), rule]
        for (arm, says, rule), at in sorted(grouped.items(), key=lambda item: item[0][0])
    ]


def _loads_where(at: Sequence[tuple[int, bool | None]], truth: bool | None) -> str:
    return ", ".join(str(load) for load, agrees in at if agrees is truth)


# ---


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
    found: Sequence[DraftAcceptance], asked: AcceptanceQuestion
) -> tuple[AcceptanceLine, ...]:
    """Return a line for each dataset: means over the loads, or over K's own levels."""
    names = sorted({one.dataset or "unknown" for one in found})
    mine = [x for x in found if asked.over == "k" or x.k == asked.k]
    drawn = (AcceptanceLine(name, _points([x for x in mine if (x.dataset or "unknown") == name], asked))
             for name in names)  # fmt: skip
    return tuple(line for line in drawn if line.points)


def _points(
    found: Sequence[DraftAcceptance], asked: AcceptanceQuestion
) -> tuple[tuple[int, float], ...]:
    groups: dict[int, list[float]] = {}
    for one in found:
        for at, value in _values(one, asked):
            if value is not None:
                groups.setdefault(at, []).append(value)
    return tuple((at, fmean(values)) for at, values in sorted(groups.items()))


def _values(one: DraftAcceptance, asked: AcceptanceQuestion) -> Sequence[tuple[int, float | None]]:
    if asked.measure == "of_all":
        return list(enumerate(one.of_all, 1))
    if asked.measure == "of_those":
        return list(enumerate(one.of_those, 1))
    value = one.rate if asked.measure == "rate" else one.length
    return [(one.k if asked.over == "k" else one.concurrency, value)]


def headline(found: Sequence[DraftAcceptance], k: int) -> str:
    """Say how many tokens a step yields on each dataset, at one K."""
    told = lines(found, AcceptanceQuestion("k", "length", k))
    lengths = [(line.dataset, dict(line.points).get(k)) for line in told]
    known = [f"{length:.2f} on {name}" for name, length in lengths if length is not None]
    if not known:
        return f"With K = {k} the tokens of a step are unknown"
    return f"With K = {k} a step yields {listed(known)} tokens"
