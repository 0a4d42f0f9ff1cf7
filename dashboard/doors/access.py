"""Who reads, and what they may: asked by the gate at every address, by the frame at every action.

Login is Streamlit's own (OpenID Connect), switched on by ``[auth]`` in Streamlit's secrets. Without
it a page is for this machine alone, unless ``DRAFTBOARD_OPEN_TO_EVERYONE`` says otherwise.
"""

import ipaddress
import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import streamlit as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from warehouse.annotations import LONGEST_AUTHOR, account_of, find_token
from warehouse.errors import DraftboardError
from warehouse.storage.cache import warehouse_path

# --- Who is let in: the settings of a login, and what they make of a provider's claims. Pure.
#
# Whatever is missing, unknown or in doubt is a refusal. A refusal names settings, never their values.


LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
#: A shorter secret can be guessed, and who knows it can sign any login.
_SECRET_LENGTH = 32
_CALLBACK = "/oauth2callback"
#: Seconds of the clock that no login reaches (the year 5138): what says so counts in another unit.
_LATEST = 1e11


# --- Who reads, as what, and why somebody may not.

#: From the least to the most; who has one has those before it.
Role = Literal["viewer", "editor", "admin"]
_ROLES: tuple[Role, ...] = get_args(Role)
#: The names of those who read where nobody logs in.
LOCAL, ANYBODY = "local", "anybody"
_NEEDED = {
    "viewer": "to see results",
    "editor": "to upload, to write notes and to exclude runs",
    "admin": "to read the audit trail",
}


@dataclass(frozen=True)
class User:
    """Who reads: ``name`` for people, ``email`` empty where the provider did not vouch for it."""

    name: str
    email: str
    role: Role

    @property
    def account(self) -> str:
        """The name under which quotas count this person: the address, else the name; empty without
        a login."""
        return self.email or ("" if self.name in (LOCAL, ANYBODY) else self.name)

    def may(self, role: Role) -> bool:
        """Return whether this person has ``role`` or more."""
        return _ROLES.index(self.role) >= _ROLES.index(role)


class NotLetIn(DraftboardError):
    """A visitor may see nothing; the text says why."""


class LoginNeeded(NotLetIn):
    """Nobody is logged in, or no longer."""


class NotAllowed(NotLetIn):
    """Somebody is logged in whom the settings do not let in, or not to this."""


def require_role(user: User, role: Role) -> User:
    """Return the user. Raises NotAllowed for one who has less than ``role``."""
    if not user.may(role):
        raise NotAllowed(f"Your role is {user.role}: {_NEEDED[role]} takes the role {role}.")
    return user


# --- The settings of a login, and of quotas.


def _domain(text: str) -> str:
    return account_of(text.removeprefix("@"))


def _safe_url(text: str) -> str:
    parts = urlsplit(text)
    if not parts.hostname or (parts.scheme != "https" and parts.hostname not in LOCAL_NAMES):
        raise ValueError("neither https nor localhost")
    return text


def _callback(text: str) -> str:
    if not urlsplit(_safe_url(text)).path.endswith(_CALLBACK):
        raise ValueError(f"does not end in {_CALLBACK}")
    return text


