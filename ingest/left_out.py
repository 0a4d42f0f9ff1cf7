"""Numbers of a file that nobody reads: named, so that none is left out in silence."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.level import is_number
from warehouse.rows import Flag
from warehouse.secrets.texts import scrub_text

_NAMED, _LONGEST = 8, 60


def left_out(said: Mapping[str, Any], known: re.Pattern[str]) -> Iterator[Flag]:
    """Yield one flag that names the numbers of a file, and objects that hold some, whose names ``known``
    does not fit: neither read, nor known to follow from what is."""
    names = [key for key, value in said.items() if _counts(value) and not known.fullmatch(key)]
    if names:
        shown = ", ".join(scrub_text(name[:_LONGEST]) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield Flag("not_read", "info", f"Numbers of this file that were not read: {shown}{more}.")


def _counts(value: Any) -> bool:
    return is_number(value) or (isinstance(value, dict) and any(map(is_number, value.values())))
