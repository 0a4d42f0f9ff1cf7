"""What the commands share that write notes and exclusions: their author, and the run they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from warehouse.annotations import Target

Command = Callable[..., Any]
AUTHOR = "DRAFTBOARD_AUTHOR"


def author_option(command: Command) -> Command:
    """Add the option ``--author NAME``; without it DRAFTBOARD_AUTHOR says the name."""
    return click.option(
        "--author", envvar=AUTHOR, metavar="NAME", help=f"Who says so [{AUTHOR}, else unknown]."
    )(command)


def author_or_unknown(given: str | None) -> str:
    """Return the author's name that was given, or ``unknown``. The machine's user name is nobody's
    business: it is never taken."""
    return (given or "").strip() or "unknown"


def target_of_run(root: Path, word: str) -> "Target":
    """Return the run that ``word`` names. Raises UnknownKey, with the nearest ids, unless it names
    exactly one."""
    from warehouse.exclusions import find_run

    return find_run(all_runs(root), word)


def all_runs(root: Path) -> list[dict[str, Any]]:
    """Return every run, the excluded ones too, as ``queries.runs``, newest first."""
    from warehouse import queries
    from warehouse.filters import Filters
    from warehouse.store import Reader

    with Reader(root, everything=True) as reader:
        rows: list[dict[str, Any]] = queries.runs(reader, Filters()).to_pylist()
    return rows
