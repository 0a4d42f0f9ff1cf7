"""Names of the folders of failed attempts, which lie beside the cells: ``c16-r0.failed-2``."""

import re

_FAILED = re.compile(r"(?P<cell>.+)\.failed-(?P<attempt>\d+)")


def failed_name(cell: str, attempt: int) -> str:
    """Return the name under which a failed attempt at a cell is kept; attempts count from 1."""
    return f"{cell}.failed-{attempt}"


def failed_of(name: str) -> tuple[str, int] | None:
    """Return the cell and the number of the attempt by the name of a folder; None for a good cell."""
    match = _FAILED.fullmatch(name)
    return None if match is None else (match["cell"], int(match["attempt"]))
