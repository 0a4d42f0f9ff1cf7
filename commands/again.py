"""The drops of a cell and of its repetition, compared in a warehouse that is gone afterwards."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from answers import again as words
from answers.again import Again, again
from commands import output
from commands.intake import take_in
from commands.output import Table
from warehouse.errors import InvalidInput
from warehouse.json_text import json_text
from warehouse.store import Reader

#: As ``draftboard gate``: fine, something is worse or other, not enough evidence.
EXIT = {"repeats": 0, "differs": 1, "likely differs": 2, "open": 2}


def compared(original: Path, siblings: Sequence[Path], launches: Sequence[Path]) -> Again:
    """Ingest these drops and compare them. Raises InvalidInput where one cannot be read."""
    with tempfile.TemporaryDirectory(prefix="draftboard-again-") as folder:
        root = Path(folder) / "warehouse"
        for rejection in take_in((original, *siblings, *launches), root, keep_text=True).rejected:
            raise InvalidInput(f"{rejection.path} cannot be compared: {rejection.reason}")
        with Reader(root) as reader:
            return again(reader, str(original), [*map(str, siblings)], [*map(str, launches)])


def show(found: Again, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        output.show(json_text(words.as_json(found)))
        return
    rows = [(d.setting, d.reference or "not stated", d.arm or "not stated") for d in found.differs]
    output.show(
        f"{found.cell}: {found.headline}",
        words.stands_on(found),
        Table(words.HEADER, [words.row(line) for line in found.lines if words.is_shown(line)]),
        *found.outputs,
        Table(("measured otherwise", "original", "again"), rows) if rows else None,
        *found.doubts,
    )
