"""The questions of the API and of the MCP server: each a name, its words, its answer and its JSON.

The objects are those that the commands print with ``--json``, made by the same functions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from analysis.money.paying import Paying
from analysis.nightly.regressions import budgets
from analysis.published.claims import Claims, judge
from analysis.published.claims_file import read_claims
from answers.compare import values as compare_contract
from answers.compare.values import Comparison
from answers.compare.values import Question as ComparisonQuestion
from answers.cost import words as cost_contract
from answers.cost.answer import cost, with_energy
from answers.cost.capacity import Capacity, capacity
from answers.cost.values import Costs
from answers.decide import values as decide_contract
from answers.decide.values import Decisions
from answers.doors import about, rows
from answers.doors.about import About
from answers.doors.parameters import (
    Bounded,
    Compared,
    Costed,
    Decided,
    Filtered,
    Nothing,
    Page,
    Predicted,
    Watched,
    schema_json,
)
from answers.predict import values as predict_contract
from answers.predict.answer import predict
from answers.predict.values import Answer, Refused
from answers.published.answer import beside
from answers.trend import plain, read
from answers.trend.answer import Trend, trend
from warehouse import queries
from warehouse.beside import PublishedTable, published_tables
from warehouse.catalogue import line_of
from warehouse.json_text import finite
from warehouse.store import Reader

Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A published table by its name, recomputed."""

    name: str
    judged: Claims


def _runs(reader: Reader, asked: Filtered) -> pa.Table:
    return queries.runs(reader, asked.filters())


def _cells(reader: Reader, asked: Filtered) -> pa.Table:
    return queries.cells(reader, asked.filters())


def _compare(reader: Reader, asked: Compared) -> About[Comparison]:
    also = tuple(map(line_of, asked.metrics))
    question = ComparisonQuestion(asked.filters(), asked.allow, asked.reference, also)
    return about.compared(reader, question, asked.subject)


def _decide(reader: Reader, asked: Decided) -> About[Decisions]:
    return about.decided(reader, asked.question(), asked.subject)


def _cost(reader: Reader, asked: Costed) -> About[Costs]:
    found = about.decided(reader, asked.question(), asked.subject)
    money = with_energy(reader, cost(found.value, asked.terms()))
    return About(money, found.subject, found.subjects)


def _slo(reader: Reader, asked: Bounded) -> Capacity:
    return capacity(reader, asked.filters(), asked.slo, Paying(), asked.goodput)


def _predict(reader: Reader, asked: Predicted) -> list[Answer | Refused]:
    return list(predict(reader, asked.filters(), asked.asked(), asked.paying()))


def _trends(reader: Reader, asked: Watched) -> Trend:
    series = read.series(reader, asked.filters())
    return trend(series, budgets(asked.max_regression), read.accepted(reader.root))


def _claims(reader: Reader, asked: Filtered) -> list[Table]:
    return [_table(reader, asked, kept) for kept in published_tables(reader.root)]


def _table(reader: Reader, asked: Filtered, kept: PublishedTable) -> Table:
    tables = read_claims(kept.text, kept.name)
    judged = judge(tables)
    found = beside(reader, judged.findings, tables.model, asked.filters())
    return Table(kept.name, replace(judged, findings=found))


def _health(reader: Reader, _: Nothing) -> int:
    return reader.generation


def _rows_json(name: str) -> Callable[[pa.Table], Json]:
    return lambda found: {name: list(map(rows.nested_json, found.to_pylist()))}


def _about_json(as_json: Callable[[Any], Json]) -> Callable[[About[Any]], Json]:
    return lambda found: as_json(found.value) | {
        "subject": found.subject, "subjects": list(found.subjects),
    }  # fmt: skip


