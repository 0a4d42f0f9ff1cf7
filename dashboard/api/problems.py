"""What the API says where it does not answer: ``application/problem+json`` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from answers.doors.parameters import problems_of
from dashboard.refusals import sentence
from dashboard.turns import TooManyWait
from dashboard.user import LoginNeeded, Refused
from warehouse.errors import (
    DraftboardError,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseMissing,
    WarehouseOutdated,
)

MEDIA = "application/problem+json"
_STATUS: tuple[tuple[type[DraftboardError], HTTPStatus], ...] = (
    (LoginNeeded, HTTPStatus.UNAUTHORIZED),
    (Refused, HTTPStatus.FORBIDDEN),
    (TooManyWait, HTTPStatus.TOO_MANY_REQUESTS),
    (WarehouseMissing, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseOutdated, HTTPStatus.SERVICE_UNAVAILABLE),
    (WarehouseDamaged, HTTPStatus.SERVICE_UNAVAILABLE),
    (DraftboardError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem; its title is that of the status."""
    told = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    return JSONResponse(
        told | {"detail": detail}, status_code=status, media_type=MEDIA,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )  # fmt: skip


def refused(error: DraftboardError) -> JSONResponse:
    """Return the problem that an error of ours is."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    more = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return problem(status, sentence(error), more)


def misunderstood(error: ValidationError) -> JSONResponse:
    """Return the problem of words that are not in the schema: each with what is wrong."""
    said = f"{problems_of(error)}; see /api/v1/openapi.json."
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, said)


async def handled(request: Request, error: Exception) -> JSONResponse:
    """Return the problem that any error is, for Starlette's table of handlers."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
        return problem(404, "Nothing is there; /api/v1/openapi.json tells every address.")
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), error.headers)
    if isinstance(error, DraftboardError):
        return refused(error)
    if isinstance(error, ValidationError):
        return misunderstood(error)
    del request
    return problem(500, "The server made a mistake; its log has the details.")
