"""The drops of a cell and of its repetition, compared in a warehouse that is gone afterwards."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.ours import asked, rejected
from warehouse.errors import InvalidInput
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from answers.again import Again

#: As ``draftboard gate``: fine, something is worse or other, not enough evidence.
EXIT = {"repeats": 0, "differs": 1, "likely differs": 2, "open": 2}


def compared(original: Path, siblings: Sequence[Path], launches: Sequence[Path]) -> "Again":
    """Ingest these drops and compare them. Raises InvalidInput where one cannot be read."""
    from answers.again import again
    from warehouse.store import Reader

    with tempfile.TemporaryDirectory(prefix="draftboard-again-") as folder:
        root = Path(folder) / "warehouse"
        _ingest(root, (original, *siblings, *launches))
        with Reader(root) as reader:
            return again(reader, str(original), [*map(str, siblings)], [*map(str, launches)])


def _ingest(root: Path, drops: Sequence[Path]) -> None:
    done = asked("ingest", *map(str, drops), "--warehouse", str(root), "--keep-text", "--json")
    told = rejected(done)
    if told is None:
        raise InvalidInput(f"The results cannot be read: {done.stderr.strip()[-300:]}")
    for one in told:
        raise InvalidInput(f"{one.path} cannot be compared: {one.reason}")


def show(found: "Again", as_json: bool) -> None:
    """Print the answer."""
    from answers.again import HEADER, is_shown, row, stands_on
    from answers.again import as_json as again_json
    from commands.output import show_table

    if as_json:
        click.echo(json_text(again_json(found)))
        return
    click.echo(f"{found.cell}: {found.headline}")
    click.echo(stands_on(found))
    show_table(HEADER, [row(line) for line in found.lines if is_shown(line)])
    for sentence in found.outputs:
        click.echo(sentence)
    if found.differs:
        rows = [
            (d.setting, d.reference or "not stated", d.arm or "not stated") for d in found.differs
        ]
        show_table(("measured otherwise", "original", "again"), rows)
    for doubt in found.doubts:
        click.echo(doubt)