@dataclass(frozen=True)
class Asking:
    """One question. ``listed``: the list in its answer that comes in pages, None: it is no list;
    ``field``: what that list is called in the value, empty: the value is the list; ``rows``: that
    list as rows of a table; ``everything``: excluded runs are told too; ``typed``: the Python client
    asks it, in values."""

    name: str
    summary: str
    parameters: type[BaseModel]
    ask: Callable[[Reader, Any], Any]
    as_json: Callable[[Any], Json]
    listed: str | None
    field: str = ""
    rows: Callable[[Json], Iterator[Json]] = rows.nothing
    everything: bool = False
    typed: bool = False

    def length(self, found: Any) -> int:
        """Return how long the list is."""
        return len(self._list(found))

    def cut(self, found: Any, start: int, end: int) -> Any:
        """Return the answer with a part of its list."""
        if isinstance(found, About):
            return replace(found, value=self.cut(found.value, start, end))
        part = self._list(found)[start:end]
        return replace(found, **{self.field: part}) if self.field else part

    def _list(self, found: Any) -> Any:
        value = found.value if isinstance(found, About) else found
        return getattr(value, self.field) if self.field else value

    def schema(self) -> Json:
        """Return the JSON schema of all its words, those of its page among them."""
        schema = schema_json(self.parameters)
        if self.listed:
            schema["properties"] = schema["properties"] | schema_json(Page)["properties"]
        return schema

    def read(self, said: Mapping[str, Any]) -> tuple[BaseModel, Page]:
        """Return the words of the question and its page. Raises ValidationError."""
        paged = {name: said[name] for name in Page.model_fields if self.listed and name in said}
        own = {name: value for name, value in said.items() if name not in paged}
        return self.parameters.model_validate(own), Page.model_validate(paged)


def _claims_json(found: list[Table]) -> Json:
    return {"tables": [{"table": one.name, **one.judged.as_json()} for one in found]}


QUESTIONS: Mapping[str, Asking] = {
    one.name: one
    for one in (
        Asking("runs", "What the warehouse holds, a row per run; excluded ones with their reason.",
               Filtered, _runs, _rows_json("runs"), "runs", "", rows.of("runs"), everything=True,
               typed=True),
        Asking("cells", "What was measured, a row per cell: facts, provenance, counts.",
               Filtered, _cells, _rows_json("cells"), "cells", "", rows.of("cells")),
        Asking("compare", "Matched pairs of arms, load by load, with intervals and words.",
               Compared, _compare, _about_json(compare_contract.as_json), "settings", "settings",
               rows.compared, typed=True),
        Asking("decide", "Whether to serve with speculation: arm, K, loads, what it stands on.",
               Decided, _decide, _about_json(decide_contract.as_json), "decisions", "decisions",
               rows.decided, typed=True),
        Asking("cost", "What tokens cost, and what speculation saves.",
               Costed, _cost, _about_json(cost_contract.as_json), "costs", "rows",
               rows.of("costs"), typed=True),
        Asking("slo", "The largest load of each arm that meets a service level.",
               Bounded, _slo, cost_contract.capacity_json, "arms", "arms", rows.of("arms")),
        Asking("predict", "What a K, load or acceptance that was not measured would give.",
               Predicted, _predict, predict_contract.as_json, "forecasts", "",
               rows.of("forecasts")),
        Asking("trends", "Whether anything became worse over the nights, series by series.",
               Watched, _trends, plain.as_json, "series", "lines", rows.of("series")),
        Asking("claims", "Published tables, recomputed: what does not follow from its own rows.",
               Filtered, _claims, _claims_json, "tables", "", rows.of("tables")),
        Asking("health", "That the server answers, and from which generation.",
               Nothing, _health, lambda _: {"status": "ok"}, None),
    )
}  # fmt: skip


def answer_json(asking: Asking, found: Any, page: Page) -> Json:
    """Return an answer as plain JSON values, with the part of its list that the page is: ``page``
    tells which, and how long the list is."""
    told: Json = {"schema_version": 1}
    if asking.listed is None:
        told |= finite(asking.as_json(found))
        return told
    part = asking.cut(found, page.offset, page.offset + page.limit)
    told |= finite(asking.as_json(part))
    return told | {"page": {"total": asking.length(found), **vars(page)}}
