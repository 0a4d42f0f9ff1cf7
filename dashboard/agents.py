"""``/mcp``: the questions of the API as tools for agents, over the streamable HTTP of the protocol.

Each request stands alone: no session is kept, so nothing is left behind by an agent that goes away.
"""

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from answers.doors.parameters import schema_json
from answers.doors.questions import QUESTIONS
from dashboard.addresses import AGENTS, METRICS, base
from dashboard.api.problems import problem
from dashboard.turns import SQL
from dashboard.user import User
from warehouse.store_cache import warehouse_path

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


def llms(_: Request) -> PlainTextResponse:
    """Answer at ``/llms.txt``."""
    lines = []
    for one in QUESTIONS.values():
        words = ", ".join(f"`{name}`" for name in schema_json(one.parameters)["properties"])
        said = f" Words: {words}." if words else ""
        lines.append(f"- [{one.name}]({base()}/api/v1/{one.name}): {one.summary}{said}")
    return PlainTextResponse(
        _TEXT.format(questions="\n".join(lines), base=base(), metrics=METRICS, agents=AGENTS)
    )


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
