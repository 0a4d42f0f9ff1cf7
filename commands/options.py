"""Options that several commands share."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from warehouse.errors import DraftboardError
from warehouse.filters import FILTER_FIELDS, Filters

Command = Callable[..., Any]


def warehouse_option(command: Command) -> Command:
    """Add the option ``--warehouse PATH``; without it DRAFTBOARD_WAREHOUSE, else data/warehouse.

    The command ends with a sentence on stderr where its answer left out runs that are excluded.
    """
    return _warehouse(command, _tell_excluded_at_the_end)


def whole_warehouse_option(command: Command) -> Command:
    """Add ``--warehouse PATH`` to a command that shows, or writes of, the excluded runs themselves:
    nothing is said of them at its end."""
    return _warehouse(command, None)


def _warehouse(command: Command, callback: Callable[..., Any] | None) -> Command:
    return click.option(
        "--warehouse",
        type=click.Path(path_type=Path),
        callback=callback,
        help="Folder of the warehouse [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
    )(command)


def _tell_excluded_at_the_end(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
    ctx.call_on_close(lambda: _tell_excluded(ctx.params))
    return value


def _tell_excluded(given: dict[str, Any]) -> None:
    from warehouse import annotations
    from warehouse.store_files import warehouse_path

    root = warehouse_path(given.get("warehouse"))
    # Whatever is wrong with the warehouse, the command itself has said it.
    with suppress(DraftboardError):
        if annotations.excluded_runs(root):
            from warehouse import exclusions

            whole = set(FILTER_FIELDS) <= set(given)
            filters = filters_from(given) if whole else Filters()
            sentence = exclusions.sentence(exclusions.left_out(root, filters))
            if sentence:
                click.echo(sentence, err=True)


def json_option(command: Command) -> Command:
    """Add the option ``--json``, which prints the same answer as one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def allow_option(command: Command) -> Command:
    """Add the option ``--allow FIELD``, which lets pairs differ in a field."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="FIELD",
        help="Let pairs differ in this field, e.g. engine_version, or in one server argument, e.g. "
        "server_args.max-num-seqs; they stay marked. Repeatable.",
    )(command)


def judging_options(command: Command) -> Command:
    """Add the options of a judgement over nights: ``--max-regression``, ``--since``,
    ``--open-exit``."""
    for option in (
        click.option(
            "--open-exit",
            type=click.IntRange(0, 2),
            default=2,
            show_default=True,
            help="Exit status where the evidence is not enough.",
        ),
        click.option(
            "--since",
            type=click.DateTime(["%Y-%m-%d"]),
            metavar="YYYY-MM-DD",
            help="Only nights from this day on (UTC).",
        ),
        click.option(
            "--max-regression",
            multiple=True,
            metavar="[METRIC=]SIZE",
            help="How much worse is still fine, e.g. itl=3%, ttft.p95=10% or 5% for all [5%]. "
            "Repeatable.",
        ),
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """Add one repeatable option for each filter field; ``unknown`` matches what was not
    recorded."""
    for name in reversed(FILTER_FIELDS):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            multiple=True,
            metavar="VALUE",
            help=f"Only this {name.replace('_', ' ')}; repeatable.",
        )(command)
    return command


def filters_from(given: dict[str, Any]) -> Filters:
    """Return the filters among a command's parameters, e.g. ``{"dataset": ("code",), …}``."""
    chosen: dict[str, Any] = {name: tuple(given[name]) for name in FILTER_FIELDS}
    return Filters(**chosen)
