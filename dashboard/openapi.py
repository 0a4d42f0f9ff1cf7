"""What the API says of itself: OpenAPI 3.1 for machines, ``/llms.txt`` for models, both made from the
questions."""

from importlib.metadata import version
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from answers.doors.parameters import schema_json
from answers.doors.questions import QUESTIONS, Asking
from answers.doors.rows import GENERATION, MEDIA, NOT_FRESH
from dashboard.addresses import AGENTS, METRICS, PROBLEM, base

Json = dict[str, Any]
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
    """Return the OpenAPI document."""
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
        names = {"type": "array", "items": {"type": "string"}}
        properties |= {"subject": {"type": ["string", "null"]}, "subjects": names}
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
