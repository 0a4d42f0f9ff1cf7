"""``draftboard.open``: the answers as Python values, for notebooks. docs/python.md shows it at work."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from answers.compare import values as compare_contract
from answers.compare.answer import compare
from answers.compare.values import Comparison
from answers.compare.values import Question as ComparisonQuestion
from answers.cost import words as cost_contract
from answers.cost.answer import cost, with_energy
from answers.cost.values import Costs, Terms
from answers.decide import values as decide_contract
from answers.decide.answer import decide
from answers.decide.values import Decisions, Objective, Question
from answers.doors import rows
from warehouse import queries
from warehouse.catalogue import line_of
from warehouse.filters import FILTER_FIELDS, Filters
from warehouse.json_text import json_text
from warehouse.store import Reader
from warehouse.store_current import not_fresh

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")
Row = dict[str, Any]
Names = str | Sequence[str]


class Chosen(TypedDict, total=False):
    """The filters that say what is looked at; one value or several of each. Days: ``2026-11-21``,
    UTC."""

    model: Names
    gpu: Names
    engine_version: Names
    dataset: Names
    tensor_parallel_size: Names
    arm: Names
    study: Names
    since: str
    until: str


class Compared(Chosen, total=False):
    """The options of ``draftboard compare``, by their names. ``allow``: fields in which pairs may
    differ; ``metrics``: lines beside the study's table, such as ``ttft:p99``; ``reference``: the
    arm that the others are compared with."""

    allow: Names
    metrics: Names
    reference: str


class Decided(Chosen, total=False):
    """The options of ``draftboard verdict``, by their names; ``mix``: dataset -> share of the
    traffic."""

    load: float | str
    slo: str
    objective: Objective
    mix: Mapping[str, float]
    allow: Names
    nowhere_worse: float


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """One answer. ``value`` is what the dashboard and the commands show, as typed, frozen values.
    ``not_fresh``: a sentence where a bucket is out of reach and a copy answered; None where it did
    not."""

    value: Value
    _json: Callable[[Value], Any]
    _rows: Callable[[Any], Iterator[Row]]
    not_fresh: str | None = None

    def __post_init__(self) -> None:
        if self.not_fresh is not None:
            warnings.warn(self.not_fresh, stacklevel=4)

    def to_json(self) -> Any:
        """Return what the command prints with ``--json``, as plain values. Unknown is None."""
        return json.loads(json_text(self._json(self.value)))

    def to_frame(self) -> "pd.DataFrame":
        """One row per line of the answer, with the names of ``to_json``; nested names have a dot."""
        import pandas as pd

        return pd.json_normalize(list(self._rows(self.to_json())))


@dataclass(frozen=True)
class Warehouse:
    """A warehouse at its newest generation: each question opens it anew."""

    root: Path

    def runs(self, **chosen: Unpack[Chosen]) -> Answer[list[Row]]:
        """What the warehouse holds; a row per run, excluded ones with their reason."""
        with Reader(self.root, everything=True) as reader:
            found = queries.runs(reader, _filters(chosen)).to_pylist()
        return Answer(
            [rows.nested_json(row) for row in found],
            lambda value: value,
            iter,
            not_fresh(self.root),
        )

    def compare(self, **asked: Unpack[Compared]) -> Answer[Comparison]:
        """How arms compare, load by load. A frame has a row per setting, arm, load and metric."""
        question = ComparisonQuestion(
            _filters(asked), _names(asked.get("allow", ())),
            also=tuple(line_of(text) for text in _names(asked.get("metrics", ()))),
        )  # fmt: skip
        if "reference" in asked:
            question = replace(question, reference=asked["reference"])
        with Reader(self.root) as reader:
            found = compare(reader, question)
        return Answer(found, compare_contract.as_json, rows.compared, not_fresh(self.root))

    def decide(self, **asked: Unpack[Decided]) -> Answer[Decisions]:
        """Whether to serve with speculation, with which arm. A frame has a row per decision and load."""
        with Reader(self.root) as reader:
            found = decide(reader, _question(asked))
        return Answer(found, decide_contract.as_json, rows.decided, not_fresh(self.root))

    def cost(self, terms: Terms | None = None, **asked: Unpack[Decided]) -> Answer[Costs]:
        """What tokens cost and what speculation saves, on ``terms``. A frame has a row per decision."""
        with Reader(self.root) as reader:
            found = with_energy(reader, cost(decide(reader, _question(asked)), terms or Terms()))
        return Answer(found, cost_contract.as_json, rows.of("costs"), not_fresh(self.root))


def _question(asked: Decided) -> Question:
    plain = ("load", "slo", "objective", "nowhere_worse")
    said: dict[str, Any] = {name: asked[name] for name in plain if name in asked}  # type: ignore[literal-required]
    return Question(
        filters=_filters(asked), mix=tuple(asked.get("mix", {}).items()),
        allow=_names(asked.get("allow", ())), **said,
    )  # fmt: skip


def _filters(chosen: Chosen) -> Filters:
    said: dict[str, Any] = {
        name: value for name, value in chosen.items() if name in Chosen.__annotations__
    }
    names = {name: _names(said[name]) for name in FILTER_FIELDS if name in said}
    return Filters(**said | names)


def _names(said: Names) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(map(str, said))
