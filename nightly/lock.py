"""One night at a time in a results folder: a lock that the system lets go of when its holder dies."""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from nightly.place import FOLDER, write_whole
from warehouse.errors import RunnerError


class AnotherNight(RunnerError):
    """Another process holds the lock."""


@contextmanager
def one_night(results: Path, study: str) -> Iterator[None]:
    """Hold the lock of ``results``; raises AnotherNight, which names the holder.

    Two studies measured at once would disturb one another, so they share it. The name of the holder
    is for people: only the system's lock counts, and a dead process holds none.
    """
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(
        folder / ".lock", fallback_to_soft=False, preserve_lock_file=True, thread_local=False
    )
    holder = folder / ".lock.holder"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise AnotherNight(
            f"Another night is running in {results}: {_holder(holder)}. Nothing was started."
        ) from None
    try:
        write_whole(holder, json.dumps(_me(study)))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _me(study: str) -> dict[str, str | int]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"pid": os.getpid(), "host": platform.node(), "study": study, "since": now}


def _holder(path: Path) -> str:
    try:
        said = json.loads(path.read_bytes())
        return (
            f"process {said['pid']} on {said['host']} has been at {said['study']} since "
            f"{said['since']}"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said its name yet"
