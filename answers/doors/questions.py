"""The one table of questions: of the API, of agents' tools and of the Python client, each with its
words, its answer and its JSON.

The objects are those that the commands print with ``--json``, made by the same functions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from analysis.money.paying import Paying
from analysis.nightly.regressions import budgets
from analysis.published.claims import Claims, judge
from analysis.published.claims_file import read_claims
from answers.compare.answer import compare
from answers.compare.subjects import compared, offered
from answers.compare.values import ArmComparison, CompareQuestion, comparison_json
from answers.cost.answer import costed
from answers.cost.capacity import ServiceCapacity, capacity, capacity_json
from answers.cost.values import Costs, costs_json
from answers.decide.answer import decide, decide_one
from answers.decide.overview import NamedSubject, SubjectsQuestion, subjects
from answers.decide.values import Decisions, decisions_json
from answers.doors import rows
from answers.doors.parameters import (
    ALL,
    CompareWords,
    CostWords,
    DecideWords,
    FilterWords,
    NoWords,
    Page,
    PredictWords,
    SloWords,
    TrendsWords,
    schema_json,
)
from answers.predict.answer import predict
from answers.predict.values import ForecastAnswer, RefusedForecast, forecasts_json
from answers.published.answer import beside
from answers.trend import answer as nights
from warehouse import queries
from warehouse.beside import published_tables
from warehouse.catalogue import line_of
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.json_text import finite
from warehouse.store import Reader

Json = dict[str, Any]
Value = TypeVar("Value")

# --- The answers.


@dataclass(frozen=True)
class AboutSubject(Generic[Value]):
    """An answer, the name of its subject (None: all of them), and the names of all that there are."""

    value: Value
    subject: str | None
    subjects: tuple[str, ...]


def _tried(
    there: Sequence[NamedSubject], subject: str | None
) -> tuple[Sequence[NamedSubject], tuple[str, ...]]:
    """Return the subjects to try in turn, none for all of them, and the names of all. Raises
    UnknownKey."""
    names = tuple(each.name for each in there)
    if subject is None:
        return there, names
    wanted = [each for each in there if each.name == subject and subject != ALL]
    if not wanted and subject != ALL:
        known = "; ".join(names) or "none"
        raise UnknownKey(f"There is no subject {subject!r}; those that there are: {known}.")
    return wanted, names


def _filtered(
    query: Callable[[Reader, Filters], pa.Table], reader: Reader, words: FilterWords
) -> pa.Table:
    return query(reader, words.filters())


def _compare(reader: Reader, words: CompareWords) -> AboutSubject[ArmComparison]:
    """Compare the arms of the subject of that name; of the first that has a pair where none is named."""
    also = tuple(map(line_of, words.metrics))
    question = CompareQuestion(words.filters(), words.allow, words.reference, also)
    tried, names = _tried(offered(reader, question), words.subject)
    for each in tried:
        comparison = compare(reader, replace(question, filters=each.filters))
        mine = compared(comparison, each)
        if mine is not None or words.subject is not None:
            settings = () if mine is None else mine.settings
            return AboutSubject(replace(comparison, settings=settings), each.name, names)
    return AboutSubject(compare(reader, question), None, names)


def _decide(reader: Reader, words: DecideWords) -> AboutSubject[Decisions]:
    """Decide on the subject of that name; on the first that can be decided on where none is named."""
    question = words.question()
    there = subjects(reader, SubjectsQuestion(question.filters, question.allow))
    tried, names = _tried(there, words.subject)
    for each in tried:
        decision = decide_one(reader, question, each)
        mine = decision.overview.decisions if decision.overview else ()
        if mine or words.subject is not None:
            return AboutSubject(Decisions(mine, decision.why_none), each.name, names)
    return AboutSubject(decide(reader, question), None, names)


def _cost(reader: Reader, words: CostWords) -> AboutSubject[Costs]:
    decisions = _decide(reader, words)
    money = costed(reader, decisions.value, words.terms())
    return AboutSubject(money, decisions.subject, decisions.subjects)


def _slo(reader: Reader, words: SloWords) -> ServiceCapacity:
    return capacity(reader, words.filters(), words.slo, Paying(), words.goodput)


def _predict(reader: Reader, words: PredictWords) -> list[ForecastAnswer | RefusedForecast]:
    return list(predict(reader, words.filters(), words.asked(), words.paying()))


def _trends(reader: Reader, words: TrendsWords) -> nights.Trend:
    series = nights.series(reader, words.filters())
    return nights.trend(series, budgets(words.max_regression), nights.accepted(reader.root))


def _claims(reader: Reader, words: FilterWords) -> list[tuple[str, Claims]]:
    """Return each published table, by its name, recomputed."""
    found = []
    for kept in published_tables(reader.root):
        tables = read_claims(kept.text, kept.name)
        judged = judge(tables)
        findings = beside(reader, judged.findings, tables.model, words.filters())
        found.append((kept.name, replace(judged, findings=findings)))
    return found


def _health(reader: Reader, _: NoWords) -> int:
    return reader.generation


# --- The answers as JSON.


def _table_json(name: str, table: pa.Table) -> Json:
    return {name: list(map(rows.nested_json, table.to_pylist()))}


def _claims_json(tables: list[tuple[str, Claims]]) -> Json:
    return {"tables": [{"table": name, **judged.as_json()} for name, judged in tables]}


def _health_json(_: int) -> Json:
    return {"status": "ok"}


@dataclass(frozen=True)
class Asking:
    """One question. ``listed``: the list in its answer that comes in pages, None: it is no list;
    ``field``: what that list is called in the value, empty: the value is the list; ``rows``: that
    list as rows of a table, None: as it is; ``everything``: excluded runs are told too; ``typed``: the
    Python client asks it, in values."""

    name: str
    summary: str
    parameters: type[BaseModel]
    ask: Callable[[Reader, Any], Any]
    value_json: Callable[[Any], Json]
    listed: str | None
    field: str = ""
    rows: Callable[[Json], Iterator[Json]] | None = None
    everything: bool = False
    typed: bool = False

    def as_json(self, answer: Any) -> Json:
        """Return an answer, or a part of one, as JSON, with the subject that it is about."""
        if not isinstance(answer, AboutSubject):
            return self.value_json(answer)
        names = {"subject": answer.subject, "subjects": list(answer.subjects)}
        return self.value_json(answer.value) | names

    def schema(self) -> Json:
        """Return the JSON schema of all its words, those of its page among them."""
        schema = schema_json(self.parameters)
        if self.listed:
            schema["properties"] = schema["properties"] | schema_json(Page)["properties"]
        return schema

    def read(self, words: Mapping[str, Any]) -> tuple[BaseModel, Page]:
        """Return the words of the question and its page. Raises ValidationError."""
        paged = {name: words[name] for name in Page.model_fields if self.listed and name in words}
        own = {name: value for name, value in words.items() if name not in paged}
        return self.parameters.model_validate(own), Page.model_validate(paged)


QUESTIONS: Mapping[str, Asking] = {
    each.name: each
    for each in (
        Asking("runs", "What the warehouse holds, a row per run; excluded ones with their reason.",
               FilterWords, partial(_filtered, queries.runs), partial(_table_json, "runs"), "runs", everything=True, typed=True),
        Asking("cells", "What was measured, a row per cell: facts, provenance, counts.",
               FilterWords, partial(_filtered, queries.cells), partial(_table_json, "cells"), "cells"),
        Asking("compare", "Matched pairs of arms, load by load, with intervals and words.",
               CompareWords, _compare, comparison_json, "settings", "settings",
               rows.compared, typed=True),
        Asking("decide", "Whether to serve with speculation: arm, K, loads, what it stands on.",
               DecideWords, _decide, decisions_json, "decisions", "decisions", rows.decided,
               typed=True),
        Asking("cost", "What tokens cost, and what speculation saves.",
               CostWords, _cost, costs_json, "costs", "rows", typed=True),
        Asking("slo", "The largest load of each arm that meets a service level.",
               SloWords, _slo, capacity_json, "arms", "arms"),
        Asking("predict", "What a K, load or acceptance that was not measured would give.",
               PredictWords, _predict, forecasts_json, "forecasts"),
        Asking("trends", "Whether anything became worse over the nights, series by series.",
               TrendsWords, _trends, nights.trend_json, "series", "lines"),
        Asking("claims", "Published tables, recomputed: what does not follow from its own rows.",
               FilterWords, _claims, _claims_json, "tables"),
        Asking("health", "That the server answers, and from which generation.",
               NoWords, _health, _health_json, None),
    )
}  # fmt: skip


def answer_json(asking: Asking, answer: Any, page: Page) -> Json:
    """Return an answer as plain JSON values, with the part of its list that the page is: ``page``
    tells which, and how long the list is."""
    value = answer.value if isinstance(answer, AboutSubject) else answer
    whole: Any = ()
    if asking.listed:
        whole = getattr(value, asking.field) if asking.field else value
        part = whole[page.offset : page.offset + page.limit]
        value = replace(value, **{asking.field: part}) if asking.field else part
    shown = replace(answer, value=value) if isinstance(answer, AboutSubject) else value
    told: Json = {"schema_version": 1} | finite(asking.as_json(shown))
    return told | ({"page": {"total": len(whole), **vars(page)}} if asking.listed else {})
