"""The catalogue that a user names: its address without the password, which is never shown or kept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.secrets.texts import scrub_text

POSTGRES = ("postgresql", "postgres")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST = 300


@dataclass(frozen=True)
class Target:
    """A catalogue: its address, and the password that stood in it."""

    uri: str
    password: str | None = None

    @property
    def is_postgres(self) -> bool:
        """Return whether the catalogue is kept in Postgres."""
        return urlsplit(self.uri).scheme in POSTGRES

    def safe(self, text: str) -> str:
        """Return the first line of what a library said, without the password."""
        line = " ".join((text.strip().splitlines() or ["no reason given"])[0].split())
        if self.password:
            line = line.replace(self.password, "***")
        return scrub_text(line)[:_LONGEST].rstrip(".: ")


@dataclass(frozen=True)
class Order:
    """What a user asks for: which catalogue and schema, where files go the first time, and whether a
    newer generation may be replaced."""

    target: Target
    schema: str
    location: str | None = None
    replace: bool = False


def target_of(given: str) -> Target:
    """Return the catalogue that an address names, its password apart."""
    parts = urlsplit(given)
    if not parts.netloc:
        return Target(given)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    asked = parse_qsl(parts.query, keep_blank_values=True)
    named = dict(asked).get("password")
    rest = urlencode([(key, value) for key, value in asked if key != "password"], safe="/")
    uri = urlunsplit((parts.scheme, f"{name}{at}{host}", parts.path, rest, ""))
    return Target(uri, named or unquote(password) or None)


def require_name(schema: str) -> str:
    """Return the name of a schema. Raises InvalidInput for one that an engine would have to quote."""
    if not _NAME.fullmatch(schema):
        raise InvalidInput(
            f"{schema!r} is no name for a schema: take letters, digits and _, a letter first."
        )
    return schema


def place_of(location: str | None) -> str | None:
    """Return where data go, as an address: a folder is named absolutely."""
    if location is None or "://" in location:
        return location
    return str(Path(location).absolute())


def nothing_of(generation: int) -> str:
    """Return what every refused publication says of what became of it."""
    return f"nothing of generation {generation} was published"


def raced(target: Target, generation: int) -> DraftboardError:
    """Return the error to raise where somebody else wrote at the same time."""
    return DraftboardError(
        f"Somebody else wrote into {target.uri} at the same time: {nothing_of(generation)}; run the "
        "same command again."
    )


def foreign(order: Order, names: Sequence[str]) -> InvalidInput:
    """Return the error to raise where a schema has tables of somebody else under our names."""
    return InvalidInput(
        f"{order.target.uri} has tables in the schema {order.schema} that Draftboard did not write "
        f"({', '.join(names[:3])}); nothing was changed: name another with --schema."
    )
