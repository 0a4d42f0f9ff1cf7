"""``meta.json`` beside a report, or ``NAME.meta.json`` for ``NAME.json``: its facts.

Other programs write such files for themselves: members that are no facts are passed over.
"""

import json
import re
from pathlib import Path
from typing import Any

from ingest.served_with import served_with
from ingest.settings import checked_facts
from ingest.speculation import completed
from ingest.unreadable import why
from warehouse.contract import FACT_KEYS
from warehouse.errors import InvalidInput, UnknownKey

META, _OWN = "meta.json", ".meta.json"
_LARGEST = 1 << 20
#: What a report's name ends in; another dot belongs to the name, as in ``qwen2.5-7b.json``.
_ENDS = re.compile(r"(\.(json|jsonl|ya?ml|csv))?(\.(gz|zst))?$", re.IGNORECASE)


def is_meta(path: Path) -> bool:
    """Return whether a file tells the facts of other files."""
    return path.name == META or path.name.endswith(_OWN)


def meta_files(report: Path) -> tuple[Path, Path]:
    """Return where the facts of a report may lie, there or not; the report's own file is last."""
    own = _ENDS.sub("", report.name, count=1) + _OWN
    return report.with_name(META), report.with_name(own)


def facts_beside(report: Path) -> dict[str, Any]:
    """Return what lies beside a report and tells of it; the report's own file wins. Raises
    InvalidInput."""
    found: dict[str, Any] = {}
    for path in meta_files(report):
        if path.is_file() and path != report:
            found |= _read(path)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInput(f"{path} is larger than 1 MB: it holds more than facts; rename it.")
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({why(error)}): mend it, or rename it."
        ) from None
    if not isinstance(said, dict):
        return {}
    command = said.get("served_with")
    try:
        served = served_with(command) if isinstance(command, str) else {}
        own = {key: value for key, value in said.items() if key in FACT_KEYS}
        return checked_facts(served | completed(own))
    except UnknownKey as error:
        said = str(error).replace("--set ", "", 1)
        raise InvalidInput(f"{path}: {said}") from None
