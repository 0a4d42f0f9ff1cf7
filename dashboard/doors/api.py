"""The HTTP API ``/api/v1/…`` and the tools of agents at ``/mcp``, in the process of the dashboard, behind
the same gate: words in, an answer out, in pages, known by its generation.

An answer is JSON, or its rows as CSV or as an Arrow stream, as ``Accept`` asks.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Literal
from urllib.parse import quote, urlencode

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from answers.doors.parameters import Page, schema_json
from answers.doors.questions import QUESTIONS, AboutSubject, Asking, Json, answer_json
from answers.doors.rows import GENERATION, MEDIA, NOT_FRESH, encoded
from dashboard.doors.access import User
from dashboard.doors.addresses import AGENTS, METRICS, PROBLEM, base, handled, problem
from dashboard.downloads import csv_bytes
from dashboard.shelf import ask, open_shelf
from dashboard.turns import SQL
from warehouse import annotations, beside
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.json_text import json_text
from warehouse.rows import arrow_bytes
from warehouse.storage.cache import warehouse_path
from warehouse.storage.current import not_fresh
from warehouse.store import Reader

# --- What the API says of itself: OpenAPI 3.1 for machines, ``/llms.txt`` for models, both made from the
#
# questions.


#: The forms of an answer, by their media types.
Form = Literal[
    "application/json", "text/csv", "application/vnd.apache.arrow.stream",
    "application/vnd.draftboard.values",
]  # fmt: skip
JSON: Form = "application/json"
CSV: Form = "text/csv"
ARROW: Form = "application/vnd.apache.arrow.stream"
VALUES: Form = MEDIA
PREFIX = "/api/v1"
#: What any address may say besides its answer.
_PROBLEMS = {
    "401": "Nobody is logged in, or the token does not count.",
    "403": "Whoever is logged in may not.",
    "406": "None of the forms that there are is accepted.",
    "413": "The request has a body.",
    "416": "The request asks for a range of bytes.",
    "422": "The words are not in the schema, or together ask for nothing.",
    "429": "This client has asked for as much as one may; see Retry-After.",
    "500": "A mistake of the server.",
    "503": "There is no warehouse, or it cannot be read.",
}


_PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}  # fmt: skip
_KNOWN: Json = {
    "name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"},
    "description": "The ETag of an answer that is known.",
}  # fmt: skip
_HEADERS: Json = {
    "ETag": {"schema": {"type": "string"}, "description": "Changes with the answer."},
    GENERATION: {
        "schema": {"type": "integer"},
        "description": "The one that the answer comes from.",
    },
    NOT_FRESH: {
        "schema": {"type": "string"},
        "description": "Where a bucket is out of reach and a copy answers: since when and why, percent-encoded.",
    },
}
_PAGE: Json = {
    "type": "object",
    "required": ["total", "limit", "offset", "next"],
    "properties": {
        "total": {"type": "integer"}, "limit": {"type": "integer"},
        "offset": {"type": "integer"}, "next": {"type": ["string", "null"]},
    },
}  # fmt: skip
_TEXT = """# Draftboard

> Measurements of language models served with and without speculative decoding, and what follows
> from them: whether to serve with it, with which arm and how many draft tokens, up to which load,
> and what that saves.

Ask with GET and words in the address; an answer is JSON, or CSV or an Arrow stream by `Accept`.
Begin with `decide`, and quote its `headline` and `paragraph`. Without `subject` an answer is about
the first of its `subjects`; `subject=*` asks about all. Improvements are ratios, positive is better,
`low` and `high` are 95 % intervals, null is unknown. What has the evidence `cpu` says nothing about
the speed of a GPU. Where a login is set up, send `Authorization: Bearer` with a personal token.

## Questions

{questions}

## More

