"""The door: plain HTTP in front of every address and of the websocket.

A visitor who is not let in gets one sentence and the way in or out; neither Streamlit nor the warehouse
hears of them. The frame asks again at every action, because a login ends while its page is open.
"""

import json
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks, get_origin_from_redirect_uri
from streamlit.user_info import generate_login_redirect_url
from streamlit.web.server.server_util import get_cookie_secret, is_allowed_origin
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from dashboard.access import configured_limits, configured_login, host_of, user_of
from dashboard.addresses import HEALTH, LOGIN, UPLOADS, base, is_for_programs, path_of
from dashboard.api import problems
from dashboard.api import problems as tokens_door
from dashboard.user import LoginNeeded, NotAllowed, Refused, User, require_role

#: They tell nothing, or are the way in and out themselves.
_OPEN = frozenset(
    {HEALTH, LOGIN, "/_stcore/health", "/auth/login", "/auth/logout", "/oauth2callback"}
)
#: Where the address waits that somebody asked for who had to log in first, and for how many seconds.
_ASKED, _WAITS_S = "draftboard_asked", 900
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


class Gate:
    """ASGI middleware that asks ``dashboard.access`` before anything else answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may come in; answer the rest."""
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
    try:
        visit.scope["draftboard.user"] = _let_in(visit)
    except Refused as refusal:
        return _refused(visit, refusal)
    asked = visit.cookies.get(_ASKED)
    if asked and visit.scope["type"] == "http" and _is_first_page(visit):
        return _led_on(unquote(asked))
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
        if not (is_own or is_allowed_origin(origin)):
            return _refused(visit, Refused(_ELSEWHERE))
    return None


def _let_in(visit: HTTPConnection) -> User:
    """Return the visitor. Raises Refused, also for a file that a viewer sends."""
    host = host_of(visit.headers.get("host"))
    secret = tokens_door.secret_of(visit)
    user = tokens_door.user_of(host, secret) if secret else user_of(host, _claims(visit.cookies))
    visit.scope["draftboard.limits"] = configured_limits()
    if path_of(visit.scope).startswith(UPLOADS):
        require_role(user, "editor")
    return user


def _is_first_page(visit: HTTPConnection) -> bool:
    return path_of(visit.scope) == "/" and not visit.url.query


def _refused(visit: HTTPConnection, refusal: Refused) -> ASGIApp:
    if visit.scope["type"] == "websocket":
        return _closed
    if is_for_programs(visit.scope):
        return problems.refused(refusal)
    if "text/html" not in visit.headers.get("accept", ""):
        return PlainTextResponse(f"{refusal}\n", status_code=HTTPStatus.FORBIDDEN)
    page = HTMLResponse(
        _PAGE.format(sentence=escape(str(refusal)), ways=_ways(refusal)),
        status_code=HTTPStatus.FORBIDDEN,
        headers={"Cache-Control": "no-store"},
    )
    if isinstance(refusal, LoginNeeded):
        _remember(page, Request(visit.scope))
    return page


async def _closed(_: Scope, receive: Receive, send: Send) -> None:
    """Refuse a websocket before it is one: the server answers 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})


def _remember(page: Response, visit: Request) -> None:
    """Keep the address that was asked for until its reader has logged in."""
    asked = visit.url.path + (f"?{visit.url.query}" if visit.url.query else "")
    page.set_cookie(_ASKED, quote(asked, safe=""), max_age=_WAITS_S, httponly=True, samesite="lax")


def _led_on(asked: str) -> Response:
    """Return a redirect to the address that was asked for before the login. Whatever that holds,
    the redirect stays on this server."""
    there = urlsplit(asked)
    path = "/" + there.path.lstrip("/\\")
    answer = RedirectResponse(
        path + (f"?{there.query}" if parse_qsl(there.query) else ""),
        status_code=HTTPStatus.SEE_OTHER,
    )
    answer.delete_cookie(_ASKED)
    return answer


def log_in(visit: Request) -> Response:
    """Lead to the provider that was chosen, by way of Streamlit's own login."""
    try:
        login = configured_login()
    except Refused as refusal:
        return PlainTextResponse(f"{refusal}\n", status_code=HTTPStatus.FORBIDDEN)
    chosen = visit.query_params.get("provider") or None
    if login is None or chosen not in login.providers:
        return RedirectResponse(f"{base()}/", status_code=HTTPStatus.SEE_OTHER)
    return RedirectResponse(
        # What Streamlit calls the provider that has no name.
        generate_login_redirect_url(chosen or "default"),
        status_code=HTTPStatus.SEE_OTHER,
    )


def _ways(refusal: Refused) -> str:
    """Return the buttons that lead in, one for each provider, or out."""
    if isinstance(refusal, NotAllowed):
        return _way("Log out", "/auth/logout")
    login = configured_login() if isinstance(refusal, LoginNeeded) else None
    return "".join(
        _way(f"Log in with {provider}", LOGIN, provider) if provider else _way("Log in", LOGIN)
        for provider in (login.providers if login else ())
    )


def _way(label: str, path: str, provider: str = "") -> str:
    """Return a link: a form may not lead to the provider's site, nor may it where others send it."""
    query = f"?{urlencode({'provider': provider})}" if provider else ""
    return f'<p><a href="{escape(base() + path + query)}">{escape(label)}</a></p>'


def _claims(cookies: Mapping[str, str]) -> dict[str, Any]:
    """Return what a provider said of this visitor, from the cookie that Streamlit has signed; else
    nothing."""
    if configured_login() is None:
        return {}
    secret = get_cookie_secret()
    signed = get_cookie_with_chunks(
        lambda name: decode_signed_value(secret, name, cookies.get(name, "")), USER_COOKIE_NAME
    )
    try:
        claims = json.loads(signed or b"{}")
    except ValueError:
        return {}
    known = isinstance(claims, dict) and claims.get("origin") == get_origin_from_redirect_uri()
    return claims if known else {}
