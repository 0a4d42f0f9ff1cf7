"""How a search that measures stands: what the terminal says before every launch, and the dashboard shows
from a file that the search keeps in the warehouse."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from answers.search.values import LiveSearch, SearchReport
from answers.search.words import because, cost_so_far, terms
from warehouse.filters import Filters
from warehouse.secrets import scrub

#: A launch may take so many times what is expected, and a search be silent so much longer, …
_TIMES, _SILENT_MIN = 3.0, 15.0

Phase = Literal["measuring", "proving", "over", "stopped"]


@dataclass(frozen=True)
class Board:
    """``phase``: what the search was at when this was written, ``at``; ``doing``: that in a sentence, or
    how it ended; ``expected_min``: minutes until it is heard of again, None where it is over."""

    told: SearchReport
    phase: Phase
    doing: str
    at: datetime
    expected_min: float | None = None

    @property
    def minute(self) -> str:
        """When this was written: ``2026-11-21 22:05 UTC``."""
        return f"{self.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def board(now: LiveSearch, at: datetime) -> Board:
    """Return how a search stands that is about to measure its next launch, or is over."""
    if not now.orders:
        return Board(now.told, "over", now.told.headline, at)
    first, *others = (f"{order.launch_id}, {because(order.step)}." for order in now.orders)
    doing = " ".join([f"Next: {first}", *(f"Beside it: {other}" for other in others)])
    if now.troubles:
        doing = f"{' '.join(now.troubles)} {doing}"
    return Board(now.told, "measuring", doing, at, max(order.step.minutes for order in now.orders))


def lines(search: Board) -> tuple[str, ...]:
    """Return the sentences beside the tables: the cost so far, the outlook, what comes next; of a search
    that is over, how it ended, which holds its cost."""
    sentences = (
        () if search.phase == "over" else (f"{cost_so_far(search.told)}.", search.told.outlook)
    )
    return tuple(line for line in (*sentences, search.doing) if line)


def label(search: Board, now: datetime) -> str:
    """Say in a few words how a search stands."""
    report = search.told
    how = {
        "measuring": "under way", "proving": "its winner is being proven", "stopped": "stopped",
        "over": "decided" if report.decided else "ended open",
    }[search.phase]  # fmt: skip
    if _silent(search, now):
        how = f"not heard of since {search.minute}"
    when = "" if search.expected_min is not None else f" ({search.minute[:10]})"
    return f"Search {report.study}{when}: {how}, {cost_so_far(report)}"


def heard(search: Board, now: datetime) -> str:
    """Say of when this is, for what, and whether the search should have been heard of since."""
    sentence = f"As of {search.minute}; {terms(search.told.terms)}."
    if not _silent(search, now):
        return sentence
    return (
        f"{sentence} It should have been heard of since: look at the terminal in which it runs. If it was "
        "killed, the same command goes on from here."
    )


def _silent(search: Board, now: datetime) -> bool:
    if search.expected_min is None:
        return False
    return now - search.at > timedelta(minutes=_TIMES * search.expected_min + _SILENT_MIN)


def chosen(boards: Iterable[Board], filters: Filters) -> tuple[Board, ...]:
    """Return the searches of the chosen studies and days, the newest first; other filters are about
    cells."""
    kept = (
        search
        for search in boards
        if (not filters.study or search.told.study in filters.study)
        and (not filters.since or search.minute[:10] >= filters.since)
        and (not filters.until or search.minute[:10] <= filters.until)
    )
    return tuple(sorted(kept, key=lambda search: search.at, reverse=True))


_KEPT = TypeAdapter(Board)


def as_text(search: Board) -> str:
    """Return what the file of a search holds."""
    return json.dumps(scrub(_KEPT.dump_python(search, mode="json")), indent=1) + "\n"


def from_texts(texts: Sequence[bytes]) -> tuple[Board, ...]:
    """Return the searches whose files can be read; the others were written by another version, or cut
    short."""
    found = []
    for text in texts:
        with suppress(ValidationError):
            found.append(_KEPT.validate_json(text))
    return tuple(found)