- [OpenAPI]({base}/api/v1/openapi.json): every word, form and error
- [OpenMetrics]({base}{metrics}): the newest night of every series
- [MCP]({base}{agents}): the same questions as tools of the Model Context Protocol (streamable HTTP)
"""


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Draftboard",
            "version": version("draftboard"),
            "summary": "Whether speculative decoding pays, asked by programs.",
            "description": "Names and meanings of v1 only ever grow. Unknown is null.",
        },
        "servers": [{"url": base() or "/"}],
        "paths": {
            f"{PREFIX}/{each.name}": {"get": _operation(each)} for each in QUESTIONS.values()
        },
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "apiKey", "in": "cookie", "name": "_streamlit_user"},
            },
            "schemas": {"Problem": _PROBLEM},
        },
        "security": [{"token": []}, {"login": []}, {}],
    }


def _operation(asking: Asking) -> Json:
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    known = asking.schema()
    parameters = [
        {
            "name": name, "in": "query", "required": name in known.get("required", ()),
            "description": schema.get("description", ""), "schema": _schema(schema),
        }
        for name, schema in known.get("properties", {}).items()
    ]  # fmt: skip
    return {
        "operationId": asking.name,
        "summary": asking.summary,
        "parameters": [*parameters, _KNOWN],
        "responses": {
            "200": {
                "description": asking.summary, "headers": _HEADERS, "content": _content(asking),
            },
            "304": {"description": "What the ETag says is known still holds."},
            **{s: {"description": text, "content": problem} for s, text in _PROBLEMS.items()},
        },
    }  # fmt: skip


def _schema(stated: Json) -> Json:
    """Return the schema of a word in a query, where null cannot be said."""
    choices = [each for each in stated.get("anyOf", ()) if each.get("type") != "null"]
    schema = {**stated, **choices[0]} if choices else {**stated}
    dropped = {"anyOf", "title", "description"}
    dropped |= {"default"} if schema.get("default") is None else set()
    return {name: value for name, value in schema.items() if name not in dropped}


def _content(asking: Asking) -> Json:
    properties: Json = {
        "schema_version": {"const": 1}, "generation": {"type": "integer"},
        "not_fresh": {"type": ["string", "null"]},
    }  # fmt: skip
    if asking.listed is None:
        return {JSON: {"schema": {"type": "object", "properties": properties}}}
    properties |= {asking.listed: {"type": "array", "items": {"type": "object"}}, "page": _PAGE}
    if "subject" in asking.parameters.model_fields:
        properties |= {
            "subject": {"type": ["string", "null"]},
            "subjects": {"type": "array", "items": {"type": "string"}},
        }
    whole = {"type": "object", "required": list(properties), "properties": properties}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content: Json = {
        JSON: {"schema": whole}, CSV: {"schema": {"type": "string"}}, ARROW: binary,
    }  # fmt: skip
    return content | ({VALUES: binary} if asking.typed else {})


def llms(_: Request) -> PlainTextResponse:
    """Answer at ``/llms.txt``."""
    lines = []
    for each in QUESTIONS.values():
        words = ", ".join(f"`{name}`" for name in schema_json(each.parameters)["properties"])
        words = f" Words: {words}." if words else ""
        lines.append(f"- [{each.name}]({base()}{PREFIX}/{each.name}): {each.summary}{words}")
    return PlainTextResponse(
        _TEXT.format(questions="\n".join(lines), base=base(), metrics=METRICS, agents=AGENTS)
    )


#: A question has a few words; in SQL at most 8,000 letters.
_LARGEST_QUESTION = 64 * 2**10

# --- The forms of an answer.


def offered(asking: Asking) -> tuple[Form, ...]:
    """Return the forms that an answer has, the usual one first."""
    rows: tuple[Form, ...] = (CSV, ARROW) if asking.listed else ()
    return (JSON, *rows, *((VALUES,) if asking.typed else ()))


def form_of(accept: str, forms: Sequence[Form]) -> Form | None:
    best, _, form = min([(-_weight(accept, form), at, form) for at, form in enumerate(forms)])
    return form if best < 0 else None


def _weight(accept: str, form: Form) -> float:
    """Return the quality (0-1) that the most exact range gives the form; no header takes all."""
    best = (0, 0.0)
    for part in (accept or "*/*").split(","):
        name, _, more = part.strip().lower().partition(";")
        exact = {form: 3, f"{form.partition('/')[0]}/*": 2, "*/*": 1}.get(name.strip(), 0)
        if exact:
            texts = [each.strip()[2:] for each in more.split(";") if each.strip().startswith("q=")]
            try:
                quality = float(texts[0]) if texts else 1.0
            except ValueError:
                quality = 0.0
            best = max(best, (exact, quality))
    return best[1]


def rendered(asking: Asking, answer: Json, form: Form, headers: Mapping[str, str]) -> Response:
    """Return an answer in JSON, or its rows as CSV or Arrow: nested names have a dot, lists are JSON."""
    if form == JSON:
        return Response(json_text(answer, plain=False).encode(), 200, {**headers}, form)
    rows = asking.rows(answer) if asking.rows else answer[asking.listed or ""]
    frame = pd.json_normalize(list(rows))
    objects = [str(name) for name in frame if frame[name].dtype == "object"]
    frame = frame.assign(**{name: frame[name].map(_plain) for name in objects})
    frame = frame.astype(dict.fromkeys(objects, "string"))
    if form == CSV:
        return Response(csv_bytes(frame), 200, {**headers}, form)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    about = {name: str(answer[name]) for name in ("generation", "not_fresh")
             if answer[name] is not None}  # fmt: skip
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
    return Response(arrow_bytes(table), 200, {**headers}, form)


def _plain(value: object) -> object:
    if isinstance(value, float) and value != value:
        return None
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


# --- One address.


def endpoint(asking: Asking) -> Callable[[Request], Response]:
    """Return what answers at the address of a question. It blocks: Starlette gives it a thread."""

    def respond(request: Request) -> Response:
        words, page = asking.read(_words(asking, request.query_params))
        form = form_of(request.headers.get("accept", ""), offered(asking))
        if form is None:
            forms = ", ".join(offered(asking))
            return problem(HTTPStatus.NOT_ACCEPTABLE, f"This is told as {forms}.")
        shelf = open_shelf()
        # What people say and published tables: an answer stands on them besides the generation.
        versions = (annotations.version(shelf.root), beside.tables_version(shelf.root))
        stale = not_fresh(shelf.root)
        shelf = shelf.with_excluded() if asking.everything else shelf
        address = (request.url.path, request.url.query, form)
        key = repr((version("draftboard"), shelf, versions, stale, address))
        tag = hashlib.sha256(key.encode()).hexdigest()[:32]
        headers = {
            "ETag": f'"{tag}"', "Cache-Control": "private, no-cache",
            "Vary": "Accept, Authorization, Cookie", GENERATION: str(shelf.generation),
        }  # fmt: skip
        if stale is not None:
            # Latin letters are all that a header may hold, and a reason may hold others.
            headers[NOT_FRESH] = quote(stale, safe=" !'()*,/:;=")
        if headers["ETag"] in [
            each.strip().removeprefix("W/")
            for each in request.headers.get("if-none-match", "").split(",")
        ]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        answer = ask(shelf, _answer, asking.name, words, versions)
        if form == VALUES:
            headers["Draftboard-Version"] = version("draftboard")
            return Response(
                encoded(answer.value if isinstance(answer, AboutSubject) else answer),
                200,
                headers,
                VALUES,
            )
        told = answer_json(asking, answer, page)
        if asking.listed:
            told["page"]["next"] = _next(request, page, told["page"]["total"])
            headers |= (
                {"Link": f'<{told["page"]["next"]}>; rel="next"'} if told["page"]["next"] else {}
            )
        told |= {"generation": shelf.generation, "not_fresh": stale}
        return rendered(asking, told, form, headers)

    return respond


def _answer(reader: Reader, name: str, words: BaseModel, _versions: tuple[str, str]) -> Any:
    """Return the whole answer. ``_versions`` are part of what it is kept under."""
    return QUESTIONS[name].ask(reader, words)


def _words(asking: Asking, query: QueryParams) -> Json:
    lists = {name for name, field in asking.parameters.model_fields.items() if field.default == ()}
    words: Json = {}
    for name in dict.fromkeys(query):
        values = query.getlist(name)
        if name not in lists and len(values) > 1:
            raise InvalidInput(f"{name} was given {len(values)} times; give it once.")
        words[name] = tuple(values) if name in lists else values[0]
    return words


def _next(request: Request, page: Page, total: int) -> str | None:
    end = page.offset + page.limit
    if end >= total:
        return None
    words = request.query_params.multi_items()
    query = [(name, value) for name, value in words if name not in Page.model_fields]
    return f"{request.url.path}?{urlencode([*query, ('limit', page.limit), ('offset', end)])}"


# --- The API as one application below ``/api``, with problems of its own for every error.


class Whole:
    """ASGI middleware that refuses what no question has: a body, and a range of bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        app = self._app
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            app = problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "A question stands in the address; the API reads no body.", {"Connection": "close"},
            )  # fmt: skip
        elif "range" in headers:
            app = problem(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                "An answer is told whole, not in ranges of bytes; limit and offset cut its list.",
            )
        await app(scope, receive, send)


