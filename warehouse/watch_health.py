"""``watch.json`` in the warehouse's folder: how the watcher is, for people and health checks."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from warehouse.errors import DraftboardError
from warehouse.store_cache import name_of

NAME = "watch.json"
#: Not the prefix of the store's own private files: a writer that starts would remove those.
_PRIVATE = ".watch.json.new"


class Trouble(BaseModel):
    """The last thing that went wrong, and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    text: str


class Health(BaseModel):
    """What a watcher says of itself after every pass; counts are since its start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    host: str
    folders: tuple[str, ...]
    interval_s: float
    since: datetime
    last_pass: datetime | None = None
    passes: int = 0
    due: datetime
    """By then it will have reported again, unless it is dead or stuck."""
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    waiting: int = 0
    """Seen and not yet read: still being written, or the warehouse is busy."""
    generation: int = 0
    last_error: Trouble | None = None
    stopped: datetime | None = None
    """When it was told to end."""


def this_host() -> str:
    """Return the name under which a watcher of this machine, or container, reports."""
    return socket.gethostname()


def write_health(root: Path, health: Health) -> None:
    """Replace the last report. Not synced to the disk: after a loss of power it is stale anyway."""
    private = root / _PRIVATE
    private.write_text(health.model_dump_json(indent=1) + "\n", encoding="utf-8")
    private.replace(root / NAME)


def read_health(root: Path) -> Health:
    """Read the last report. Raises DraftboardError where there is none, or none that can be
    read."""
    path = root / NAME
    try:
        return Health.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DraftboardError(
            f"No watcher has reported to {name_of(root)} from this machine; start one with: "
            f"draftboard ingest --watch DIR --warehouse {name_of(root)}"
        ) from None
    except (OSError, ValidationError) as error:
        said = str(error).splitlines()[0]
        raise DraftboardError(
            f"{path} cannot be read ({said}); a running watcher writes it anew within a minute."
        ) from None


def complaint(health: Health, now: datetime | None = None) -> str | None:
    """Say why this watcher does not work, in one sentence; None where it does."""
    now = now or datetime.now(UTC)
    if health.stopped is not None:
        return f"The watcher was stopped {_ago(health.stopped, now)}; start it again."
    if health.host == this_host() and not _runs(health.pid):
        return f"The watcher (process {health.pid}) has died; start it again."
    if now > health.due:
        return (
            f"The watcher on {health.host} is late: its next report was due "
            f"{_ago(health.due, now)}; if it does not come back, start it again."
        )
    return None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ago(then: datetime, now: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < 120:
        return f"{seconds} s ago"
    return f"{seconds // 60:,} min ago"
