"""What lies behind a decision: what drafts achieve, whether the answers are the same, what changed since the last."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analysis.drafts.rules import Arm, Says, opinions
from analysis.evidence.words import EQUIVALENCE
from answers.decide.tables import Rows, arm_taken
from answers.decide.values import Cell, Decision
from answers.decide.words import change, k_by_batch
from answers.wording import UNKNOWN, known, percent
from warehouse import queries
from warehouse.annotations import DecisionSubject, RecordedDecision
from warehouse.filters import Filters
from warehouse.store import Reader

if TYPE_CHECKING:
    import pandas as pd


# --- Whether the arm that is taken answered the same as the baseline, at the operating load alone.


#: Pairs of cells whose requests are read: more say nothing new and take long.
MOST_PAIRS = 6


@dataclass(frozen=True)
class Outputs:
    """How the outputs of ``arm`` and the baseline compare at one load. ``sentences`` say it for a
    person."""

    arm: str
    load: str
    pairs: int
    sentences: tuple[str, ...]


def outputs(reader: Reader, one: Decision) -> Outputs | None:
    """Compare the outputs behind a decision; None where nothing is taken at the operating load."""
    cell = operating_cell(one)
    return None if cell is None else outputs_of(reader, cell)


def outputs_of(reader: Reader, cell: Cell) -> Outputs | None:
    """Compare the outputs of the cells behind a field of the map; None where no pair is known."""
    if not cell.pairs:
        return None
    from analysis.evidence.output_check import check_outputs

    pairs = cell.pairs[:MOST_PAIRS]
    old, new = ([pair[at] for pair in pairs] for at in (0, 1))
    found = check_outputs(
        _requests(reader, old), _requests(reader, new), _greedy(reader, {*old, *new})
    )
    return Outputs(cell.arm, cell.load.text, len(pairs), found.sentences)


def operating_cell(one: Decision) -> Cell | None:
    """Return the field of the map at the operating load whose arm is told there."""
    level = one.operating
    load = level.stands_for or level.load
    there = [cell for cell in one.arms if (cell.load, cell.arm) == (load, level.arm)]
    return there[0] if there else None


def _requests(reader: Reader, cells: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    from analysis.evidence.output_check import COLUMNS

    parts: list[pd.DataFrame] = [
        queries.requests(reader, cell, COLUMNS).to_pandas().assign(pair=place)
        for place, cell in enumerate(cells)
    ]
    return pd.concat(parts)


def _greedy(reader: Reader, ids: set[str]) -> bool | None:
    """Whether every cell ran at temperature 0; None where one does not say."""
    cells = queries.cells(reader, Filters()).to_pandas()
    told = cells.loc[cells["cell_id"].isin(ids), "temperature"]
    return None if told.isna().any() else bool((told == 0).all())


# --- What is decided otherwise than when it was last recorded.


#: A gain that moved by less than this (ratio) is not worth a line.
_MOVED = 0.02


def recorded(found: Iterable[Decision], at: datetime) -> tuple[RecordedDecision, ...]:
    """Return the decisions as they are recorded, at a moment (UTC)."""
    return tuple(_recorded(one, at) for one in found)


def _recorded(one: Decision, at: datetime) -> RecordedDecision:
    operating = one.operating
    return RecordedDecision(
        at, _about(one), one.subject.engine_version, one.answer, one.arm, one.table,
        tuple((level.load.text, level.difference.word) for level in one.levels),
        None if operating is None else operating.load.text,
        None if operating is None else operating.difference.improvement,
    )  # fmt: skip


def _about(one: Decision) -> DecisionSubject:
    known_of = one.subject
    return DecisionSubject(
        known_of.study, known_of.model, known_of.gpu, known_of.engine,
        known_of.tensor_parallel_size, known_of.evidence, one.traffic.name, one.objective,
        known_of.configuration,
    )  # fmt: skip


def changes(found: Iterable[Decision], last: Iterable[RecordedDecision]) -> tuple[str, ...]:
    """Return a sentence for each decision that differs from the last recorded one; none where none
    was recorded."""
    told = []
    known_of = {before.about: before for before in last}
    for one in found:
        before = known_of.get(_about(one))
        parts = [] if before is None else list(_changed(one, before))
        if before is not None and parts:
            told.append(f"{_where(one)}, since {before.at:%Y-%m-%d}: {'; '.join(parts)}.")
    return tuple(told)


def _where(one: Decision) -> str:
    about = one.subject
    told = f"{known(about.model)} on {one.traffic.name}, TP {known(about.tensor_parallel_size)}"
    return told if about.configuration is None else f"{told}, {about.configuration}"


def _changed(one: Decision, before: RecordedDecision) -> Iterator[str]:
    # At another operating load the arm and the answer may differ although nothing is new.
    same = before.operating_load == (one.operating_load.text if one.operating_load else None)
    if same and one.answer != before.answer:
        yield f"{one.answer}, was {before.answer}"
    if same and one.arm != before.arm:
        yield f"{arm_taken(one)}, was {before.arm}"
    if one.table != before.table:
        yield f"K by load is {_table(one.table)}, was {_table(before.table)}"
    words = dict(before.loads)
    for level in one.levels:
        was = words.get(level.load.text)
        if was != level.difference.word:
            yield f"at {level.load.text} {level.difference.word}, was {was or 'not measured'}"
    yield from _moved(one, before)
    if one.subject.engine_version != before.engine_version:
        version = known(before.engine_version)
        yield f"with {one.subject.engine} {known(one.subject.engine_version)}, was {version}"


def _table(entries: tuple[tuple[int, int, int], ...] | None) -> str:
    return "one K for all" if entries is None else k_by_batch(entries)


def _moved(one: Decision, before: RecordedDecision) -> Iterator[str]:
    """Say how the gain at the operating load moved, where the load is the same and the move can be
    seen."""
    if one.operating is None or one.operating.load.text != before.operating_load:
        return
    now, was = one.operating.difference.improvement, before.gain
    if now is not None and was is not None and abs(now - was) > _MOVED:
        yield f"{change(one.operating.difference)} at {before.operating_load}, was {percent(was)}"


# --- What the drafts of each arm achieve, and what the published rules of thumb make of it.


_FACTS = ("study", "model", "gpu", "engine", "engine_version", "evidence")
#: What ``Accepted.about`` holds.
ABOUT = (*_FACTS, "tensor_parallel_size")


@dataclass(frozen=True)
class Accepted:
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
class Rule:
    """What a rule of thumb says of one arm at one load; ``agrees``: whether the decision's expected
    gains say so too, None where they cannot tell."""

    arm: str
    concurrency: int
    rule: str
    says: Says
    why: str
    agrees: bool | None


def accepted(reader: Reader, filters: Filters) -> tuple[Accepted, ...]:
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
        _one(row, *abouts[row["setting"], row["family"], row["k"]], shares.get(_key(row), []))
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


def _one(
    row: dict[str, Any], arm: str, about: tuple[str | int | None, ...],
    shares: list[tuple[float, float]],
) -> Accepted:  # fmt: skip
    return Accepted(
        about, _known(row["dataset"]), row["family"], int(row["k"]), int(row["concurrency"]), arm,
        _known(row["rate"]), _known(row["mean_length"]), tuple(share for share, _ in shares),
        tuple(_known(share) for _, share in shares),
    )  # fmt: skip


def _known(value: Any) -> Any:
    """Return the value; None for what a frame shows as missing."""
    return None if value is None or value != value else value


def _whole(value: Any) -> int | None:
    return None if value is None or value != value else int(value)


def accepted_in(one: Decision, found: Sequence[Accepted]) -> tuple[Accepted, ...]:
    """Return the acceptance of the arms on a decision's datasets."""
    about = (*(getattr(one.subject, name) for name in _FACTS), one.subject.tensor_parallel_size)
    mix: set[str | None] = {name for name, _ in one.traffic.mix}
    names = mix or {one.traffic.dataset}
    return tuple(x for x in found if x.about == about and x.dataset in names)


def rules(one: Decision, found: Sequence[Accepted]) -> Iterator[Rule]:
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
            yield Rule(level.arm, level.concurrency, said.rule, said.says, said.why, said.agrees)


def _gains(one: Decision, level: Accepted) -> dict[int, float]:
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


def acceptance_rows(found: Sequence[Accepted]) -> Rows:
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


def rule_rows(found: Iterator[Rule]) -> Rows:
    """Return a row per rule of thumb and arm: what it says of it, and at which loads it is
    right."""
    grouped: dict[tuple[str, str, str], list[tuple[int, bool | None]]] = {}
    for one in found:
        grouped.setdefault((one.arm, one.says, one.rule), []).append((one.concurrency, one.agrees))
    return ["arm", "says", "right at", "wrong at", "not measured at", "rule of thumb"], [
        [arm, says, *(_loads(at, truth) for truth in (True, False, None)), rule]
        for (arm, says, rule), at in sorted(grouped.items(), key=lambda item: item[0][0])
    ]


def _loads(at: Sequence[tuple[int, bool | None]], truth: bool | None) -> str:
    return ", ".join(str(load) for load, agrees in at if agrees is truth)
