"""``draftboard.open("https://…")``: the answers of a warehouse that a server has, as Python values."""

import os
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack
from urllib.parse import unquote, urlsplit

import httpx

from analysis.money.paying import PRICES
from answers.compare import values as compare_contract
from answers.compare.values import ArmComparison
from answers.cost import values as cost_contract
from answers.cost.values import Costs, Terms
from answers.decide import values as decide_contract
from answers.decide.values import Decisions
from answers.doors import rows
from answers.doors.about import ALL
from answers.doors.rows import MEDIA, NOT_FRESH, decoded
from commands.notebook import Answer, Chosen, Compared, Decided, Row
from warehouse.errors import InvalidInput

Value = TypeVar("Value")
#: Where the token is looked for that nobody gave.
TOKEN = "DRAFTBOARD_TOKEN"
_LOCAL = ("localhost", "127.0.0.1", "::1")
#: A decision on a large warehouse takes so long, in seconds.
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Remote:
    """A warehouse behind an address: the questions of ``commands.notebook.Warehouse``, and the same
    answers. ``token``: as ``draftboard token`` makes them; None where nobody logs in."""

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

    def runs(self, **chosen: Unpack[Chosen]) -> Answer[list[Row]]:
        """What the warehouse holds; a row per run, excluded ones with their reason."""
        found, stale = self._asked("runs", chosen, list[Row])
        return Answer(found, lambda value: value, iter, stale)

    def compare(self, **asked: Unpack[Compared]) -> Answer[ArmComparison]:
        """How arms compare, load by load. A frame has a row per setting, arm, load and metric."""
        found, stale = self._asked("compare", {**asked, "subject": ALL}, ArmComparison)
        return Answer(found, compare_contract.as_json, rows.compared, stale)

    def decide(self, **asked: Unpack[Decided]) -> Answer[Decisions]:
        """Whether to serve with speculation, with which arm. A frame has a row per decision and load."""
        found, stale = self._asked("decide", {**asked, "subject": ALL}, Decisions)
        return Answer(found, decide_contract.as_json, rows.decided, stale)

    def cost(self, terms: Terms | None = None, **asked: Unpack[Decided]) -> Answer[Costs]:
        """What tokens cost and what speculation saves, on ``terms``. A frame has a row per decision."""
        words = {**asked, "subject": ALL, **_terms(terms or Terms())}
        found, stale = self._asked("cost", words, Costs)
        return Answer(found, cost_contract.as_json, rows.of("costs"), stale)

    def _asked(self, name: str, words: Any, kind: type[Value]) -> tuple[Value, str | None]:
        """Ask one question; return the answer, and a sentence where a copy of a bucket gave it.

        Raises InvalidInput, with the server's own sentence where it has one.
        """
        headers: dict[str, str] = {"Accept": MEDIA}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            answer = httpx.get(
                f"{self.address.rstrip('/')}/api/v1/{name}", params=_said(words), headers=headers,
                timeout=_PATIENCE_S,
            )  # fmt: skip
        except httpx.TransportError as error:
            raise InvalidInput(f"{self.address} does not answer ({error}).") from None
        if answer.status_code != httpx.codes.OK or MEDIA not in answer.headers.get(
            "Content-Type", ""
        ):
            raise InvalidInput(f"{self.address} does not answer: {_sentence(answer)}")
        stale = answer.headers.get(NOT_FRESH)
        return decoded(answer.content, kind), stale and unquote(stale)


def _sentence(answer: httpx.Response) -> str:
    """Return what the server says is wrong; of anything but a problem the status alone."""
    if answer.headers.get("Content-Type") == "application/problem+json":
        return str(answer.json().get("detail"))
    return f"status {answer.status_code}; is a Draftboard there?"


def _said(words: Any) -> httpx.QueryParams:
    """Return the words of a question as they stand in an address."""
    told: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in words.items():
        if name == "mix":
            value = ",".join(f"{dataset}={share}" for dataset, share in value.items())
        several = value if isinstance(value, (list, tuple)) else (value,)
        told += [(name, str(one)) for one in several if one is not None]
    return httpx.QueryParams(told)


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
