"""What is said to a person, once: one package for each question; and which code kept facts follow from."""

import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_CODE = ("analysis/evidence", "analysis/flags", "analysis/matching",
         "answers/ground.py", "warehouse/catalogue.py", "warehouse/loads.py")  # fmt: skip


@cache
def code_hash() -> str:
    """Return the hash (sha256, hex) of the code that a study's differences follow from."""
    paths = (
        path for name in _CODE for path in sorted((_ROOT / name).rglob("*.py")) or [_ROOT / name]
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
