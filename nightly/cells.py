"""What a night has of its cells: how many are good, why others failed, what is set otherwise."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nightly.place import Place
from warehouse.attempts import failed_of
from warehouse.contract import FACT_KEYS
from warehouse.nights import Cells, Changed, Failure

RECORD = "record.json"
#: Failures and changes that a summary tells; the rest is in the results.
MOST = 20
#: What of a record's environment is set by somebody; clocks, ports and placement vary by themselves.
_ENVIRONMENT = (
    "versions", "packages", "driver", "cuda_driver", "cpu", "system", "python", "container",
    "git", "variables",
)  # fmt: skip
_TEXT = 300


def count(place: Place, planned: Sequence[str]) -> Cells:
    """Count the planned cells: each is good, failed or missing."""
    good = [key for key in planned if _is_good(place, key)]
    failed = [key for key in planned if key not in set(good) and _last_attempt(place, key)]
    missing = len(planned) - len(good) - len(failed)
    return Cells(planned=len(planned), good=len(good), failed=len(failed), missing=missing)


def failures(place: Place, planned: Sequence[str]) -> tuple[Failure, ...]:
    """Return the cells that failed and why, as the runner diagnosed their last attempt; at most
    MOST."""
    found = []
    for key in planned:
        attempt = None if _is_good(place, key) else _last_attempt(place, key)
        if attempt is not None:
            said = _read(attempt / RECORD).get("failure") or "its record gives no diagnosis"
            found.append(Failure(cell=key, said=" ".join(str(said).split())[:_TEXT]))
    return tuple(found[:MOST])


def changed(place: Place, earlier: Place | None, planned: Sequence[str]) -> tuple[Changed, ...]:
    """Return what is set otherwise than in an earlier night: one good cell of each server is
    compared with its own of that night.

    At most MOST; nothing without an earlier night.
    """
    if earlier is None:
        return ()
    from analysis.matching.difference import differences

    found = {
        (change.field, str(change.before), str(change.after)): change
        for key in _one_a_server(key for key in planned if _is_good(place, key))
        if _is_good(earlier, key)
        for change in differences(_set(earlier, key), _set(place, key))
    }
    return tuple(
        Changed(field=change.field, before=plain(change.before), after=plain(change.after))
        for _, change in sorted(found.items())
    )[:MOST]


def plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _one_a_server(keys: Iterable[str]) -> list[str]:
    """Return the first key of each ``<arm>/tp<n>``: all cells of one server were set alike."""
    firsts: dict[tuple[str, ...], str] = {}
    for key in keys:
        firsts.setdefault(tuple(key.split("/")[:2]), key)
    return list(firsts.values())


def _set(place: Place, key: str) -> dict[str, Any]:
    record = _read(_folder(place, key) / RECORD)
    environment = record.get("environment") or {}
    stated = {name: environment.get(name) for name in _ENVIRONMENT}
    return {name: record.get(name) for name in FACT_KEYS} | {"environment": stated}


def _is_good(place: Place, key: str) -> bool:
    """Return whether a cell is good: the runner renames it into its place then, and only then."""
    return (_folder(place, key) / RECORD).is_file()


def _folder(place: Place, key: str) -> Path:
    """Return where a cell lies: the runner adds the versions that measured it, ``<key>@<versions>``."""
    plain = place.own / key
    found = sorted(
        plain.parent.glob(f"{plain.name}@*/{RECORD}"), key=lambda path: path.stat().st_mtime
    )
    good = [path.parent for path in found if failed_of(path.parent.name) is None]
    return good[-1] if good else plain


def _last_attempt(place: Place, key: str) -> Path | None:
    """Return the folder of the last failed attempt; None where there is none."""
    final = place.own / key
    found = {path: failed_of(path.name) for path in final.parent.glob(f"{final.name}.failed-*")}
    attempts = {told[1]: path for path, told in found.items() if told is not None}
    return attempts[max(attempts)] if attempts else None


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
