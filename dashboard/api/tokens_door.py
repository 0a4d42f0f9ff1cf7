"""Who asks with a token: its owner, who reads and does nothing else with it."""

import time

from starlette.requests import HTTPConnection

from dashboard import access
from dashboard.access_rules import decided
from dashboard.addresses import is_for_programs
from dashboard.user import LoginNeeded, User
from warehouse import tokens
from warehouse.store import warehouse_path

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
    token = tokens.find(warehouse_path(None), secret)
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
