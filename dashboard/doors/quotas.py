"""Quotas: what one client may have open at once and ask for, counted behind the gate.

A client is who is logged in, or the address of a machine where nobody logs in. Everything runs on the
one loop of the server, so the ledger needs no lock.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from dashboard.doors.access import ClientLimits, User
from dashboard.doors.addresses import UPLOADS, is_for_programs, path_of, problem

#: How far back the bytes of uploads count, in seconds.
UPLOADS_S = 600.0
#: With so many clients it looks for those to forget.
_MANY = 1_000
_MINUTE_S = 60.0


class OverLimit(Exception):
    """A client has as much as it may have; the text says so. ``wait_s``: when to try again."""

    def __init__(self, said: str, wait_s: float) -> None:
        super().__init__(said)
        self.wait_s = max(1, round(wait_s))


@dataclass
class Ledger:
    """What each client of one server has open and has asked for lately, held to limits. It forgets
    clients with nothing of either. Pure: time is given."""

    _open: Counter[tuple[str, str]] = field(default_factory=Counter)
    _bytes: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))
    _calls: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))

    @contextmanager
    def counting(self, client: str, what: str, most: int) -> Iterator[None]:
        """Count one more of ``what`` for the block. Raises OverLimit."""
        if self._open[client, what] >= most:
            raise OverLimit(
                f"You have {most:,} {what} open, which is as many as one client may have; "
                "close some, or try again later.", 5,
            )  # fmt: skip
        self._open[client, what] += 1
        try:
            yield
        finally:
            self._open[client, what] -= 1
            if self._open[client, what] <= 0:
                del self._open[client, what]

    def take_bytes(self, client: str, size: int, limits: ClientLimits, now: float) -> None:
        """Count an upload of ``size`` bytes. Raises OverLimit. ``now``: seconds."""
        sent = _recent(self._bytes, client, UPLOADS_S, now)
        if sum(each for _, each in sent) + size > limits.upload_mb << 20:
            first = sent[0][0] if sent else now
            raise OverLimit(
                f"You have sent as much as one client may in ten minutes ({limits.upload_mb:,} MB); "
                "try again later.", UPLOADS_S - (now - first),
            )  # fmt: skip
        sent.append((now, size))

    def call(self, client: str, limits: ClientLimits, now: float) -> None:
        """Count a question to the API. Raises OverLimit. ``now``: seconds."""
        asked = _recent(self._calls, client, _MINUTE_S, now)
        if len(asked) >= limits.calls_per_minute:
            raise OverLimit(
                f"You have asked {limits.calls_per_minute:,} times within a minute, which is as "
                "often as one client may; try again later.", _MINUTE_S - (now - asked[0][0]),
            )  # fmt: skip
        asked.append((now, 1))


def _recent(
    kept: dict[str, deque[tuple[float, int]]], client: str, span: float, now: float
) -> deque[tuple[float, int]]:
    """Return what a client did in the last ``span`` seconds; of many clients, those that did nothing
    in that time are dropped."""
    if len(kept) >= _MANY:
        silent = [each for each, did in kept.items() if not did or now - did[-1][0] >= span]
        for each in silent:
            del kept[each]
    recent = kept[client]
    while recent and now - recent[0][0] >= span:
        recent.popleft()
    return recent


class Quotas:
    """ASGI middleware that counts the sessions, uploads and questions of each client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ledger = Ledger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        what = _counted(scope)
        if what is None:
            await self._app(scope, receive, send)
            return
        user: User = scope["draftboard.user"]
        limits: ClientLimits = scope["draftboard.limits"]
        client = user.account or (HTTPConnection(scope).client or ("somewhere", 0))[0]
        most = {"pages": limits.sessions, "uploads": limits.uploads, "questions": limits.calls}
        try:
            with self._ledger.counting(client, what, most[what]):
                if what == "uploads":
                    size = Headers(scope=scope).get("content-length", "")
                    if not size.isdecimal():
                        raise OverLimit("An upload has to say how large it is (Content-Length).", 1)
                    self._ledger.take_bytes(client, int(size), limits, time.monotonic())
                elif what == "questions":
                    self._ledger.call(client, limits, time.monotonic())
                await self._app(scope, receive, send)
        except OverLimit as over:
            await _refuse(over, scope, receive, send)


def _counted(scope: Scope) -> str | None:
    if scope["type"] == "websocket":
        return "pages"
    if scope["type"] != "http":
        return None
    if path_of(scope).startswith(UPLOADS) and scope["method"] == "PUT":
        return "uploads"
    return "questions" if is_for_programs(scope) else None


async def _refuse(over: OverLimit, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer; a websocket is refused before it is one."""
    if scope["type"] == "websocket":
        await WebSocketClose(1008)(scope, receive, send)
        return
    headers, status = {"Retry-After": str(over.wait_s)}, HTTPStatus.TOO_MANY_REQUESTS
    if is_for_programs(scope):
        await problem(status, str(over), headers)(scope, receive, send)
    else:
        await PlainTextResponse(f"{over}\n", status, headers)(scope, receive, send)
