"""An object store, by its URL: whole objects, and one of them replaced on a condition.

The only module that knows obstore. Credentials, region and endpoint are found where obstore looks for
them, in the environment or the machine's own identity; nothing of them is kept, or said in an error.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    NotSupportedError,
    PreconditionError,
)
from obstore.store import from_url

from warehouse.errors import WarehouseUnreachable
from warehouse.storage.files import PRIVATE

_CLIENT: Any = {"connect_timeout": "5 seconds", "timeout": "60 seconds", "allow_http": True}
#: A server that is away for longer than this is said to be away.
_RETRY: Any = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=3)},
}
#: What a server's answer holds -> what it means, and what to do. The first that is found counts.
_CAUSES = (
    (r"NoSuchBucket|ContainerNotFound|bucket does not exist",
     "there is no such bucket (or it is gone): make it, or name another --warehouse"),
    (r"MissingAccount",
     "no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME"),
    (r"169\.254\.169\.254|latest/api/token|metadata\.google|CredentialsNotFound|[Nn]o credentials|instance metadata",
     "no credentials were found: set them as the cloud's own tools take them "
     "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or an identity of the machine)"),
    (r"ExpiredToken|TokenRefreshRequired|token.{0,20}expired",
     "the credentials have expired: log in again with the cloud's own tool, then run it again"),
    (r"RequestTimeTooSkewed",
     "this machine's clock is wrong by more than the store accepts: set it, then run it again"),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|redirect without",
     "the bucket is in another region: set AWS_REGION to the bucket's, then run it again"),
    (r"AccessDenied|AuthorizationPermissionMismatch|403 Forbidden.*AccessDenied",
     "the credentials may not do this: ask for the right to list, read and write there"),
    (r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidClientTokenId|401 Unauthorized|403 Forbidden",
     "the credentials are not accepted: check them (AWS_ACCESS_KEY_ID and its like)"),
    (r"SlowDown|503 Service Unavailable|500 Internal|502 Bad|504 Gateway|429 Too",
     "the store is overloaded or out of order: run it again later"),
)  # fmt: skip
#: A tag that no object has.
_NEVER = '"0123456789abcdef0123456789abcdef" 1'


#: The object has the tag that was asked about: there is nothing new.
Unchanged = NotModifiedError


@dataclass(frozen=True)
class ObjectEntry:
    """One object of a listing; ``modified`` by the store's own clock (UTC)."""

    name: str
    bytes: int
    tag: str
    modified: datetime


@dataclass(frozen=True)
class StoredObject:
    """The content of an object, and the tag by which it is replaced on a condition."""

    content: bytes
    tag: str

    @property
    def text(self) -> str:
        """The content as a name that stands in it: what CURRENT names."""
        return self.content.decode("utf-8", "replace").strip()


class ObjectStore:
    """What lies below ``url``, e.g. ``s3://bucket/prefix``.

    Every method raises WarehouseUnreachable in one sentence where the store does not do it.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with self._explained():
            self._store: Any = from_url(self.url, client_options=_CLIENT, retry_config=_RETRY)

    def get(self, name: str, unless: str | None = None) -> StoredObject | None:
        """Return an object; None where there is none. ``unless``: a tag; raises Unchanged where the
        object still has it."""
        asked: Any = {"if_none_match": unless.split()[0]} if unless else None
        try:
            with self._explained():
                got = obstore.get(self._store, name, options=asked)
                return StoredObject(bytes(got.bytes()), _tag(got.meta))
        except FileNotFoundError:
            return None

    def fetch(self, name: str, place: Path) -> bool:
        """Write an object into a file; return False where there is none."""
        try:
            with self._explained(), place.open("wb") as file:
                for part in obstore.get(self._store, name).stream():
                    file.write(part)
        except FileNotFoundError:
            return False
        return True

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 (hex) of an object's content; None where there is none."""
        found = hashlib.sha256()
        try:
            with self._explained():
                for part in obstore.get(self._store, name).stream():
                    found.update(part)
        except FileNotFoundError:
            return None
        return found.hexdigest()

    def send(self, content: Path | bytes, name: str) -> None:
        """Write a file, or bytes, into an object, which has its new content at once or not at all."""
        with self._explained():
            obstore.put(self._store, name, content)

    def replace(self, name: str, content: bytes, tag: str | None) -> str | None:
        """Replace the object that has this tag, with None make it; return its new tag, None where it
        has another content by now: an answer that was cut is asked for again, and meets what the first
        one wrote.
        """
        mode: Any = (
            "create" if tag is None else dict(zip(("e_tag", "version"), tag.split(), strict=False))
        )
        try:
            with self._explained():
                return _tag(obstore.put(self._store, name, content, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            there = self.get(name)
            return None if there is None or there.content != content else there.tag

    def entries(self, folder: str | None = "") -> list[ObjectEntry]:
        """Return the objects of a folder and those below it; of ``""`` only those at the top, of None
        all that there are."""
        with self._explained():
            if folder == "":
                found: Iterable[Any] = obstore.list_with_delimiter(self._store)["objects"]
            else:
                below = None if folder is None else f"{folder}/"
                parts = obstore.list(self._store, below, chunk_size=1000)
                found = (one for part in parts for one in part)
            return [
                ObjectEntry(o["path"], o["size"], str(o["e_tag"]), o["last_modified"])
                for o in found
            ]

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are passed over."""
        with self._explained():
            for name in names:
                with suppress(FileNotFoundError):
                    obstore.delete(self._store, name)

    def require_conditions(self) -> None:
        """Raise where the store takes a condition and does not keep to it: there two writers would
        lose each other's results."""
        name = f"{PRIVATE}{secrets.token_hex(8)}"
        try:
            kept = (
                self.replace(name, b"1", None) is not None
                and not self.replace(name, b"2", None)
                and not self.replace(name, b"3", _NEVER)
            )
        except NotSupportedError:
            kept = False
        else:
            self.remove([name])
        if not kept:
            raise WarehouseUnreachable(
                f"{self.url} lies in a store that does not keep to conditions (If-Match, "
                "If-None-Match) when it writes: two writers would lose each other's results, so "
                "nothing is written there; name a --warehouse in a store with conditional writes."
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (NotModifiedError, AlreadyExistsError, PreconditionError, NotSupportedError):
            raise
        except (FileNotFoundError, BaseError, ValueError, PermissionError) as error:
            text = str(error)
            # A bucket that is not there says the same as an object that is not.
            if isinstance(error, FileNotFoundError) and not re.search(_CAUSES[0][0], text):
                raise
            why = next(
                (why for look, why in _CAUSES if re.search(look, text, re.DOTALL)),
                "no answer, or none that is whole: check the address and the network",
            )
            raise WarehouseUnreachable(f"{self.url} cannot be used: {why}.") from None


def _tag(meta: Any) -> str:
    """Return an object's tag: what it is known by again, and where the store counts its versions,
    which one it is. Google's replaces by the version alone.
    """
    return " ".join(filter(None, (str(meta["e_tag"]), meta["version"])))
