"""What there is to attack, read off the program itself: its commands, text fields, addresses and views.

A table beside says how each is asked. What has no row fails, so nobody has to remember to add one.
"""

from collections.abc import Iterable, Iterator
from typing import get_args, get_origin, get_type_hints

import click

from draftboard import OLD, cli
from warehouse.contract import Facts


def commands() -> dict[str, click.Command]:
    """Every command, ``warehouse gc`` among them; one of two words, ``cost slo``, by its last."""
    return dict(_leaves(cli, "", OLD))


def _leaves(
    group: click.Group, before: str, more: Iterable[str] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in (*group.list_commands(context), *more):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group) and found.list_commands(click.Context(found)):
            yield from _leaves(found, f"{before}{name} ")
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield f"{before}{name}", found


def text_fields() -> list[str]:
    """Every fact of a cell that is a text."""
    return [name for name, kind in get_type_hints(Facts).items() if _holds_text(kind)]


def _holds_text(kind: object) -> bool:
    return kind is str or (
        get_origin(kind) is not dict and any(_holds_text(one) for one in get_args(kind))
    )
