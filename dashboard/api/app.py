"""The API as one application below ``/api``, with problems of its own for every error."""

from http import HTTPStatus

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from answers.doors.questions import QUESTIONS
from dashboard.api.asking import endpoint
from dashboard.api.openapi import document
from dashboard.api.problems import handled, problem
from warehouse.errors import DraftboardError


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
