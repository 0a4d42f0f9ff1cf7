"""How a search that measures says what it is at: on stderr, and in a file of the warehouse that dashboards
show.

Where nobody named a warehouse and none is there, nothing is kept; where its file cannot be written,
the search goes on all the same.
"""

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import click

from answers.search import words
from answers.search.board import Board, as_text, board, lines
from answers.search.values import LiveSearch
from commands import terminal as output
from commands.terminal import Table
from warehouse import beside
from warehouse.errors import DraftboardError
from warehouse.storage.current import current_name


class Telling(AbstractContextManager["Telling"]):
    """Tells how a search stands. Around a search (``with``) it tells of its unforeseen end too.

    ``root``: the warehouse whose dashboards show it. ``named``: whether somebody named it, a folder on
    this machine; then its first ingest may be still to come.
    """

    def __init__(self, root: Path, named: bool = False) -> None:
        self._root, self._named, self._warned = root, named, False
        self._last: Board | None = None

    def next(self, now: LiveSearch) -> None:
        """Say what is known and which launch comes next, or that nothing more is to be chosen."""
        standing = board(now, datetime.now(UTC))
        show(standing)
        self._keep(standing)

    def proving(self, now: LiveSearch, doing: str, minutes: float) -> None:
        """Say that the winner is measured in fresh launches, which take so long."""
        click.echo(doing, err=True)
        self._keep(Board(now.told, "proving", doing, datetime.now(UTC), minutes))

    def over(self, now: LiveSearch) -> None:
        """Keep how the search ended, with its proof; the command itself prints it."""
        self._keep(board(now, datetime.now(UTC)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is not None and self._last is not None:
            why = str(error) if isinstance(error, DraftboardError) else "It was interrupted."
            self._keep(
                replace(
                    self._last,
                    phase="stopped",
                    doing=f"{why} The same command goes on from here.",
                    at=datetime.now(UTC),
                    expected_min=None,
                )
            )

    def _keep(self, standing: Board) -> None:
        self._last = standing
        try:
            if self._named or current_name(self._root) is not None:
                beside.write_search(self._root, str(standing.told.study), as_text(standing))
        except (OSError, DraftboardError) as error:
            if not self._warned:
                click.echo(f"The dashboard does not show this search: {error}", err=True)
            self._warned = True


def show(standing: Board, err: bool = True) -> None:
    """Print how a search stands, on stderr or else on stdout."""
    first, *rest = lines(standing)
    places = Table(*words.standings(standing.told.found))
    candidates = Table(*words.candidate_rows(standing.told.candidates))
    output.show(first, candidates, places if places.rows else None, *rest, err=err)
