"""``draftboard.open``: the answers of a warehouse, or of a server that has one, as Python values (docs/python.md)."""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import unquote, urlsplit

import httpx

from analysis.money.paying import PRICES
from answers.compare.answer import compare
from answers.compare.values import ArmComparison, CompareQuestion, comparison_json
from answers.cost.answer import costed
from answers.cost.values import Costs, Terms, costs_json
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion, Decisions, Objective, decisions_json
from answers.doors import rows
from answers.doors.parameters import ALL
from answers.doors.rows import MEDIA, NOT_FRESH, decoded
from warehouse import queries
from warehouse.catalogue import line_of
from warehouse.errors import InvalidInput
from warehouse.filters import FILTER_FIELDS, Filters
from warehouse.json_text import json_text
from warehouse.storage.current import not_fresh
from warehouse.store import Reader

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")
Row = dict[str, Any]
Names = str | Sequence[str]
#: Where the token is looked for that nobody gave.
TOKEN = "DRAFTBOARD_TOKEN"
_LOCAL = ("localhost", "127.0.0.1", "::1")
#: A decision on a large warehouse takes so long, in seconds.
_PATIENCE_S = 120.0


class ChosenFilters(TypedDict, total=False):
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


class CompareOptions(ChosenFilters, total=False):
    """The options of ``draftboard compare``, by their names. ``allow``: fields in which pairs may
    differ; ``metrics``: lines beside the study's table, such as ``ttft:p99``; ``reference``: the
    arm that the others are compared with."""

    allow: Names
    metrics: Names
    reference: str


class DecideOptions(ChosenFilters, total=False):
    """The options of ``draftboard verdict``, by their names; ``mix``: dataset -> share of the
    traffic."""

    load: float | str
    slo: str
    objective: Objective
    mix: Mapping[str, float]
    allow: Names
    nowhere_worse: float


@dataclass(frozen=True)
class NotebookAnswer(Generic[Value]):
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

    def runs(self, **chosen: Unpack[ChosenFilters]) -> NotebookAnswer[list[Row]]:
        """What the warehouse holds; a row per run, excluded ones with their reason."""
        with Reader(self.root, everything=True) as reader:
            found = queries.runs(reader, _filters(chosen)).to_pylist()
        return NotebookAnswer(
            [rows.nested_json(row) for row in found],
            lambda value: value,
            iter,
            not_fresh(self.root),
        )

    def compare(self, **asked: Unpack[CompareOptions]) -> NotebookAnswer[ArmComparison]:
        """How arms compare, load by load. A frame has a row per setting, arm, load and metric."""
        question = CompareQuestion(
            _filters(asked), _names(asked.get("allow", ())),
            also=tuple(line_of(text) for text in _names(asked.get("metrics", ()))),
        )  # fmt: skip
        if "reference" in asked:
            question = replace(question, reference=asked["reference"])
        with Reader(self.root) as reader:
            found = compare(reader, question)
        return NotebookAnswer(found, comparison_json, rows.compared, not_fresh(self.root))

    def decide(self, **asked: Unpack[DecideOptions]) -> NotebookAnswer[Decisions]:
        """Whether to serve with speculation, with which arm. A frame has a row per decision and load."""
        with Reader(self.root) as reader:
            found = decide(reader, _question(asked))
        return NotebookAnswer(found, decisions_json, rows.decided, not_fresh(self.root))

    def cost(
        self, terms: Terms | None = None, **asked: Unpack[DecideOptions]
    ) -> NotebookAnswer[Costs]:
        """What tokens cost and what speculation saves, on ``terms``. A frame has a row per decision."""
        with Reader(self.root) as reader:
            found = costed(reader, decide(reader, _question(asked)), terms or Terms())
        return NotebookAnswer(found, costs_json, rows.of("costs"), not_fresh(self.root))


def _question(asked: DecideOptions) -> DecideQuestion:
    plain = ("load", "slo", "objective", "nowhere_worse")
    said: dict[str, Any] = {name: asked[name] for name in plain if name in asked}  # type: ignore[literal-required]
    return DecideQuestion(
        filters=_filters(asked), mix=tuple(asked.get("mix", {}).items()),
        allow=_names(asked.get("allow", ())), **said,
    )  # fmt: skip


def _filters(chosen: ChosenFilters) -> Filters:
    said: dict[str, Any] = {
        name: value for name, value in chosen.items() if name in ChosenFilters.__annotations__
    }
    names = {name: _names(said[name]) for name in FILTER_FIELDS if name in said}
    return Filters(**said | names)


