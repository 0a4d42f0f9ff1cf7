"""A reader's own reports beside each other and beside the warehouse: compared and decided alike."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.fields import loads_of
from analysis.matching.pairing import match
from analysis.matching.reference import BASELINE
from answers.compare.answer import compare_on
from answers.compare.values import Comparison, Line, Question
from answers.decide.answer import decide_on
from answers.decide.values import Decisions
from answers.decide.values import Question as DecideQuestion
from answers.ground import Rows, ground_of, rows_of
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

_TEXTS = ("path", "model", "gpu", "dataset", "spec_method", "arm_label", "draft_model")
_NUMBERS = ("tensor_parallel_size", "num_speculative_tokens", "repeat", "completed", "errored")


@dataclass(frozen=True)
class Read:
    """What was read of one cell. ``file``: where it lay; ``method``: "none" for a baseline."""

    file: str
    model: str | None
    gpu: str | None
    dataset: str | None
    method: str | None
    arm: str | None
    tensor_parallel_size: int | None
    num_speculative_tokens: int | None
    repeat: int | None
    completed: int | None
    errored: int | None
    load: Load | None
    draft: str | None


@dataclass(frozen=True)
class Held:
    """The results read from uploaded reports: nothing but this module looks into their frames.
    ``answers``: their requests, as the query of that name returns them."""

    rows: Rows
    answers: pd.DataFrame

    @property
    def read(self) -> tuple[Read, ...]:
        """What was read of every cell."""
        cells = self.rows.cells
        known = cells[list(_TEXTS + _NUMBERS)].astype(object)
        told = records(known.where(known.notna(), None))
        return tuple(_read_of(row, load) for row, load in zip(told, loads_of(cells), strict=True))


def _read_of(row: dict[str, Any], load: Load | None) -> Read:
    size, k, repeat, completed, errored = (
        None if row[name] is None else int(row[name]) for name in _NUMBERS
    )
    path, model, gpu, dataset, method, arm, draft = (row[name] for name in _TEXTS)
    return Read(
        path, model, gpu, dataset, method, arm, size, k, repeat, completed, errored, load, draft
    )  # fmt: skip


@dataclass(frozen=True)
class Doubted:
    """A flag of an uploaded cell."""

    name: str
    severity: str
    sentence: str


@dataclass(frozen=True)
class Told:
    """What the uploaded reports say: their comparison, decisions and doubts."""

    flags: tuple[Doubted, ...]
    comparison: Comparison
    decisions: Decisions


def hold(reader: Reader, also: Collection[Line] = ()) -> Held:
    """Read everything that a warehouse of dropped reports holds, so that it may be removed."""
    cells = queries.cells(reader, Filters()).to_pandas()
    answers = queries.answers(reader, list(cells["cell_id"])).to_pandas()
    return Held(rows_of(reader, cells, Filters(), also), answers)


def told(mine: Held, beside: Reader | None, question: Question) -> Told:
    """Compare the reports with each other, and with their partners in the warehouse where one is
    given; ``question.filters`` then choose among its cells."""
    both = mine if beside is None else _with_partners(mine, beside, question)
    shown = frozenset(both.rows.cells["cell_id"])
    known = ground_of(both.rows, shown, question.allow, question.reference)
    if question.reference == BASELINE:
        known = known.with_answers(both.answers)
    return Told(
        tuple(
            Doubted(row["name"], row["severity"], row["sentence"])
            for row in records(mine.rows.flags)
        ),
        compare_on(known, replace(question, filters=Filters())),
        decide_on(known, DecideQuestion(allow=question.allow)),
    )


def _with_partners(held: Held, beside: Reader, question: Question) -> Held:
    mine, filters = held.rows, replace(question.filters, arm=())
    cells = queries.cells(beside, filters).to_pandas()
    ids = _partners(mine.cells, cells, question.allow)
    chosen = cells[cells["cell_id"].isin(ids)]
    if chosen.empty:
        return held
    theirs = rows_of(beside, chosen, filters, question.also)
    measured = theirs.measurements[theirs.measurements["cell_id"].isin(ids)]
    acceptance = theirs.acceptance[theirs.acceptance["cell_id"].isin(ids)]
    rows = Rows(
        _joined(mine.cells, chosen), _joined(mine.measurements, measured),
        _joined(mine.flags, theirs.flags), _joined(mine.acceptance, acceptance),
    )  # fmt: skip
    return Held(rows, _joined(held.answers, queries.answers(beside, list(ids)).to_pandas()))


def _partners(mine: pd.DataFrame, others: pd.DataFrame, allow: Collection[str]) -> set[str]:
    """Return the cells of the warehouse (``others``) that make a pair with an uploaded one."""
    own = set(mine["cell_id"])
    likely = others[others["model"].isin(mine["model"]) & ~others["cell_id"].isin(own)]
    if likely.empty or mine.empty:
        return set()
    pairs = match(_joined(mine, likely), allow).pairs
    met = pairs[pairs["baseline_id"].isin(own) | pairs["speculative_id"].isin(own)]
    return {*met["baseline_id"], *met["speculative_id"]} - own


def _joined(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Put two frames below each other, leaving out one without rows."""
    filled = [part for part in (one, other) if not part.empty]
    return pd.concat(filled, ignore_index=True) if filled else one
