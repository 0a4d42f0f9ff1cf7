"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from warehouse.filters import FILTER_FIELDS, Filters

Command = Callable[..., Any]


def warehouse_option(command: Command) -> Command:
    """``--warehouse PATH``; without it DRAFTBOARD_WAREHOUSE, else data/warehouse."""
    return click.option(
        "--warehouse",
        type=click.Path(path_type=Path),
        help="Folder of the warehouse [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
    )(command)


def json_option(command: Command) -> Command:
    """``--json``: the same answer as one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def allow_option(command: Command) -> Command:
    """``--allow FIELD``: pairs may differ in it."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="FIELD",
        help="Let pairs differ in this field, e.g. engine_version; they stay marked. Repeatable.",
    )(command)


def filter_options(command: Command) -> Command:
    """One repeatable option for each filter field; ``unknown`` matches what was not recorded."""
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
    """The filters among a command's parameters, e.g. ``{"dataset": ("code",), …}``."""
    chosen: dict[str, Any] = {name: tuple(given[name]) for name in FILTER_FIELDS}
    return Filters(**chosen)
