"""``draftboard runs``: what the warehouse holds, one line a cell group."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from commands.options import filter_options, filters_from, json_option, whole_warehouse_option
from warehouse.json_text import json_text

Row = dict[str, Any]
#: A path is shown with at least so many letters of its end.
_LEAST_PATH = 24
_FIRST, _PATH = "started (UTC)", "from"


def _said(value: Any) -> str:
    if value is None or value == []:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


#: Header and what stands under it; the rest of what is known of a run is in ``--json``.
COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    (
        _FIRST,
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
    (_PATH, lambda r: _said(r["path"])),
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
    from warehouse import queries
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    with Reader(warehouse_path(warehouse), everything=True) as reader:
        rows = queries.runs(reader, filters_from(given)).to_pylist()
    if as_json:
        from answers.doors.rows import nested_json

        click.echo(json_text([nested_json(row) for row in rows], indent=1))
        return
    if not rows:
        click.echo("No run matches. `draftboard runs` without filters lists all there are.")
        return
    _show(rows)


def _show(rows: list[Row]) -> None:
    """Print one table. On a terminal what all runs share is said once, and of a path its end is
    shown."""
    from commands.output import ends_of_paths, show_table, width

    excluded = any(row["excluded"] for row in rows)
    header = [name for name, _ in COLUMNS if excluded or name != "excluded"]
    lines = [{name: show(row) for name, show in COLUMNS} for row in rows]
    letters = width()
    if letters is not None:
        shared = [name for name in header[1:-1] if len({line[name] for line in lines}) == 1]
        if len(rows) > 1 and shared:
            click.echo("All: " + ", ".join(f"{name} {lines[0][name]}" for name in shared))
            header = [name for name in header if name not in shared]
        taken = sum(max(len(text) for text in (name, *(line[name] for line in lines))) + 2
                    for name in header[:-1])  # fmt: skip
        paths = [line[_PATH] for line in lines]
        ends = ends_of_paths(paths, max(letters - taken, _LEAST_PATH))
        lines = [line | {_PATH: end} for line, end in zip(lines, ends, strict=True)]
    show_table(header, [[line[name] for name in header] for line in lines])
