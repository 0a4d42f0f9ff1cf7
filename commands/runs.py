"""``draftboard runs`` and ``diff``: what the warehouse holds, and how two of it differ."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    filter_options,
    filters_from,
    json_option,
    reading,
    whole_warehouse_option,
)
from commands.output import Table, ends_of_paths, show, show_json, width
from warehouse.errors import UnknownKey
from warehouse.filters import Filters

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
#: A path is shown with at least so many letters of its end.
_LEAST_PATH = 24
_PATH = "from"


def _text(value: Any) -> str:
    if value is None or value == []:
        return "unknown"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


#: Header -> what stands under it; the rest of what is known of a run is in ``--json``.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "started (UTC)": lambda r: _text(r["started_at"] and f"{r['started_at']:%Y-%m-%d %H:%M}"),
    "model": lambda r: _text(r["model"]),
    "hardware": lambda r: _text(r["gpu"]),
    "dataset": lambda r: _text(r["dataset"]),
    "arms": lambda r: _text(r["arms"]),
    "concurrency": lambda r: _text(r["concurrencies"]),
    "completed": lambda r: str(r["completed"]),
    "errored": lambda r: str(r["errored"]),
    "evidence": lambda r: _text(r["evidence"]),
    "excluded": lambda r: r["excluded"] or "",
    _PATH: lambda r: _text(r["path"]),
}


def _rows(table: "pa.Table") -> list[Row]:
    """Return the rows, times in UTC. Arrow itself imports pandas to name the zone of a time: a third
    of what this command takes."""
    import pyarrow as pa

    times = {x.name for x in table.schema if pa.types.is_timestamp(x.type)}
    plain = [x.with_type(pa.int64()) if x.name in times else x for x in table.schema]
    rows: list[Row] = table.cast(pa.schema(plain)).to_pylist()
    return [row | {name: row[name] and _UNIX + timedelta(microseconds=row[name]) for name in times}
            for row in rows]  # fmt: skip


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

    with reading(warehouse, everything=True) as reader:
        rows = _rows(queries.runs(reader, filters_from(given)))
    if as_json:
        # Many libraries come with it, and the table needs none of them.
        from answers.doors.rows import nested_json

        show_json([nested_json(row) for row in rows], indent=1)
    elif not rows:
        show("No run matches. `draftboard runs` without filters lists all there are.")
    else:
        # Print one table. On a terminal what all runs share is said once, and of a path its end
        # is shown.
        excluded = any(row["excluded"] for row in rows)
        header = [name for name in COLUMNS if excluded or name != "excluded"]
        lines = [{name: show(row) for name, show in COLUMNS.items()} for row in rows]
        letters = width()
        if letters is not None:
            shared = [name for name in header[1:-1] if len({line[name] for line in lines}) == 1]
            if len(rows) > 1 and shared:
                show("All: " + ", ".join(f"{name} {lines[0][name]}" for name in shared))
                header = [name for name in header if name not in shared]
            taken = sum(max(len(text) for text in (name, *(line[name] for line in lines))) + 2
                        for name in header[:-1])  # fmt: skip
            ends = ends_of_paths([line[_PATH] for line in lines], max(letters - taken, _LEAST_PATH))
            lines = [line | {_PATH: end} for line, end in zip(lines, ends, strict=True)]
        show(Table(header, [[line[name] for name in header] for line in lines]))


# --- ``draftboard diff A B``: how two cells or runs differ in their configuration.


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
    from warehouse import queries

    with reading(warehouse, everything=True) as reader:
        cells = queries.cells(reader, Filters()).to_pylist()
        started = {
            (run["path"], run["run_id"]): {
                name: run[name] for name in ("commands", "environment", "settings")
            }
            for run in queries.runs(reader, Filters()).to_pylist()
        }
    # Every cell joined with the run it belongs to: what was set, and how it was started.
    records = [{**started.get((cell["path"], cell["run_id"]), {}), **cell} for cell in cells]
    changes = differences(_chosen(records, one), _chosen(records, other))
    if as_json:
        show_json({"a": one, "b": other, "changes": [vars(change) for change in changes]})
        return
    rows = [
        [c.field, *("not stated" if x is None else str(x) for x in (c.before, c.after))]
        for c in changes
    ]
    table = Table(["setting", "A", "B"], rows)
    show(table if rows else "No difference in anything that is recorded.")


def _chosen(records: list[Row], word: str) -> Row:
    """Return the one cell that ``word`` names, or what the cells of the run that it names share."""
    cells = [record for record in records if record["cell_id"].startswith(word)]
    named = cells or [
        r
        for r in records
        if r["run_id"].startswith(word) or r["path"].rstrip("/") == word.rstrip("/")
    ]
    if not named:
        raise UnknownKey(
            f"No cell or run begins with {word!r}; `draftboard runs --json` lists run_id and path."
        )
    runs_named = {(record["path"], record["run_id"]) for record in named}
    if len(cells) > 1 or len(runs_named) > 1:
        many = max(len(cells), len(runs_named))
        raise UnknownKey(f"{word!r} names {many} of them; give more of it.")
    return {
        name: value for name, value in named[0].items() if all(r.get(name) == value for r in named)
    }
