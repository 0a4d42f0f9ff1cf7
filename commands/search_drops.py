"""What the drops of a search say before anything is ingested: good cells, and who is out, why."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.attempts import failed_of

if TYPE_CHECKING:
    from answers.search.values import Out


def good(folder: Path) -> Iterator[Path]:
    """Yield the records of the good cells in the folder of a study."""
    found = folder.glob("*/tp*/*/c*/record.json")
    return (path for path in found if failed_of(path.parent.name) is None)


def given_up(folder: Path, attempts: int) -> "tuple[Out, ...]":
    """Return the arms that are out: a cell of theirs failed as often as the study allows, and was not
    measured since."""
    from answers.search.values import Out

    done = {key_of(path) for path in good(folder)}
    found: dict[str, Out] = {}
    for path, name, attempt in _failed(folder):
        cell = _key(path.parent.with_name(name)) if name else ""
        if attempt >= attempts and cell not in done:
            arm, _, dataset, load = cell.split("/")
            why = json.loads(path.read_bytes()).get("failure") or "it does not say why"
            where = f"{dataset} at {load.rpartition('-r')[0].removeprefix('c')}"
            found[arm] = Out(arm, f"{where}: {why}")
    return tuple(found.values())


def lost_min(folder: Path) -> float:
    """Return the minutes that failed cells took, from the start of the first one of a launch and attempt
    to the end of the last: they are spent like those of good ones."""
    spans: dict[tuple[str, int], list[datetime]] = {}
    for path, _, attempt in _failed(folder):
        said = json.loads(path.read_bytes())
        told = [said.get(name) for name in ("started_at", "ended_at")]
        moments = [datetime.fromisoformat(one) for one in told if isinstance(one, str)]
        spans.setdefault((str(said.get("launch")), attempt), []).extend(moments)
    return sum((max(one) - min(one)).total_seconds() / 60 for one in spans.values() if one)


def _failed(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """Yield the records of failed cells, the names of their cells' folders, and which attempts they
    were."""
    for path in sorted(folder.glob("*/tp*/*/c*.failed-*/record.json")):
        yield path, *(failed_of(path.parent.name) or ("", 0))


def key_of(record: Path) -> str:
    """The cell of the plan that a record is of."""
    return _key(record.parent).partition("@")[0]


def _key(folder: Path) -> str:
    """``draft-k3/tp1/code/c16-r0`` of the folder of a cell."""
    return "/".join(folder.parts[-4:])
