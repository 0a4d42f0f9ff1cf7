"""``draftboard runs``: what the warehouse holds, one line a cell group."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from commands.options import filter_options, filters_from, json_option, whole_warehouse_option

Row = dict[str, Any]


def _said(value: Any) -> str:
    if value is None or value == []:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


#: Header and what stands under it; the rest of what is known of a run is in ``--json``.
COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    (
        "started (UTC)",
        lambda r: f"{r['started_at']:%Y-%m-%d %H:%M}" if r["started_at"] else "unknown",
    ),
    ("model", lambda r: _said(r["model"])),
    ("hardware", lambda r: _said(r["gpu"])),
    ("dataset", lambda r: _said(r["dataset"])),
    ("arms", lambda r: _said(r["arms"])),
    ("concurrency", lambda r: _said(r["concurrencies"])),
    ("completed", lambda r: str(r["completed"])),
    ("errored", lambda r: str(r["errored"])),
    ("evidence", lambda r: _said(r["evidence"])),
    ("excluded", lambda r: r["excluded"] or ""),
    ("from", lambda r: _said(r["path"])),
)


@click.command()
@whole_warehouse_option
@filter_options
@json_option
def runs(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """List the runs that the warehouse holds: what, on what, from which file.

    Runs that are excluded by name stand among them, with the reason; no other command counts them.

    Example: draftboard runs --dataset code --json
    """
    from commands.output import show_table
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse), everything=True) as reader:
        rows = queries.runs(reader, filters_from(given)).to_pylist()
    if as_json:
        click.echo(json.dumps(rows, default=str, indent=1))
        return
    if not rows:
        click.echo("No run matches. `draftboard runs` without filters lists all there are.")
        return
    excluded = any(row["excluded"] for row in rows)
    columns = [column for column in COLUMNS if excluded or column[0] != "excluded"]
    show_table([name for name, _ in columns], [[show(row) for _, show in columns] for row in rows])