async def _described(_: Request) -> JSONResponse:
    return JSONResponse(document())


def application() -> Starlette:
    """Return the application; its routes begin behind ``/api``."""
    kinds = (HTTPException, DraftboardError, ValidationError, Exception)
    return Starlette(
        routes=[
            Route("/v1/openapi.json", _described),
            *[Route(f"/v1/{name}", endpoint(each)) for name, each in QUESTIONS.items()],
        ],
        middleware=[Middleware(Whole)],
        exception_handlers=dict.fromkeys(kinds, handled),
    )


class Agents:
    """ASGI application at ``/mcp`` that answers one message of an agent at a time, over the streamable
    HTTP of the protocol.

    Each request stands alone: no session is kept, so nothing is left behind by an agent that goes away.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # A stream that waits for news would stay open, and there is no news.
            text = "A message of the protocol comes by POST, and its answer with it."
            await problem(405, text, {"Allow": "POST"})(scope, receive, send)
            return
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        except ModuleNotFoundError:
            text = "This server lacks the package of the protocol: pip install 'draftboard[mcp]'."
            await problem(HTTPStatus.NOT_IMPLEMENTED, text)(scope, receive, send)
            return
        from answers.doors.agents import agents_server

        user: User = scope["draftboard.user"]
        client = user.account or (scope.get("client") or ("somewhere", 0))[0]
        # Beside people's questions in SQL: one is answered at a time, whoever asks.
        server = agents_server(warehouse_path(None), partial(SQL.turn, client, lambda _: None))
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=_LARGEST_QUESTION
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)
