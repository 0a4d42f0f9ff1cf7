"""``draftboard runs``: what the warehouse holds, one line a cell group."""

import json
from pathlib import Path
from typing import Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option


@click.command()
@warehouse_option
@filter_options
@json_option
def runs(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """List the runs that the warehouse holds: what, on what, from which file.

    Example: draftboard runs --dataset code --json
    """
    from commands.output import show_table
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        rows = queries.runs(reader, filters_from(given)).to_pylist()
    if as_json:
        click.echo(json.dumps(rows, default=str, indent=1))
        return
    if not rows:
        click.echo("No run matches. `draftboard runs` without filters lists all there are.")
        return
    show_table(
        list(rows[0]), [["unknown" if v is None else str(v) for v in r.values()] for r in rows]
    )
