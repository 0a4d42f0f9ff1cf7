"""``draftboard runs``: what the warehouse holds, how two of it differ, what people say of it and who said so."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import (
    Table,
    author_option,
    ends_of_paths,
    filter_options,
    filters_from,
    json_option,
    reading,
    show,
    show_json,
    whole_warehouse_option,
    width,
    with_options,
)
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.json_text import json_text
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.annotations import Action, Annotation


# --- ``draftboard runs``: what the warehouse holds.


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


# --- What people say of runs and nights, and who said it.


_DONE = {
    "note": "noted", "exclude": "excluded", "include": "taken back", "accept": "accepted",
}  # fmt: skip


def _all_runs(root: Path) -> list[dict[str, Any]]:
    """Return every run, the excluded ones too, as ``queries.runs``, newest first."""
    from warehouse import queries

    with reading(root, everything=True) as reader:
        rows: list[dict[str, Any]] = queries.runs(reader, Filters()).to_pylist()
    return rows


def _refuse(wrong: object, sentence: str) -> None:
    if wrong:
        raise click.UsageError(sentence)


# --- ``draftboard note``: write down what a run or a night was like, apart from its results.


@click.command()
@click.argument("text", required=False)
@click.option(
    "--run", "run_id", metavar="ID", help="The run: its id, id@source, path or beginning."
)
@click.option(
    "--night",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The night, by the day on which it began (noon to noon UTC).",
)
@click.option("--study", help="With --night: only the runs of this study [all].")
@click.option("--list", "as_list", is_flag=True, help="Print what was written so far.")
@author_option
@whole_warehouse_option
@json_option
def note(
    text: str | None, warehouse: Path | None, run_id: str | None, night: datetime | None,
    study: str | None, as_list: bool, author: str, as_json: bool,
) -> None:  # fmt: skip
    """Write a note on a run or a night; --list prints all notes, exclusions and takings back.

    Notes change no result. They stand beside it in Trends, in Runs and in the report.

    Example: draftboard note "driver updated to 580.95" --night 2026-11-21 --author Ann
    """
    from warehouse import annotations
    from warehouse.queries import find_run

    root = warehouse_path(warehouse)
    if as_list:
        _refuse(text is not None or run_id or night, "--list takes no note.")
        _list(root, as_json)
        return
    _refuse(text is None, 'Say what to note: draftboard note "driver updated" --run ID')
    _refuse((run_id is None) == (night is None), "Name one of --run ID and --night YYYY-MM-DD.")
    _refuse(study and night is None, "--study goes with --night.")
    if night is not None:
        target = annotations.AnnotationTarget(night=f"{night:%Y-%m-%d}", study=study)
    else:
        target = find_run(_all_runs(root), str(run_id))
    event = annotations.annotation("note", target, str(text), author)
    annotations.add(root, event)
    left_out = " A credential in it was left out." if event.text != str(text).strip() else ""
    told = f"Noted on {target.name} by {event.author}.{left_out}"
    show(json_text(annotation_json(event)) if as_json else told)


def _list(root: Path, with_json: bool) -> None:
    from warehouse import annotations

    events, broken = annotations.read(root), annotations.unreadable(root)
    if with_json:
        excluded = [annotation_json(event) for event in annotations.excluded_runs(root).values()]
        told = {"annotations": [annotation_json(event) for event in events], "excluded": excluded,
                "unreadable_lines": broken}  # fmt: skip
        show_json(told)
        return
    rows = [
        [f"{e.at:%Y-%m-%d %H:%M}", e.author, _DONE[e.action], e.target.name, e.text] for e in events
    ]
    many = "1 line" if broken == 1 else f"{broken:,} lines"
    unread = f"{many} of {root / annotations.FILE} cannot be read, half written perhaps, and do not count."
    show(
        Table(["written (UTC)", "by", "said", "about", "text"], rows)
        if rows
        else 'Nothing was noted yet. Write: draftboard note "driver updated" --night DATE',
        unread if broken else None,
    )


def annotation_json(event: "Annotation") -> dict[str, object]:
    """Return an annotation as a dict for JSON; what its target lacks is left out."""
    target = {name: value for name, value in vars(event.target).items() if value is not None}
    stated = {name: value for name, value in vars(event).items() if value is not None}
    return {**stated, "at": event.at.isoformat(), "target": target}


# --- ``draftboard exclude`` and ``include``: leave runs out of every answer by name, take them back.


#: Which runs are meant, and why.
_which = with_options(
    click.argument("run_ids", metavar="RUN_ID...", nargs=-1),
    whole_warehouse_option,
    author_option,
    click.option("--reason", required=True, help="One sentence; it is shown wherever it counts."),
    click.option(
        "--night",
        type=click.DateTime(["%Y-%m-%d"]),
        help="All runs that started in this night, by the day on which it began (UTC).",
    ),
    click.option("--study", help="With --night: only the runs of this study [all]."),
)


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
    action: "Action", words: Sequence[str], warehouse: Path | None, given: Mapping[str, Any]
) -> None:
    from analysis.nightly.nights import NOON
    from commands.keeping.ingest import derive_facts
    from warehouse import annotations
    from warehouse.queries import find_run

    night, study = given["night"], given["study"]
    _refuse(bool(words) == (night is not None), "Name one or more RUN_ID, or a --night, not both.")
    _refuse(study and night is None, "--study goes with --night.")
    root = warehouse_path(warehouse)
    rows = _all_runs(root)
    if night is not None:
        targets = [
            annotations.AnnotationTarget(row["run_id"], row["source_id"])
            for row in rows
            if row["started_at"] and (row["started_at"] - NOON).date() == night.date()
            if study is None or row["study"] == study
        ]
        if not targets:
            of = f" of {study}" if study else ""
            raise UnknownKey(
                f"No run{of} started in the night of {night:%Y-%m-%d} (noon to noon UTC); "
                "`draftboard runs` lists when each did."
            )
    else:
        targets = list(dict.fromkeys(find_run(rows, word) for word in words))
    if action == "include":
        excluded = annotations.excluded_runs(root)
        others = [target for target in targets if target not in excluded]
        if others and (words or len(others) == len(targets)):
            raise UnknownKey(
                f"{others[0].name} is not excluded, so there is nothing to take back; "
                "`draftboard note --list` says what is."
            )
        targets = [target for target in targets if target in excluded]
    events = [
        annotations.annotation(action, target, given["reason"], given["author"])
        for target in targets
    ]
    annotations.add(root, *events)
    derive_facts(root)
    done = "Excluded" if action == "exclude" else "Taken back"
    show(*(f"{done}: {target.name}" for target in targets))


# --- ``draftboard audit``: who noted, excluded, accepted, and kept files.


@click.command()
@whole_warehouse_option
@json_option
def audit(warehouse: Path | None, as_json: bool) -> None:
    """Print who changed what is said of the results, oldest first.

    Example: draftboard audit --json
    """
    from warehouse import annotations

    deeds = annotations.deeds(warehouse_path(warehouse))
    if as_json:
        told = [{**vars(deed), "at": deed.at.isoformat()} for deed in deeds]
        show_json({"schema_version": 1, "deeds": told})
        return
    rows = [
        [f"{d.at:%Y-%m-%d %H:%M}", d.who, d.account or "", d.what, d.about, d.why] for d in deeds
    ]
    table = Table(["when (UTC)", "who", "account", "did", "to", "why"], rows)
    show(table if rows else "Nobody has noted, excluded, accepted or kept anything yet.")
