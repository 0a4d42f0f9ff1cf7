"""Server arguments one by one, as fields in which two cells may differ."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.matching.difference import flat
from warehouse.errors import UnknownKey

_ALL = "server_args"


@lru_cache(4096)
def arguments(text: Any) -> Mapping[str, str]:
    """Return the arguments behind JSON text as fields, ``server_args.max-num-seqs``, and their
    values as words; empty where nothing is known."""
    return {field_of(name): str(value).lower() for name, value in flat({_ALL: text}).items()}


def field_of(name: str) -> str:
    """Return a field's name; a server argument's is the same whichever way it is written."""
    kind, dot, argument = name.partition(".")
    return kind + dot + argument.lstrip("-").lower().replace("_", "-")


def require(named: Collection[str], cells: pd.DataFrame, fields: Collection[str]) -> None:
    """Raise UnknownKey for a name that is none of ``fields`` and no argument that a cell states."""
    texts = cells[_ALL].unique() if _ALL in cells else ()
    there = sorted({name for text in texts for name in arguments(text)})
    wrong = next((name for name in named if name not in fields and name not in there), None)
    if wrong is not None and (len(cells) or not wrong.startswith(_ALL)):
        raise UnknownKey(
            f"{wrong!r} is no field that pairs must share; use one of {', '.join(fields)}, or one "
            f"server argument alone: {', '.join(there) or 'these cells state none'}."
        )


def differing(one: Any, other: Any) -> dict[str, tuple[str, str]]:
    """Return the arguments in which two cells' JSON texts differ, with both values."""
    first, second = arguments(one), arguments(other)
    unsaid = ["not stated" if isinstance(text, str) else "unknown" for text in (one, other)]
    return {
        name: (first.get(name, unsaid[0]), second.get(name, unsaid[1]))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    }