def _names(said: Names) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(map(str, said))


# --- The answers of a warehouse that a server has.


@dataclass(frozen=True)
class RemoteWarehouse:
    """A warehouse behind an address: the questions of ``Warehouse``, and the same answers. ``token``: as ``draftboard token`` makes them; None where nobody logs in."""

    address: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        token = self.token or os.environ.get(TOKEN) or None
        object.__setattr__(self, "token", token)
        parts = urlsplit(self.address)
        if token and parts.scheme != "https" and parts.hostname not in _LOCAL:
            raise InvalidInput(
                f"{self.address} is not https, so anybody on the way could read the token; write "
                "https://, or leave the token out."
            )

    def runs(self, **chosen: Unpack[ChosenFilters]) -> NotebookAnswer[list[Row]]:
        """What the warehouse holds; a row per run, excluded ones with their reason."""
        found, stale = self._answer("runs", chosen, list[Row])
        return NotebookAnswer(found, lambda value: value, iter, stale)

    def compare(self, **asked: Unpack[CompareOptions]) -> NotebookAnswer[ArmComparison]:
        """How arms compare, load by load. A frame has a row per setting, arm, load and metric."""
        found, stale = self._answer("compare", {**asked, "subject": ALL}, ArmComparison)
        return NotebookAnswer(found, comparison_json, rows.compared, stale)

    def decide(self, **asked: Unpack[DecideOptions]) -> NotebookAnswer[Decisions]:
        """Whether to serve with speculation, with which arm. A frame has a row per decision and load."""
        found, stale = self._answer("decide", {**asked, "subject": ALL}, Decisions)
        return NotebookAnswer(found, decisions_json, rows.decided, stale)

    def cost(
        self, terms: Terms | None = None, **asked: Unpack[DecideOptions]
    ) -> NotebookAnswer[Costs]:
        """What tokens cost and what speculation saves, on ``terms``. A frame has a row per decision."""
        words = {**asked, "subject": ALL, **_terms(terms or Terms())}
        found, stale = self._answer("cost", words, Costs)
        return NotebookAnswer(found, costs_json, rows.of("costs"), stale)

    def _answer(self, name: str, words: Any, kind: type[Value]) -> tuple[Value, str | None]:
        """Ask one question; return the answer, and a sentence where a copy of a bucket gave it.

        Raises InvalidInput, with the server's own sentence where it has one.
        """
        headers: dict[str, str] = {"Accept": MEDIA}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            told: list[tuple[str, str | int | float | bool | None]] = []
            for word, value in words.items():
                if word == "mix":
                    value = ",".join(f"{dataset}={share}" for dataset, share in value.items())
                several = value if isinstance(value, (list, tuple)) else (value,)
                told += [(word, str(one)) for one in several if one is not None]
            answer = httpx.get(
                f"{self.address.rstrip('/')}/api/v1/{name}", params=httpx.QueryParams(told), headers=headers,
                timeout=_PATIENCE_S,
            )  # fmt: skip
        except httpx.TransportError as error:
            raise InvalidInput(f"{self.address} does not answer ({error}).") from None
        media = answer.headers.get("Content-Type", "")
        if answer.status_code != httpx.codes.OK or MEDIA not in media:
            # The server's own sentence where it has one.
            why = f"status {answer.status_code}; is a Draftboard there?"
            if media == "application/problem+json":
                why = str(answer.json().get("detail"))
            raise InvalidInput(f"{self.address} does not answer: {why}")
        stale = answer.headers.get(NOT_FRESH)
        return decoded(answer.content, kind), stale and unquote(stale)


def _terms(terms: Terms) -> dict[str, Any]:
    """Return the terms as words. Raises InvalidInput for prices that the server does not know."""
    paying, demand = terms.paying, terms.demand
    if paying.prices != PRICES:
        raise InvalidInput("A price list of your own stays here; give usd_per_hour instead.")
    return {
        "usd_per_hour": paying.usd_per_hour, "gpus_per_instance": paying.gpus_per_instance,
        "gpus_used": paying.gpus_used, "utilisation": paying.utilisation, "price": paying.price,
        "tokens_per_day": demand and demand.tokens_per_day,
        "peak_to_mean": demand and demand.peak_to_mean,
        "whole_instances": terms.whole_instances, "investment": terms.investment_usd,
    }  # fmt: skip
