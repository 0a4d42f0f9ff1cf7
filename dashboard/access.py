"""Who reads, and what they may: asked by the gate at every address, by the frame at every action.

Login is Streamlit's own (OpenID Connect), switched on by ``[auth]`` in Streamlit's secrets. Without
it a page is for this machine alone, unless ``DRAFTBOARD_OPEN_TO_EVERYONE`` says otherwise.
"""

import ipaddress
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from dashboard.access_rules import (
    ANYBODY,
    LOCAL,
    LOCAL_NAMES,
    ClientLimits,
    Login,
    LoginNeeded,
    NotLetIn,
    Role,
    User,
    decided,
    limits_from,
    login_from,
    require_role,
)
from warehouse import annotations
from warehouse.store_cache import warehouse_path

#: Set to ``viewer`` or ``editor``: what everybody may who reaches a server without a login.
OPEN = "DRAFTBOARD_OPEN_TO_EVERYONE"
_NO_LOGIN = (
    "This dashboard can be reached from other machines and has no login, so it shows nothing; set "
    f"up a login (docs/sharing.md), bind it to localhost, or set {OPEN} to viewer or editor."
)
_UNKNOWN_TOKEN = "This token does not count: it is unknown, has ended, or was taken back."
_OPEN_ROLES: dict[str, Role] = {"viewer": "viewer", "editor": "editor"}
_UNREADABLE = (
    "Streamlit's secrets are there but cannot be read, so nobody is let in; the server's log says "
    "which file and line."
)


def current_user() -> User:
    """Return the person whose browser shows this page.

    Raises LoginNeeded, NotAllowed or NotLetIn, whose texts are for that person.
    """
    return user_of(host_of(st.context.headers.get("Host")), st.user.to_dict())


def user_of(host: str, claims: Mapping[str, Any]) -> User:
    """Return the person who asks for the dashboard under the name ``host``, with a provider's
    ``claims``.

    Raises LoginNeeded, NotAllowed or NotLetIn, whose texts are for that person.
    """
    login = configured_login()
    require_known_name(host, login)
    if login is not None:
        return decided(login, claims, time.time())
    if _is_local(str(st.get_option("server.address") or "")) and (not host or _is_local(host)):
        return User(LOCAL, "", "admin")
    role = _OPEN_ROLES.get(os.environ.get(OPEN, ""))
    if role is None:
        raise NotLetIn(_NO_LOGIN)
    return User(ANYBODY, "", role)


def owner_of(host: str, secret: str) -> User:
    """Return the owner of a token as a viewer, who reads and does nothing else with it. Without a
    login a token gives nothing that others lack.

    Raises LoginNeeded for a token that does not count, and NotAllowed for an owner whom the settings
    of the login do not name by the address.
    """
    token = annotations.find_token(warehouse_path(None), secret)
    if token is None:
        raise LoginNeeded(_UNKNOWN_TOKEN)
    login = configured_login()
    if login is None:
        return user_of(host, {})
    require_known_name(host, login)
    now = time.time()
    # What the provider would say of the owner, whose address an administrator has written.
    owner = {
        "is_logged_in": True, "email": token.account, "email_verified": True,
        "exp": now + 60, "iat": now,
    }  # fmt: skip
    return User(token.account, decided(login, owner, now).email, "viewer")


def host_of(header: str | None) -> str:
    """Return the name by which a browser asks, from its Host header, without the port.

    Empty where none was said, which no browser does: only a browser can be led astray.
    """
    try:
        return (urlsplit(f"//{header or ''}").hostname or "").rstrip(".")
    except ValueError:
        return header or ""


def client() -> str:
    """Return the name under which quotas count the reader of this page: the account, else the
    machine's address."""
    return current_user().account or str(st.context.ip_address or "this machine")


def require_editor() -> User:
    """Return the current user, who may upload, write notes and exclude runs. Raises NotAllowed
    else."""
    return require_role(current_user(), "editor")


def may_edit() -> bool:
    """Return whether to offer what takes the role editor. Actions ask ``require_editor`` all the
    same."""
    return current_user().may("editor")


def configured_login() -> Login | None:
    """Return the login of this server; None where none is set up. Raises NotLetIn where it is
    wrong."""
    return login_from(_secrets())


def configured_limits() -> ClientLimits:
    """Return what one client may have at most. Raises NotLetIn where the settings are wrong."""
    return limits_from(_secrets())


def _secrets() -> Mapping[str, Any]:
    """Return Streamlit's secrets. A file that is there and cannot be read must not look like no
    login."""
    try:
        return dict(st.secrets.to_dict())
    except (OSError, ValueError):
        if any(Path(file).exists() for file in st.get_option("secrets.files")):
            raise NotLetIn(_UNREADABLE) from None
        return {}


def require_known_name(host: str, login: Login | None) -> None:
    """Refuse a name that somebody else may have pointed at this machine (DNS rebinding).

    ``server.allowedHosts`` has been checked by Streamlit where it is set. An address in digits is no
    name, and nobody else's.
    """
    known = {"", socket.gethostname().casefold(), login.host if login else ""}
    if st.get_option("server.allowedHosts") or host in known or _is_local(host):
        return
    if not _is_address(host):
        raise NotLetIn(
            "This dashboard is not known under the name in your browser's address bar; the person "
            "who runs it can allow the name with: draftboard dashboard --name NAME"
        )


def _is_local(host: str) -> bool:
    return host in LOCAL_NAMES or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
