"""Personal tokens, by which a program asks in a person's name. Only a hash of each is kept.

One file, a JSON object a line, only ever added to: a token is made, and one is taken back.
"""

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated

import idna
import msgspec

from warehouse import audit, lines
from warehouse.errors import UnknownKey

FILE = "tokens.jsonl"
PREFIX = "draftboard_"
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True)
class Token:
    """Whose token, and until when it counts (UTC). ``digest``: SHA-256 of the secret, whose 256
    random bits nobody guesses. ``revoked``: this line takes the token of that id back."""

    id: str
    account: str
    made: _Time
    ends: _Time
    digest: str
    revoked: bool = False


def account_of(address: str) -> str:
    """Return a mail address as it is compared: its domain as the rules of domain names say (IDNA), what
    stands before it with small letters for A to Z only. ``groß`` is not ``gross``."""
    name, at, domain = address.rpartition("@")
    try:
        domain = idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        domain = _small(domain)
    return f"{_small(name)}{at}{domain}"


def _small(text: str) -> str:
    # Of bytes only A to Z have small letters.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def make(root: Path, account: str, days: int, who: str) -> tuple[Token, str]:
    """Make a token, and return it with its secret, which is told once and kept nowhere. ``who``: who
    makes it.

    Raises as ``lines.append``.
    """
    number, word = secrets.token_hex(4), secrets.token_urlsafe(32)
    secret, now = f"{PREFIX}{number}_{word}", datetime.now(UTC)
    token = Token(number, account_of(account), now, now + timedelta(days=days), _digest(secret))
    _add(root, token)
    audit.add(root, who, None, "token", f"token {token.id} of {token.account}")
    return token, secret


def revoke(root: Path, number: str, who: str) -> Token:
    """Take a token back; it counts no more from the next request on. Raises UnknownKey."""
    token = next((one for one in held(root) if one.id == number), None)
    if token is None:
        known = ", ".join(one.id for one in held(root)) or "none"
        raise UnknownKey(f"There is no token {number!r}; those that count are: {known}.")
    _add(root, replace(token, revoked=True))
    audit.add(root, who, None, "revoke", f"token {number} of {token.account}")
    return token


def held(root: Path) -> tuple[Token, ...]:
    """Return the tokens that count now, oldest first."""
    known = {token.id: token for token in lines.read(root / FILE, Token)}
    now = datetime.now(UTC)
    return tuple(one for one in known.values() if not one.revoked and now < one.ends)


def find(root: Path, secret: str) -> Token | None:
    """Return the token whose secret this is, where it counts."""
    digest = _digest(secret)
    return next((one for one in held(root) if compare_digest(one.digest, digest)), None)


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _add(root: Path, token: Token) -> None:
    lines.append(root, FILE, msgspec.json.encode(token) + b"\n")
