"""``draftboard exclude`` and ``include``: leave runs out of every answer by name, take them back."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.deriving import derive_facts
from commands.options import whole_warehouse_option

if TYPE_CHECKING:
    from warehouse.annotations import Action, AnnotationTarget


# --- What the commands share that write notes and exclusions: their author, and the run they mean.


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


def target_of_run(root: Path, word: str) -> "AnnotationTarget":
    """Return the run that ``word`` names. Raises UnknownKey, with the nearest ids, unless it names
    exactly one."""
    from warehouse.queries import find_run

    return find_run(all_runs(root), word)


def all_runs(root: Path) -> list[dict[str, Any]]:
    """Return every run, the excluded ones too, as ``queries.runs``, newest first."""
    from warehouse import queries
    from warehouse.filters import Filters
    from warehouse.store import Reader

    with Reader(root, everything=True) as reader:
        rows: list[dict[str, Any]] = queries.runs(reader, Filters()).to_pylist()
    return rows


# --- ``draftboard exclude`` and ``include``: leave runs out of every answer by name, take them back.


def _which(command: Command) -> Command:
    """Add the options that say which runs are meant, and why."""
    for option in (
        click.option("--study", help="With --night: only the runs of this study [all]."),
        click.option(
            "--night",
            type=click.DateTime(["%Y-%m-%d"]),
            help="All runs that started in this night, by the day on which it began (UTC).",
        ),
        click.option(
            "--reason", required=True, help="One sentence; it is shown wherever it counts."
        ),
        author_option,
        whole_warehouse_option,
    ):
        command = option(command)
    return click.argument("run_ids", metavar="RUN_ID...", nargs=-1)(command)


@click.command()
@_which
def exclude(run_ids: tuple[str, ...], warehouse: Path | None, **given: Any) -> None:
    """Leave runs out of every comparison, trend, gate and report, with a reason.

    Nothing is deleted: `draftboard runs` and the page Data keep showing them, and `draftboard
    include` takes them back. RUN_ID is a run's id, id@source where several share it, its path, or
    how one of them begins.

    Example: draftboard exclude "lab/base/code#1" --reason "GPU throttled" --author Ann
    """
    _write("exclude", run_ids, warehouse, given)


@click.command()
@_which
def include(run_ids: tuple[str, ...], warehouse: Path | None, **given: Any) -> None:
    """Take back runs that were excluded, with a reason.

    Example: draftboard include "lab/base/code#1" --reason "it was another GPU" --author Ann
    """
    _write("include", run_ids, warehouse, given)


def _write(
    action: "Action", words: Sequence[str], warehouse: Path | None, given: dict[str, Any]
) -> None:
    from warehouse import annotations
    from warehouse.store_cache import warehouse_path

    if bool(words) == (given["night"] is not None):
        raise click.UsageError("Name one or more RUN_ID, or a --night, not both.")
    if given["study"] and given["night"] is None:
        raise click.UsageError("--study goes with --night.")
    root = warehouse_path(warehouse)
    targets = _targets(root, words, given)
    if action == "include":
        targets = _excluded_ones(root, targets, bool(words))
    author = author_or_unknown(given["author"])
    events = [annotations.annotation(action, one, given["reason"], author) for one in targets]
    annotations.add(root, *events)
    derive_facts(root)
    done = "Excluded" if action == "exclude" else "Taken back"
    click.echo("\n".join(f"{done}: {one.name}" for one in targets))


def _targets(root: Path, words: Sequence[str], given: dict[str, Any]) -> "list[AnnotationTarget]":
    from warehouse.queries import find_run

    rows = all_runs(root)
    if given["night"] is not None:
        return _of_night(rows, given["night"], given["study"])
    return list(dict.fromkeys(find_run(rows, word) for word in words))


def _of_night(
    rows: Sequence[dict[str, Any]], night: datetime, study: str | None
) -> "list[AnnotationTarget]":
    from analysis.nightly.nights import NOON
    from warehouse import annotations
    from warehouse.errors import UnknownKey

    found = [
        annotations.run(row["run_id"], row["source_id"])
        for row in rows
        if row["started_at"] and (row["started_at"] - NOON).date() == night.date()
        if study is None or row["study"] == study
    ]
    if not found:
        of = f" of {study}" if study else ""
        raise UnknownKey(
            f"No run{of} started in the night of {night:%Y-%m-%d} (noon to noon UTC); "
            "`draftboard runs` lists when each did."
        )
    return found


def _excluded_ones(
    root: Path, targets: "list[AnnotationTarget]", named: bool
) -> "list[AnnotationTarget]":
    """Return those of ``targets`` that are excluded. Raises UnknownKey where none is, or where one
    of the runs that were ``named`` is not."""
    from warehouse import annotations
    from warehouse.errors import UnknownKey

    excluded = annotations.excluded_runs(root)
    others = [target for target in targets if target not in excluded]
    if others and (named or len(others) == len(targets)):
        raise UnknownKey(
            f"{others[0].name} is not excluded, so there is nothing to take back; "
            "`draftboard note --list` says what is."
        )
    return [target for target in targets if target in excluded]
