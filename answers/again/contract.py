"""A repetition as JSON. Unknown is null."""

from dataclasses import asdict
from typing import Any

from answers.again.values import Again

SCHEMA_VERSION = 1


def as_json(found: Again) -> dict[str, Any]:
    """Return all that the answer holds, and ``schema_version``."""
    return {"schema_version": SCHEMA_VERSION, **asdict(found)}
