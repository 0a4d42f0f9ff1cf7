"""Addresses of the server that several parts know by name, and what those for programs say where they
do not answer: ``application/problem+json`` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

import streamlit as st
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope

from answers.doors.parameters import problems_of
from dashboard.components import sentence
from dashboard.doors.access import LoginNeeded, NotLetIn
from dashboard.turns import TooManyWait
from warehouse.errors import (
    DraftboardError,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseMissing,
    WarehouseOutdated,
)

HEALTH, LOGIN = "/healthz", "/login"
#: What a browser asks so that it keeps that the front was folded away.
SEEN = "/seen"
#: Where Streamlit takes files; the session and the file follow.
UPLOADS = "/_stcore/upload_file/"
API, METRICS, LLMS, AGENTS = "/api/", "/metrics", "/llms.txt", "/mcp"
PROBLEM = "application/problem+json"
_STATUS: tuple[tuple[type[DraftboardError], HTTPStatus], ...] = (
    (LoginNeeded, HTTPStatus.UNAUTHORIZED),
    (NotLetIn, HTTPStatus.FORBIDDEN),
    (TooManyWait, HTTPStatus.TOO_MANY_REQUESTS),
    (WarehouseMissing, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseOutdated, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseDamaged, HTTPStatus.SERVICE_UNAVAILABLE),
    (DraftboardError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


def base() -> str:
    """Return the beginning that all addresses of this server share, from ``server.baseUrlPath``;
    mostly empty."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def path_of(scope: Scope) -> str:
    """Return the path that was asked for, without the beginning that all addresses of this server
    share."""
    return str(scope["path"]).removeprefix(base()) or "/"


def is_for_programs(scope: Scope) -> bool:
    """Whether programs ask this address: they may send a token, and are told problems."""
    path = path_of(scope)
    return path.startswith(API) or path in (METRICS, LLMS, AGENTS)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem; its title is that of the status."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    return JSONResponse(
        body | {"detail": detail}, status_code=status, media_type=PROBLEM,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )  # fmt: skip


def problem_of(error: DraftboardError) -> JSONResponse:
    """Return the problem that an error of ours is."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    more = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return problem(status, sentence(error), more)


async def handled(_: Request, error: Exception) -> JSONResponse:
    """Return the problem that any error is, for Starlette's table of handlers."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
        return problem(404, "Nothing is there; /api/v1/openapi.json tells every address.")
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), error.headers)
    if isinstance(error, DraftboardError):
        return problem_of(error)
    if isinstance(error, ValidationError):
        return problem(422, f"{problems_of(error)}; see /api/v1/openapi.json.")
    return problem(500, "The server made a mistake; its log has the details.")
