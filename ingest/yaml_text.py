"""YAML that others wrote: plain values only, and none that grows without end as it is read."""

from typing import Any

import yaml

from ingest.unreadable import why
from warehouse.errors import InvalidInput

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Aliases let a few lines stand for any number of values; reports hold far fewer than this.
_MOST = 5_000_000
_LARGEST = 256 << 20


def load_yaml(data: memoryview, kind: str) -> dict[str, Any]:
    """Read one mapping from YAML. Raises InvalidInput; ``kind`` is what the file would be."""
    if len(data) > _LARGEST:
        raise InvalidInput(
            f"This YAML, {kind}, is larger than {_LARGEST >> 20} MB: export it as JSON instead."
        )
    try:
        said = yaml.load(bytes(data), Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"This YAML, {kind}, cannot be read: {why(error)}; mend it or copy it again."
        ) from None
    if not isinstance(said, dict):
        raise InvalidInput(
            f"This YAML is not {kind}: it holds no names with values, so mend it or copy it again."
        )
    _plain(said, kind)
    return said


def load_report(data: memoryview, kind: str) -> dict[str, Any]:
    """Read a report from YAML, which has no end of its own. Raises InvalidInput, also where it is cut
    off within a line: every writer of YAML ends the last one."""
    if bytes(data[-1:]) != b"\n":
        raise cut_off(kind)
    return load_yaml(data, kind)


def cut_off(kind: str) -> InvalidInput:
    """Return what is said of a report in YAML whose end is not there."""
    return InvalidInput(
        f"This YAML, {kind}, is cut off: it ends before all was written; copy it again from its "
        "source."
    )


def _plain(said: Any, kind: str) -> None:
    """Make every name a text, as in JSON: YAML takes numbers and nothing for names too. Raises
    InvalidInput where the values, aliases followed, are too many or without end."""
    waiting, seen = [said], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if seen > _MOST:
            raise InvalidInput(
                f"This YAML, {kind}, repeats itself by aliases beyond any report: write it anew."
            )
        if isinstance(one, dict):
            for name in [name for name in one if not isinstance(name, str)]:
                one["null" if name is None else str(name)] = one.pop(name)
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
