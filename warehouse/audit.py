"""Who did what to the warehouse, besides measuring: the trail that an admin reads.

Notes, exclusions and acceptances stand in ``annotations`` with their authors; what is no annotation,
files that were kept, is written here: one file, a JSON object a line, only ever added to.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from warehouse import annotations, lines

FILE = "audit.jsonl"
What = Literal["keep", "token", "revoke", "note", "exclude", "include", "accept"]


@dataclass(frozen=True)
class Deed:
    """Who did what, when (UTC), to what. ``account``: what the login vouched for, None without one;
    ``who``: what they call themselves; ``why``: their own words."""

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    who: str
    account: str | None
    what: What
    about: str
    why: str = ""


def add(root: Path, who: str, account: str | None, what: What, about: str) -> None:
    """Write down a deed of now, durably. Raises as ``lines.append`` does."""
    deed = Deed(datetime.now(UTC), who, account, what, about)
    lines.append(root, FILE, msgspec.json.encode(deed) + b"\n")


def read(root: Path) -> tuple[Deed, ...]:
    """Return every deed and every annotation, oldest first. A line that is only half written is
    passed over."""
    said = (
        Deed(event.at, event.author, event.account, event.action, event.target.name, event.text)
        for event in annotations.read(root)
    )
    return tuple(sorted((*said, *lines.read(root / FILE, Deed)), key=lambda deed: deed.at))
