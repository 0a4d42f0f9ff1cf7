"""The description of the API for machines, OpenAPI 3.1, made from the questions themselves."""

from importlib.metadata import version
from typing import Any

from answers.doors.questions import QUESTIONS, Asking
from answers.doors.rows import GENERATION, NOT_FRESH
from dashboard.addresses import base
from dashboard.api import forms
from dashboard.api.problems import MEDIA

Json = dict[str, Any]
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
        "paths": {f"{PREFIX}/{one.name}": {"get": _operation(one)} for one in QUESTIONS.values()},
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "apiKey", "in": "cookie", "name": "_streamlit_user"},
            },
            "schemas": {"Problem": _PROBLEM},
        },
        "security": [{"token": []}, {"login": []}, {}],
    }


_PROBLEM: Json = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def _operation(one: Asking) -> Json:
    problems = {
        status: {
            "description": said,
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, said in _PROBLEMS.items()
    }
    return {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*_parameters(one), _KNOWN],
        "responses": {
            "200": {"description": one.summary, "headers": _HEADERS, "content": _content(one)},
            "304": {"description": "What the ETag says is known still holds."},
            **problems,
        },
    }


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


def _parameters(one: Asking) -> list[Json]:
    known = one.schema()
    return [
        {
            "name": name,
            "in": "query",
            "required": name in known.get("required", ()),
            "description": schema.get("description", ""),
            "schema": _schema(schema),
        }
        for name, schema in known.get("properties", {}).items()
    ]


def _schema(stated: Json) -> Json:
    """Return the schema of a word in a query, where null cannot be said."""
    choices = [one for one in stated.get("anyOf", ()) if one.get("type") != "null"]
    told = {**stated, **choices[0]} if choices else {**stated}
    dropped = {"anyOf", "title", "description"} | (
        {"default"} if told.get("default") is None else set()
    )
    return {name: value for name, value in told.items() if name not in dropped}


def _content(one: Asking) -> Json:
    properties: Json = {
        "schema_version": {"const": 1}, "generation": {"type": "integer"},
        "not_fresh": {"type": ["string", "null"]},
    }  # fmt: skip
    if one.listed is None:
        return {forms.JSON: {"schema": {"type": "object", "properties": properties}}}
    properties |= {
        one.listed: {"type": "array", "items": {"type": "object"}},
        "page": {
            "type": "object",
            "required": ["total", "limit", "offset", "next"],
            "properties": {
                "total": {"type": "integer"}, "limit": {"type": "integer"},
                "offset": {"type": "integer"}, "next": {"type": ["string", "null"]},
            },
        },
    }  # fmt: skip
    if "subject" in one.parameters.model_fields:
        names = {"type": "array", "items": {"type": "string"}}
        properties |= {"subject": {"type": ["string", "null"]}, "subjects": names}
    whole = {"type": "object", "required": list(properties), "properties": properties}
    return {
        forms.JSON: {"schema": whole},
        forms.CSV: {"schema": {"type": "string"}},
        forms.ARROW: {"schema": {"type": "string", "format": "binary"}},
        **({forms.VALUES: {"schema": {"type": "string", "format": "binary"}}} if one.typed else {}),
    }
