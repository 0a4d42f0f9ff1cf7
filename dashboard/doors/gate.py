"""The door: plain HTTP in front of every address and of the websocket, and the headers of every answer.

A visitor who is not let in gets one sentence and the way in or out; neither Streamlit nor the warehouse
hears of them. The frame asks again at every action, because a login ends while its page is open.

Every answer tells a browser what a page may load, that nobody frames it, whom it tells. The policy is
the one that the pages live with: the browser tests fail at every violation.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

# Streamlit reads a login for its own pages only: who signs in, and the cookie, it keeps inside.
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.user_info import generate_login_redirect_url
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value

from dashboard.doors.access import (
    LoginNeeded,
    NotAllowed,
    NotLetIn,
    configured_limits,
    configured_login,
    host_of,
    owner_of,
    require_role,
    user_of,
)
from dashboard.doors.addresses import (
    HEALTH,
    LOGIN,
    UPLOADS,
    base,
    is_for_programs,
    path_of,
    problem_of,
)

#: They tell nothing, or are the way in and out themselves.
_OPEN = frozenset(
    {HEALTH, LOGIN, "/_stcore/health", "/auth/login", "/auth/logout", "/oauth2callback"}
)
#: Where the address waits that somebody asked for who had to log in first, and for how many seconds.
_WANTED, _WAITS_S = "draftboard_asked", 900
_USUAL_PORT = {"http": ":80", "https": ":443"}
_ELSEWHERE = (
    "A page of another origin asked for this, so it is not answered; whoever runs the server can allow "
    "an origin in server.corsAllowedOrigins of Streamlit's configuration."
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Draftboard</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }}
a {{ display: inline-block; padding: .4rem 1rem; border: 1px solid; border-radius: .3rem }}</style></head>
<body><main><p>{sentence}</p>{ways}</main></body></html>"""


#: The cookie in which Streamlit keeps what a provider said.
_COOKIE = "_streamlit_user"
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Gate:
    """ASGI middleware that asks ``dashboard.doors.access`` before anything else answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] in ("http", "websocket"):
            visit = HTTPConnection(scope)
            # A websocket opens nowhere but at the pages: no address of it is open to all.
            is_open = scope["type"] == "http" and path_of(scope) in _OPEN
            answer = _elsewhere(visit) or (None if is_open else _answer(visit))
        await (answer or self._app)(scope, receive, send)


def _answer(visit: HTTPConnection) -> ASGIApp | None:
    """Return what this visitor gets instead of the dashboard; None for one who is let in.

    Who that is stands in the scope as ``draftboard.user``, beside ``draftboard.limits``.
    """
    host = host_of(visit.headers.get("host"))
    kind, _, secret = visit.headers.get("authorization", "").partition(" ")
    # What is for people takes no token.
    has_token = kind.lower() == "bearer" and is_for_programs(visit.scope) and secret.strip()
    try:
        user = (
            owner_of(host, secret.strip()) if has_token else user_of(host, _claims(visit.cookies))
        )
        visit.scope["draftboard.limits"] = configured_limits()
        if path_of(visit.scope).startswith(UPLOADS):
            require_role(user, "editor")
    except NotLetIn as refusal:
        return _refused(visit, refusal)
    visit.scope["draftboard.user"] = user
    is_first_page = path_of(visit.scope) == "/" and not visit.url.query
    wanted = visit.cookies.get(_WANTED)
    if wanted and visit.scope["type"] == "http" and is_first_page:
        return _led_on(unquote(wanted))
    return None


def _elsewhere(visit: HTTPConnection) -> ASGIApp | None:
    """Return what a page of another origin gets, whoever looks at it; None for one of this server.

    Its own is the same host and port. Streamlit would take any port of this machine, and ask an
    address on the internet for ours.
    """
    host = visit.headers.get("host", "").lower()
    for origin in visit.headers.getlist("origin"):
        scheme, _, place = origin.lower().partition("://")
        # A proxy may name the port that a browser leaves out.
        usual = _USUAL_PORT.get(scheme, "")
        is_own = bool(place) and place.removesuffix(usual) == host.removesuffix(usual)
        allowed = [each.strip() for each in st.get_option("server.corsAllowedOrigins")]
        if not is_own and origin not in allowed:
            return _refused(visit, NotLetIn(_ELSEWHERE))
    return None


def _refused(visit: HTTPConnection, refusal: NotLetIn) -> ASGIApp:
    if visit.scope["type"] == "websocket":
        # Before it is one, so that the server answers 403.
        return WebSocketClose(1008)
    if is_for_programs(visit.scope):
        return problem_of(refusal)
    if "text/html" not in visit.headers.get("accept", ""):
        return PlainTextResponse(f"{refusal}\n", status_code=HTTPStatus.FORBIDDEN)
    page = HTMLResponse(
        _PAGE.format(sentence=escape(str(refusal)), ways=_ways(refusal)),
        status_code=HTTPStatus.FORBIDDEN,
        headers={"Cache-Control": "no-store"},
    )
    if isinstance(refusal, LoginNeeded):
        # Kept until its reader has logged in.
        wanted = quote(visit.url.path + (f"?{visit.url.query}" if visit.url.query else ""), safe="")
        page.set_cookie(_WANTED, wanted, max_age=_WAITS_S, httponly=True, samesite="lax")
    return page


def _led_on(wanted: str) -> Response:
    """Return a redirect to the address that was asked for before the login. Whatever that holds,
    the redirect stays on this server."""
    there = urlsplit(wanted)
    query = f"?{there.query}" if parse_qsl(there.query) else ""
    path = "/" + there.path.lstrip("/\\") + query
    answer = RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)
    answer.delete_cookie(_WANTED)
    return answer


def log_in(visit: Request) -> Response:
    """Lead to the provider that was chosen, by way of Streamlit's own login."""
    try:
        login = configured_login()
    except NotLetIn as refusal:
        return PlainTextResponse(f"{refusal}\n", status_code=HTTPStatus.FORBIDDEN)
    chosen = visit.query_params.get("provider") or None
    address = f"{base()}/"
    if login is not None and chosen in login.providers:
        # What Streamlit calls the provider that has no name.
        address = generate_login_redirect_url(chosen or "default")
    return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)