_Text = Annotated[str, Field(min_length=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class People(_Settings):
    """Whom a role is given to: by address, by the domain of the address, or by group."""

    addresses: tuple[
        Annotated[str, Field(pattern=r"^[^@* \t]+@[^* \t]+$"), AfterValidator(account_of)], ...
    ] = ()
    domains: tuple[
        Annotated[str, Field(pattern=r"^@?[^@* \t]+$"), AfterValidator(_domain)], ...
    ] = ()
    groups: tuple[_Text, ...] = ()

    def hold(self, address: str, groups: Iterable[str]) -> bool:
        """Return whether this person is named by address, by domain or by a group."""
        domain = address.rpartition("@")[2]
        return (
            address in self.addresses
            or (bool(domain) and domain in self.domains)
            or not set(groups).isdisjoint(self.groups)
        )


class Access(_Settings):
    """The section ``[draftboard.access]`` of the secrets, which says who may read; see
    docs/sharing.md."""

    viewers: People = People()
    editors: People = People()
    admins: People = People()
    group_claim: _Text = "groups"
    #: Addresses count although the provider does not say that it has verified them.
    trust_addresses: bool = False
    #: Hours from the login until the next one; None: until the provider's token expires.
    session_hours: Annotated[float, Field(gt=0, le=720)] | None = None


class _Provider(_Settings):
    model_config = ConfigDict(extra="ignore")
    client_id: _Text
    client_secret: _Text
    server_metadata_url: Annotated[str, AfterValidator(_safe_url)]


class _Auth(_Settings):
    model_config = ConfigDict(extra="ignore")
    redirect_uri: Annotated[str, AfterValidator(_callback)]
    cookie_secret: Annotated[str, Field(min_length=_SECRET_LENGTH)]


_Count = Annotated[int, Field(gt=0, le=1_000_000)]


class ClientLimits(_Settings):
    """The section ``[draftboard.limits]`` of the secrets: what one client may have at most; see
    docs/security.md."""

    #: Pages that are open at once.
    sessions: _Count = 64
    #: Uploads on their way at once, and megabytes in ten minutes.
    uploads: _Count = 8
    upload_mb: _Count = 800
    #: Questions to the API on their way at once, and in a minute.
    calls: _Count = 16
    calls_per_minute: _Count = 12_000


@dataclass(frozen=True)
class Login:
    """A login that is switched on. ``providers``: Streamlit's names, None for the unnamed one;
    ``origin``: the scheme, host and port under which the dashboard is opened."""

    providers: tuple[str | None, ...]
    origin: str
    access: Access

    @property
    def host(self) -> str:
        """The name under which the dashboard is opened."""
        return urlsplit(self.origin).hostname or ""


def login_from(secrets: Mapping[str, Any]) -> Login | None:
    """Return the login that Streamlit's secrets describe; None where they describe none.

    Raises NotLetIn where they are incomplete, wrong, or let nobody in.
    """
    own = secrets.get("draftboard")
    stated = own.get("access") if isinstance(own, Mapping) else own
    if "auth" not in secrets and stated is None:
        return None
    try:
        auth = _Auth.model_validate(secrets.get("auth"))
        providers = _providers(secrets["auth"])
        access = Access.model_validate(stated)
    except ValidationError as error:
        raise _wrong(_where(error)) from None
    if not providers:
        raise _wrong("auth: no provider")
    if People() == access.viewers == access.editors == access.admins:
        raise _wrong("draftboard.access: neither viewers nor editors")
    parts = urlsplit(auth.redirect_uri)
    return Login(providers, f"{parts.scheme}://{parts.netloc}", access)


def limits_from(secrets: Mapping[str, Any]) -> ClientLimits:
    own = secrets.get("draftboard")
    try:
        return ClientLimits.model_validate(
            own.get("limits", {}) if isinstance(own, Mapping) else {}
        )
    except ValidationError as error:
        raise _wrong(_where(error)) from None


def decided(login: Login, claims: Mapping[str, Any], now: float) -> User:
    """Return the user whom these claims of a provider describe. ``now``: unix seconds.

    Raises LoginNeeded where nobody is logged in or the login is over, NotAllowed where the settings
    do not name this person.
    """
    if claims.get("is_logged_in") is not True:
        raise LoginNeeded("Log in to see this dashboard.")
    ends = _ends(claims, login.access.session_hours)
    if ends is None:
        raise NotAllowed(
            "Your login does not say how long it holds, so it does not count here; ask the person "
            "who runs this dashboard."
        )
    if now >= ends:
        raise LoginNeeded("Your login has expired; log in again.")
    address = _vouched(claims, login.access.trust_addresses)
    groups = claims.get(login.access.group_claim)
    groups = [each for each in (groups if isinstance(groups, list) else [groups])
              if isinstance(each, str)]  # fmt: skip
    people = (login.access.viewers, login.access.editors, login.access.admins)
    held = [role for role, named in zip(_ROLES, people, strict=True) if named.hold(address, groups)]
    if not held:
        raise NotAllowed(
            "You are logged in, but nobody has given you access to this dashboard; ask the person "
            "who runs it."
        )
    return User(_name(claims, address), address, held[-1])


def _ends(claims: Mapping[str, Any], hours: float | None) -> float | None:
    claim, more = ("exp", 0.0) if hours is None else ("iat", hours * 3600)
    value = claims.get(claim)
    # What is no number is before nothing and after nothing, and would hold for ever.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LATEST:
        return None
    return value + more


def _vouched(claims: Mapping[str, Any], trusted: bool) -> str:
    """Return the mail address as it is compared; empty where it is neither verified nor trusted."""
    address = claims.get("email")
    if not isinstance(address, str) or address.count("@") != 1:
        return ""
    # Some providers write the word; anything but a plain yes is a no.
    verified = claims.get("email_verified")
    return account_of(address) if verified is True or verified == "true" or trusted else ""


def _name(claims: Mapping[str, Any], address: str) -> str:
    stated = (claims.get(key) for key in ("name", "preferred_username"))
    first = next((each for each in stated if isinstance(each, str) and each.strip()), address)
    name = first or str(claims.get("sub", "somebody"))
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:LONGEST_AUTHOR]


def _providers(auth: Mapping[str, Any]) -> tuple[str | None, ...]:
    providers: list[str | None] = []
    if "client_id" in auth:
        _Provider.model_validate(auth)
        providers.append(None)
    for name, value in auth.items():
        # Streamlit's own key for more settings of the unnamed provider.
        if name == "client_kwargs" or not isinstance(value, Mapping):
            continue
        if "_" in name:
            raise _wrong("auth: Streamlit takes no underscore in a provider's name")
        _Provider.model_validate(value)
        providers.append(name)
    return tuple(providers)


_OURS = {"redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url",
         *Access.model_fields, *People.model_fields, *ClientLimits.model_fields}  # fmt: skip
_SECTIONS = {"_Auth": "auth", "_Provider": "auth", "ClientLimits": "draftboard.limits"}


def _where(error: ValidationError) -> str:
    """Return the name of the setting that is wrong. A name that is not ours is not repeated: it may
    be a secret in the wrong place."""
    path = error.errors(include_input=False)[0]["loc"]
    # Of a list the number says which entry.
    ours = [str(part) for part in path if isinstance(part, int) or part in _OURS]
    section = _SECTIONS.get(error.title, "draftboard.access")
    return ".".join([section, *ours]) + ("" if len(ours) == len(path) else ": an unknown entry")


def _wrong(what: str) -> NotLetIn:
    return NotLetIn(
        f"The login of this dashboard is not set up correctly ({what}), so nobody is let in; "
        "docs/sharing.md shows the settings."
    )


# ---


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
    token = find_token(warehouse_path(None), secret)
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
    if (
        st.get_option("server.allowedHosts")
        or host in {"", socket.gethostname().casefold(), login.host if login else ""}
        or _is_local(host)
    ):
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
