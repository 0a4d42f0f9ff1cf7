"""What each client has open and has asked for lately, held to limits. Pure: time is given.

A client is who is logged in, or the address of a machine where nobody logs in.
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Count = Annotated[int, Field(gt=0, le=1_000_000)]
#: How far back the bytes of uploads count, in seconds.
UPLOADS_S = 600.0
#: With so many clients it looks for those to forget.
_MANY = 1_000
_MINUTE_S = 60.0


class Limits(BaseModel):
    """The section ``[draftboard.limits]`` of the secrets: what one client may have at most; see
    docs/security.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    #: Pages that are open at once.
    sessions: _Count = 64
    #: Uploads on their way at once, and megabytes in ten minutes.
    uploads: _Count = 8
    upload_mb: _Count = 800
    #: Questions to the API on their way at once, and in a minute.
    calls: _Count = 16
    calls_per_minute: _Count = 12_000


class OverLimit(Exception):
    """A client has as much as it may have; the text says so. ``wait_s``: when to try again."""

    def __init__(self, said: str, wait_s: float) -> None:
        super().__init__(said)
        self.wait_s = max(1, round(wait_s))


@dataclass
class Ledger:
    """What each client of one server has open and has uploaded. It forgets clients with nothing of
    either."""

    _open: Counter[tuple[str, str]] = field(default_factory=Counter)
    _bytes: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))
    _calls: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def enter(self, client: str, what: str, most: int) -> None:
        """Count one more of ``what`` until ``leave``. Raises OverLimit."""
        if self._open[client, what] >= most:
            raise OverLimit(
                f"You have {most:,} {what} open, which is as many as one client may have; "
                "close some, or try again later.", 5,
            )  # fmt: skip
        self._open[client, what] += 1

    def leave(self, client: str, what: str) -> None:
        """Count one less of ``what``."""
        self._open[client, what] -= 1
        if self._open[client, what] <= 0:
            del self._open[client, what]

    def take_bytes(self, client: str, size: int, limits: Limits, now: float) -> None:
        """Count an upload of ``size`` bytes. Raises OverLimit. ``now``: seconds."""
        sent = self._bytes[client]
        while sent and now - sent[0][0] >= UPLOADS_S:
            sent.popleft()
        if sum(each for _, each in sent) + size > limits.upload_mb << 20:
            first = sent[0][0] if sent else now
            raise OverLimit(
                f"You have sent as much as one client may in ten minutes ({limits.upload_mb:,} MB); "
                "try again later.", UPLOADS_S - (now - first),
            )  # fmt: skip
        sent.append((now, size))
        self._forget(now)

    def call(self, client: str, limits: Limits, now: float) -> None:
        """Count a question to the API. Raises OverLimit. ``now``: seconds."""
        asked = self._calls[client]
        while asked and now - asked[0] >= _MINUTE_S:
            asked.popleft()
        if len(asked) >= limits.calls_per_minute:
            raise OverLimit(
                f"You have asked {limits.calls_per_minute:,} times within a minute, which is as "
                "often as one client may; try again later.", _MINUTE_S - (now - asked[0]),
            )  # fmt: skip
        asked.append(now)
        if len(self._calls) >= _MANY:
            silent = [one for one, times in self._calls.items() if now - times[-1] >= _MINUTE_S]
            for one in silent:
                del self._calls[one]

    def _forget(self, now: float) -> None:
        """Drop clients that have uploaded nothing for long; looked at when there are many."""
        if len(self._bytes) >= _MANY:
            silent = [
                client
                for client, sent in self._bytes.items()
                if not sent or now - sent[-1][0] >= UPLOADS_S
            ]
            for client in silent:
                del self._bytes[client]
