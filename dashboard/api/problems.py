"""What the API says where it does not answer: ``application/problem+json`` (RFC 9457)."""

import time
from collections.abc import Mapping
from http import HTTPStatus

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse

from answers.doors.parameters import problems_of
from dashboard import access
from dashboard.access_rules import decided
from dashboard.addresses import is_for_programs
from dashboard.components import sentence
from dashboard.turns import TooManyWait
from dashboard.user import LoginNeeded, Refused, User
from warehouse.annotations import find_token
from warehouse.errors import (
    DraftboardError,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseMissing,
    WarehouseOutdated,
)
from warehouse.store_cache import warehouse_path

# --- Who asks with a token: its owner, who reads and does nothing else with it.


_UNKNOWN = "This token does not count: it is unknown, has ended, or was taken back."


def secret_of(visit: HTTPConnection) -> str | None:
    """Return the token that a program sends along; what is for people takes none."""
    kind, _, secret = visit.headers.get("authorization", "").partition(" ")
    is_token = kind.lower() == "bearer" and is_for_programs(visit.scope)
    return secret.strip() if is_token else None


def user_of(host: str, secret: str) -> User:
    """Return the owner of a token as a viewer. Without a login a token gives nothing that others lack.

    Raises LoginNeeded for a token that does not count, and NotAllowed for an owner whom the settings
    of the login do not name by the address.
    """
    token = find_token(warehouse_path(None), secret)
    if token is None:
        raise LoginNeeded(_UNKNOWN)
    login = access.configured_login()
    if login is None:
        return access.user_of(host, {})
    access.require_known_name(host, login)
    now = time.time()
    # What the provider would say of the owner, whose address an administrator has written.
    owner = {
        "is_logged_in": True, "email": token.account, "email_verified": True,
        "exp": now + 60, "iat": now,
    }  # fmt: skip
    return User(token.account, decided(login, owner, now).email, "viewer")


# --- What the API says where it does not answer: ``application/problem+json`` (RFC 9457).


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
