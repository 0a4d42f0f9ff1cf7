"""``draftboard note``: write down what a run or a night was like, apart from its results."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.exclude import author_option, author_or_unknown, target_of_run
from commands.options import json_option, whole_warehouse_option
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from warehouse.annotations import Annotation, AnnotationTarget

_WORDS = {
    "note": "noted", "exclude": "excluded", "include": "taken back", "accept": "accepted",
}  # fmt: skip


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
def note(text: str | None, warehouse: Path | None, **given: Any) -> None:
    """Write a note on a run or a night; --list prints all notes, exclusions and takings back.

    Notes change no result. They stand beside it in Trends, in Runs and in the report.

    Example: draftboard note "driver updated to 580.95" --night 2026-11-21 --author Ann
    """
    from warehouse.store_cache import warehouse_path

    root = warehouse_path(warehouse)
    if given["as_list"]:
        _refuse(text is not None or given["run_id"] or given["night"], "--list takes no note.")
        _list(root, given["as_json"])
        return
    _write(root, text, given)


def _write(root: Path, text: str | None, given: dict[str, Any]) -> None:
    from warehouse import annotations

    _refuse(text is None, 'Say what to note: draftboard note "driver updated" --run ID')
    target = _target(root, given)
    author = author_or_unknown(given["author"])
    event = annotations.annotation("note", target, str(text), author)
    annotations.add(root, event)
    if given["as_json"]:
        click.echo(json_text(as_json(event)))
    else:
        left_out = " A credential in it was left out." if event.text != str(text).strip() else ""
        click.echo(f"Noted on {target.name} by {event.author}.{left_out}")


def _target(root: Path, given: dict[str, Any]) -> "AnnotationTarget":
    from warehouse import annotations

    night: datetime | None = given["night"]
    _refuse(
        (given["run_id"] is None) == (night is None), "Name one of --run ID and --night YYYY-MM-DD."
    )
    _refuse(given["study"] and night is None, "--study goes with --night.")
    if night is not None:
        return annotations.night(f"{night:%Y-%m-%d}", given["study"])
    return target_of_run(root, given["run_id"])


def _refuse(wrong: object, sentence: str) -> None:
    if wrong:
        raise click.UsageError(sentence)


def _list(root: Path, with_json: bool) -> None:
    from commands.output import show_table
    from warehouse import annotations

    events, broken = annotations.read(root), annotations.unreadable(root)
    if with_json:
        excluded = [as_json(event) for event in annotations.excluded_runs(root).values()]
        told = {"annotations": [as_json(event) for event in events], "excluded": excluded,
                "unreadable_lines": broken}  # fmt: skip
        click.echo(json_text(told))
        return
    if events:
        show_table(
            ["written (UTC)", "by", "said", "about", "text"],
            [
                [
                    f"{e.at:%Y-%m-%d %H:%M}",
                    e.author,
                    _WORDS[e.action],
                    e.target.name,
                    e.text,
                ]
                for e in events
            ],
        )
    else:
        click.echo('Nothing was noted yet. Write: draftboard note "driver updated" --night DATE')
    if broken:
        file = root / annotations.FILE
        many = "1 line" if broken == 1 else f"{broken:,} lines"
        click.echo(f"{many} of {file} cannot be read, half written perhaps, and do not count.")


def as_json(event: "Annotation") -> dict[str, Any]:
    """Return an annotation as a dict for JSON; what its target lacks is left out."""
    target = {name: value for name, value in vars(event.target).items() if value is not None}
    known = {name: value for name, value in vars(event).items() if value is not None}
    return {**known, "at": event.at.isoformat(), "target": target}
