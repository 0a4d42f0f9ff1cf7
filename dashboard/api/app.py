"""The API as one application below ``/api``, with problems of its own for every error."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from answers.doors.parameters import Page
from answers.doors.questions import QUESTIONS, Asking, answer_json
from answers.doors.rows import GENERATION, NOT_FRESH
from dashboard.api import forms
from dashboard.api.openapi import document
from dashboard.api.problems import handled, problem
from dashboard.shelf import Shelf, ask, open_shelf
from warehouse import annotations
from warehouse.beside import tables_version
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.store import Reader
from warehouse.store_current import not_fresh

# --- One address of the API: words in, an answer out, in pages, known by its generation.


Json = dict[str, Any]
#: What an answer stands on besides the generation: what people say, published tables.
Versions = tuple[str, str]


@dataclass(frozen=True)
class _Place:
    """Where an answer comes from, and by which headers it is known again. ``not_fresh``: why nothing
    newer comes from its bucket; None where it does."""

    shelf: Shelf
    versions: Versions
    not_fresh: str | None
    headers: dict[str, str]


def endpoint(asking: Asking) -> Callable[[Request], Response]:
    """Return what answers at the address of a question. It blocks: Starlette gives it a thread."""

    def respond(request: Request) -> Response:
        words, page = _read(asking, request.query_params)
        form = forms.form_of(request.headers.get("accept", ""), forms.offered(asking))
        if form is None:
            told = ", ".join(forms.offered(asking))
            return problem(HTTPStatus.NOT_ACCEPTABLE, f"This is told as {told}.")
        place = _place(asking, form, request)
        if _is_known(request, place.headers["ETag"]):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=place.headers)
        found = ask(place.shelf, _found, asking.name, words, place.versions)
        if form == forms.VALUES:
            return forms.of_values(found, place.headers)
        answer, following = _paged(asking, found, page, request)
        answer |= {"generation": place.shelf.generation, "not_fresh": place.not_fresh}
        link = {"Link": f'<{following}>; rel="next"'} if following else {}
        return forms.rendered(asking, answer, form, place.headers | link)

    return respond


def _found(reader: Reader, name: str, words: BaseModel, versions: Versions) -> Any:
    """Return the whole answer. ``versions`` are part of what it is kept under."""
    del versions
    return QUESTIONS[name].ask(reader, words)


def _read(asking: Asking, query: QueryParams) -> tuple[BaseModel, Page]:
    """Return the words of a question and the page. Raises ValidationError, InvalidInput."""
    lists = {name for name, field in asking.parameters.model_fields.items() if field.default == ()}
    said: Json = {}
    for name in dict.fromkeys(query):
        values = query.getlist(name)
        if name not in lists and len(values) > 1:
            raise InvalidInput(f"{name} was given {len(values)} times; give it once.")
        said[name] = tuple(values) if name in lists else values[0]
    return asking.read(said)


def _place(asking: Asking, form: str, request: Request) -> _Place:
    """Return the newest generation. Raises WarehouseMissing."""
    shelf = open_shelf()
    root = Path(shelf.root)
    versions = annotations.version(root), tables_version(root)
    shelf = shelf.with_excluded() if asking.everything else shelf
    asked = (request.url.path, request.url.query, form)
    stale = not_fresh(root)
    known = repr((version("draftboard"), shelf, versions, stale, asked))
    tag = hashlib.sha256(known.encode()).hexdigest()[:32]
    headers = {
        "ETag": f'"{tag}"', "Cache-Control": "private, no-cache",
        "Vary": "Accept, Authorization, Cookie", GENERATION: str(shelf.generation),
    }  # fmt: skip
    if stale is not None:
        # Latin letters are all that a header may hold, and a reason may hold others.
        headers[NOT_FRESH] = quote(stale, safe=" !'()*,/:;=")
    return _Place(shelf, versions, stale, headers)


def _is_known(request: Request, tag: str) -> bool:
    said = request.headers.get("if-none-match", "")
    return tag in [one.strip().removeprefix("W/") for one in said.split(",")]


def _paged(asking: Asking, found: Any, page: Page, request: Request) -> tuple[Json, str | None]:
    """Return the answer with the part of its list that was asked for, and where the next part is."""
    told = answer_json(asking, found, page)
    if asking.listed is None:
        return told, None
    end = page.offset + page.limit
    following = None
    if end < told["page"]["total"]:
        said = request.query_params.multi_items()
        query = [(name, value) for name, value in said if name not in Page.model_fields]
        query += [("limit", str(page.limit)), ("offset", str(end))]
        following = f"{request.url.path}?{urlencode(query)}"
    return told | {"page": told["page"] | {"next": following}}, following


# --- The API as one application below ``/api``, with problems of its own for every error.


class Whole:
    """ASGI middleware that refuses what no question has: a body, and a range of bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer such a request before anything of it is read."""
        said = Headers(scope=scope)
        refusal: ASGIApp | None = None
        if said.get("content-length", "0") != "0" or "transfer-encoding" in said:
            refusal = problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "A question stands in the address; the API reads no body.", {"Connection": "close"},
            )  # fmt: skip
        elif "range" in said:
            refusal = problem(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                "An answer is told whole, not in ranges of bytes; limit and offset cut its list.",
            )
        await (refusal or self._app)(scope, receive, send)


async def _described(_: Request) -> JSONResponse:
    return JSONResponse(document())


def application() -> Starlette:
    """Return the application; its routes begin behind ``/api``."""
    kinds = (HTTPException, DraftboardError, ValidationError, Exception)
    return Starlette(
        routes=[
            Route("/v1/openapi.json", _described, methods=["GET"]),
            *(
                Route(f"/v1/{one.name}", endpoint(one), methods=["GET"])
                for one in QUESTIONS.values()
            ),
        ],
        middleware=[Middleware(Whole)],
        exception_handlers=dict.fromkeys(kinds, handled),
    )
