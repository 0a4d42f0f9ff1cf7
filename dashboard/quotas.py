"""Quotas: what one client may have open at once and ask for, counted behind the gate.

Everything runs on the one loop of the server, so the ledger needs no lock.
"""

import time
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.addresses import UPLOADS, is_for_programs, path_of
from dashboard.api.problems import problem
from dashboard.ledger import Ledger, Limits, OverLimit
from dashboard.user import User


class Quotas:
    """ASGI middleware that counts the sessions, uploads and questions of each client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ledger = Ledger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is within the limits; answer the rest with one sentence."""
        what = _counted(scope)
        if what is None:
            await self._app(scope, receive, send)
            return
        client, limits = _client(scope), scope["draftboard.limits"]
        try:
            self._admit(what, scope, client, limits)
        except OverLimit as over:
            await _refused(over)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._ledger.leave(client, what)

    def _admit(self, what: str, scope: Scope, client: str, limits: Limits) -> None:
        most = {"pages": limits.sessions, "uploads": limits.uploads, "questions": limits.calls}
        self._ledger.enter(client, what, most[what])
        try:
            if what == "uploads":
                size = _announced(scope)
                self._ledger.take_bytes(client, size, limits, time.monotonic())
            elif what == "questions":
                self._ledger.call(client, limits, time.monotonic())
        except OverLimit:
            self._ledger.leave(client, what)
            raise


def _counted(scope: Scope) -> str | None:
    """Return the quota that a visit counts against; None for a visit that is not counted."""
    if scope["type"] == "websocket":
        return "pages"
    if scope["type"] != "http":
        return None
    path = path_of(scope)
    if path.startswith(UPLOADS) and scope["method"] == "PUT":
        return "uploads"
    return "questions" if is_for_programs(scope) else None


def _client(scope: Scope) -> str:
    """Return who is logged in; where nobody logs in, the machine that asks."""
    user: User = scope["draftboard.user"]
    return user.account or (HTTPConnection(scope).client or ("somewhere", 0))[0]


def _announced(scope: Scope) -> int:
    """Return the size of an upload in bytes. Raises OverLimit for one that does not state its
    size."""
    said = Headers(scope=scope).get("content-length", "")
    if not said.isdecimal():
        raise OverLimit("An upload has to say how large it is (Content-Length).", 1)
    return int(said)


def _refused(over: OverLimit) -> ASGIApp:
    """Return the answer; a websocket is refused before it is one."""

    async def closed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {"Retry-After": str(over.wait_s)}
        status = HTTPStatus.TOO_MANY_REQUESTS
        answer: ASGIApp = PlainTextResponse(f"{over}\n", status, headers)
        if is_for_programs(scope):
            answer = problem(status, str(over), headers)
        await answer(scope, receive, send)

    return closed
