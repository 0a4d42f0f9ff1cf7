"""When this machine's copy of a warehouse looks at its store, and what it does where it cannot be reached."""

import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import DraftboardError, WarehouseUnreachable
from warehouse.store_cache import read_at
from warehouse.store_files import pointer_here
from warehouse.store_remote import pull

POLL_S = 5.0
"""A reader looks whether there is a new generation at most so often, in seconds."""
#: A store that could not be reached is left alone for so many seconds: asking takes twenty.
_AGAIN_S = 30.0
_guard = threading.Lock()


@dataclass
class _Look:
    """How the last look at a store ended, and when the copy last answered without it (monotonic s)."""

    at: float
    trouble: DraftboardError | None = None
    answered_alone: float = -math.inf

    @property
    def is_unreachable(self) -> bool:
        return isinstance(self.trouble, WarehouseUnreachable)


_looked: dict[Path, _Look] = {}


def follow(root: Path) -> None:
    """Bring the copy up to date, unless that was done a few seconds ago.

    Where the store cannot be reached, a copy that holds a generation answers without it, and
    ``not_fresh`` says so. Raises as ``pull`` otherwise, and says the same again until it is time for
    another look.
    """
    with _guard:
        look = _looked.get(root)
        wait = _AGAIN_S if look is not None and look.is_unreachable else POLL_S
        if look is None or time.monotonic() - look.at >= wait:
            look = _look(root)
    if look.is_unreachable and pointer_here(root) is not None:
        look.answered_alone = time.monotonic()
    elif look.trouble is not None:
        raise look.trouble


def reach(root: Path) -> None:
    """Bring the copy up to date for whoever is about to write: raises as ``pull``."""
    with _guard:
        look = _look(root)
    if look.trouble is not None:
        raise look.trouble


def _look(root: Path) -> _Look:
    trouble = None
    try:
        pull(root)
    except DraftboardError as error:
        trouble = error
    _looked[root] = _Look(time.monotonic(), trouble)
    return _looked[root]


def stay(root: Path) -> None:
    """Never look at the store from this process: it may not, or has no credentials."""
    _looked[root] = _Look(math.inf)


def not_fresh(root: Path) -> str | None:
    """Return the sentence to show beside what a copy answers while its store cannot be reached."""
    look = _looked.get(root)
    if look is None or not look.is_unreachable:
        return None
    return f"Shown is what was read by {read_at(root):%Y-%m-%d %H:%M} UTC, nothing newer: {look.trouble}"


def not_fresh_since(moment: float) -> list[str]:
    """Return that sentence for each warehouse whose copy answered alone since a ``moment``
    (monotonic s)."""
    alone = [root for root, look in _looked.items() if look.answered_alone >= moment]
    return [said for root in alone if (said := not_fresh(root)) is not None]