def _ways(refusal: NotLetIn) -> str:
    if isinstance(refusal, NotAllowed):
        return _way("Log out", "/auth/logout")
    login = configured_login() if isinstance(refusal, LoginNeeded) else None
    return "".join(
        _way(f"Log in with {provider}" if provider else "Log in", LOGIN, provider or "")
        for provider in (login.providers if login else ())
    )


def _way(label: str, path: str, provider: str = "") -> str:
    """Return a link: a form may not lead to the provider's site, nor may it where others send it."""
    query = f"?{urlencode({'provider': provider})}" if provider else ""
    return f'<p><a href="{escape(base() + path + query)}">{escape(label)}</a></p>'


def _claims(cookies: Mapping[str, str]) -> dict[str, Any]:
    """Return what a provider said of this visitor, from the cookie that Streamlit has signed; else
    nothing."""
    login = configured_login()
    if login is None:
        return {}
    secret = st.secrets["auth"]["cookie_secret"]
    signed = get_cookie_with_chunks(
        lambda name: decode_signed_value(secret, name, cookies.get(name, "")), _COOKIE
    )
    try:
        claims = json.loads(signed or b"{}")
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) and claims.get("origin") == login.origin else {}


# --- The headers of every answer.


class Headers:
    """ASGI middleware that writes the headers on every answer, let in or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def with_headers(message: Message) -> None:
            if message["type"] in _STARTS:
                MutableHeaders(scope=message).update(headers())
            await send(message)

        await self._app(scope, receive, with_headers)


@cache
def headers() -> dict[str, str]:
    """Return the headers, by name. By the policy everything comes from this server, and scripts from
    nothing else."""
    page = Path(st.__file__).with_name("static") / "index.html"
    # The policy knows the scripts in Streamlit's own page by their hashes.
    inline = _INLINE.findall(page.read_text(encoding="utf-8"))
    digests = [hashlib.sha256(script.encode()).digest() for script in inline]
    known = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        "default-src 'none'",
        f"script-src 'self' {known}".strip(),
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
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # Links and filters name models; no other site learns them.
        "Referrer-Policy": "same-origin",
    }


def broken(_: Request, __: Exception) -> Response:
    """Answer a request that met a mistake of ours; the server's log has the traceback.

    Starlette answers such a request outside of every middleware, so the headers stand here too.
    """
    return PlainTextResponse(
        "The server made a mistake; its log has the details.\n",
        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
        headers=headers(),
    )
