"""What every answer tells a browser: what a page may load, that nobody frames it, whom it tells.

The policy is the one that the pages live with: the browser tests fail at every violation.
"""

import base64
import hashlib
import re
from functools import cache
from http import HTTPStatus
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Headers:
    """ASGI middleware that writes the headers on every answer, let in or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and what is answered back with the headers."""

        async def with_headers(message: Message) -> None:
            if message["type"] in _STARTS:
                MutableHeaders(scope=message).update(headers())
            await send(message)

        await self._app(scope, receive, with_headers)


@cache
def headers() -> dict[str, str]:
    """Return the headers, by name."""
    return {
        "Content-Security-Policy": policy(),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # Links and filters name models; no other site learns them.
        "Referrer-Policy": "same-origin",
    }


def policy() -> str:
    """Return the content security policy: everything from this server, scripts by nothing else."""
    scripts = " ".join(["'self'", *_inline_scripts()])
    return "; ".join([
        "default-src 'none'",
        f"script-src {scripts}",
        # Streamlit's components style themselves.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ])  # fmt: skip


def _inline_scripts() -> list[str]:
    """Return the hashes by which the policy knows the scripts in Streamlit's own page."""
    page = Path(streamlit.__file__).with_name("static") / "index.html"
    found = _INLINE.findall(page.read_text(encoding="utf-8"))
    digests = [hashlib.sha256(script.encode()).digest() for script in found]
    return [f"'sha256-{base64.b64encode(one).decode()}'" for one in digests]


def broken(_: Request, __: Exception) -> Response:
    """Answer a request that met a mistake of ours; the server's log has the traceback.

    Starlette answers such a request outside of every middleware, so the headers stand here too.
    """
    return PlainTextResponse(
        "The server made a mistake; its log has the details.\n",
        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
        headers=headers(),
    )
