"""``watch-rejected.json`` in the warehouse's folder: what a watcher rejected, for the next one.

A path is in it with the marks of its files. It holds for as long as they stay the same, for the
code that rejected them, and for what the user asked of it: a better reader, or higher limits, try
again.
"""

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

from ingest.clean import clean_text
from ingest.exchange import Options
from ingest.watch_scan import Fingerprint
from warehouse import queries
from warehouse.errors import DraftboardError
from warehouse.store import Reader

NAME = "watch-rejected.json"
_PRIVATE = ".watch-rejected.json.new"
_HOME = Path(__file__).parents[1]
_READS = ("ingest", "analysis", "warehouse")


def keep(root: Path, options: Options, rejected: dict[str, Fingerprint]) -> None:
    """Write down which paths are rejected, in place of what was written before."""
    private = root / _PRIVATE
    # ASCII: a name that is no UTF-8 cannot be written otherwise.
    private.write_text(json.dumps({"by": _by(options), "rejected": rejected}), encoding="ascii")
    private.replace(root / NAME)


def recall(root: Path, options: Options) -> dict[str, Fingerprint]:
    """Return what was rejected for reasons that still hold, and is listed as rejected in the
    warehouse."""
    with suppress(OSError, ValueError, TypeError, KeyError, DraftboardError):
        kept = json.loads((root / NAME).read_bytes())
        if kept["by"] == _by(options):
            listed = _listed(root)
            return {
                path: tuple((str(name), (int(at), int(size))) for name, (at, size) in marks)
                for path, marks in kept["rejected"].items()
                if clean_text(path) in listed
            }
    return {}


def _listed(root: Path) -> set[str]:
    with Reader(root) as reader:
        return set(queries.rejections(reader).column("path").to_pylist())


def _by(options: Options) -> str:
    """Return a hash of our code and of what was asked: with another hash, rejected files are read
    again."""
    return hashlib.sha256(f"{_code()} {options}".encode()).hexdigest()


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for folder in _READS:
        for path in sorted((_HOME / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
