"""How a search that measures says what it is at: on stderr, and in a file of the warehouse that dashboards
show.

Where nobody named a warehouse and none is there, nothing is kept; where its file cannot be written,
the search goes on all the same.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from warehouse.errors import DraftboardError

if TYPE_CHECKING:
    from answers.search.board import Board
    from answers.search.live import Live


class Telling:
    """Tells how a search stands. Around a search (``with``) it tells of its unforeseen end too.

    ``root``: the warehouse whose dashboards show it. ``named``: whether somebody named it, a folder on
    this machine; then its first ingest may be still to come.
    """

    def __init__(self, root: Path, named: bool = False) -> None:
        self._root, self._named, self._warned = root, named, False
        self._last: Board | None = None

    def next(self, now: "Live") -> None:
        """Say what is known and which launch comes next, or that nothing more is to be chosen."""
        from answers.search.board import board

        one = board(now, _now())
        show(one)
        self._keep(one)

    def proving(self, now: "Live", doing: str, minutes: float) -> None:
        """Say that the winner is measured in fresh launches, which take so long."""
        from answers.search.board import Board

        click.echo(doing, err=True)
        self._keep(Board(now.told, "proving", doing, _now(), minutes))

    def over(self, now: "Live") -> None:
        """Keep how the search ended, with its proof; the command itself prints it."""
        from answers.search.board import board

        self._keep(board(now, _now()))

    def __enter__(self) -> "Telling":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is not None and self._last is not None:
            why = str(error) if isinstance(error, DraftboardError) else "It was interrupted."
            doing = f"{why} The same command goes on from here."
            self._keep(
                replace(self._last, phase="stopped", doing=doing, at=_now(), expected_min=None)
            )

    def _keep(self, one: "Board") -> None:
        from answers.search.board import as_text
        from warehouse.beside import write_search
        from warehouse.store_current import current_name

        self._last = one
        try:
            if self._named or current_name(self._root) is not None:
                write_search(self._root, str(one.told.study), as_text(one))
        except (OSError, DraftboardError) as error:
            if not self._warned:
                click.echo(f"The dashboard does not show this search: {error}", err=True)
            self._warned = True


def show(one: "Board", err: bool = True) -> None:
    """Print how a search stands, on stderr or else on stdout."""
    from answers.search import words
    from answers.search.board import candidates, lines
    from commands.output import show_table

    first, *rest = lines(one)
    click.echo(first, err=err)
    show_table(*candidates(one), err=err)
    if one.told.found:
        show_table(*words.standings(one.told.found), err=err)
    for line in rest:
        click.echo(line, err=err)


def _now() -> datetime:
    return datetime.now(UTC)
