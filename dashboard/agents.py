"""``/mcp``: the questions of the API as tools for agents, over the streamable HTTP of the protocol.

Each request stands alone: no session is kept, so nothing is left behind by an agent that goes away.
"""

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.api.problems import problem
from dashboard.turns import SQL
from dashboard.user import User
from warehouse.store import warehouse_path

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

#: A question has a few words; in SQL at most 8,000 letters.
_LARGEST_QUESTION = 64 * 2**10


class Agents:
    """ASGI application that answers one message of an agent at a time."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; where the package of the protocol is missing, refuse."""
        refusal = _refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        manager = _manager(scope)
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _refusal(scope: Scope) -> ASGIApp | None:
    if scope["method"] != "POST":
        # A stream that waits for news would stay open, and there is no news.
        told = "A message of the protocol comes by POST, and its answer with it."
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, told, {"Allow": "POST"})
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        told = "This server lacks the package of the protocol: pip install 'draftboard[mcp]'."
        return problem(HTTPStatus.NOT_IMPLEMENTED, told)
    return None


def _manager(scope: Scope) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from answers.doors.agents import agents_server

    user: User = scope["draftboard.user"]
    client = user.account or (scope.get("client") or ("somewhere", 0))[0]
    # Beside people's questions in SQL: one is answered at a time, whoever asks.
    server = agents_server(warehouse_path(None), partial(SQL.turn, client, lambda _: None))
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=_LARGEST_QUESTION
    )
