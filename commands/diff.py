"""``draftboard diff A B``: how two cells or runs differ in their configuration."""

from pathlib import Path
from typing import Any

import click

from commands.options import json_option, whole_warehouse_option
from warehouse.json_text import json_text


@click.command()
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@whole_warehouse_option
@json_option
def diff(one: str, other: str, warehouse: Path | None, as_json: bool) -> None:
    """Show in which settings two cells or runs differ, option by option.

    A and B are the start of a cell's id, of a run's id, or the path that a run was ingested from
    (`draftboard runs --json` lists them).

    Example: draftboard diff laptop-lab/baseline/tp1/code/c1-r0 laptop-lab/draft-k3/tp1/code/c1-r0
    """
    from analysis.matching.difference import differences
    from commands.output import show_table

    records = _records(warehouse)
    before, after = (_chosen(records, word) for word in (one, other))
    changes = differences(before, after)
    if as_json:
        rows = [vars(change) for change in changes]
        click.echo(json_text({"a": one, "b": other, "changes": rows}))
        return
    if not changes:
        click.echo("No difference in anything that is recorded.")
        return
    show_table(["setting", "A", "B"], [[c.field, _said(c.before), _said(c.after)] for c in changes])


def _records(warehouse: Path | None) -> list[dict[str, Any]]:
    """Return every cell joined with the run it belongs to: what was set, and how it was started."""
    from warehouse import queries
    from warehouse.filters import Filters
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    with Reader(warehouse_path(warehouse), everything=True) as reader:
        cells = queries.cells(reader, Filters()).to_pylist()
        runs = queries.runs(reader, Filters()).to_pylist()
    started = {
        (run["path"], run["run_id"]): {
            name: run[name] for name in ("commands", "environment", "settings")
        }
        for run in runs
    }
    return [{**started.get((cell["path"], cell["run_id"]), {}), **cell} for cell in cells]


def _chosen(records: list[dict[str, Any]], word: str) -> dict[str, Any]:
    """Return the one cell that ``word`` names, or what the cells of the run that it names share."""
    from warehouse.errors import UnknownKey

    cells = [record for record in records if record["cell_id"].startswith(word)]
    runs = [
        r
        for r in records
        if r["run_id"].startswith(word) or r["path"].rstrip("/") == word.rstrip("/")
    ]
    found = cells or runs
    if not found:
        raise UnknownKey(
            f"No cell or run begins with {word!r}; `draftboard runs --json` lists run_id and path."
        )
    names = {(record["path"], record["run_id"]) for record in found}
    if len(cells) > 1 or len(names) > 1:
        raise UnknownKey(f"{word!r} names {max(len(cells), len(names))} of them; give more of it.")
    first = found[0]
    return {
        name: value for name, value in first.items() if all(r.get(name) == value for r in found)
    }


def _said(value: Any) -> str:
    return "not stated" if value is None else str(value)
