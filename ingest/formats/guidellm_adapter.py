"""What differs between GuideLLM generations: where the settings stand, and what values mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ingest.formats.guidellm_shape import Benchmark, Report

Settings = Callable[[Report, Benchmark], dict[str, Any]]

BEFORE_04, BEFORE_074, SINCE_074 = "guidellm<0.4", "guidellm 0.4-0.7.3", "guidellm>=0.7.4"


@dataclass(frozen=True)
class Adapter:
    """One schema generation."""

    generation: str
    matches: Callable[[Report], bool]
    definition: Callable[[Report], str]
    backend: Settings
    """The dictionary that holds ``model``, ``request_format``, ``max_tokens``, ``extras``."""
    default_format: str | None = "chat_completions"


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys; None where it ends early."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def version(report: Report) -> tuple[int, ...]:
    """Return GuideLLM's version as numbers, ``0.7.4`` as (0, 7, 4); () where the report does not
    say or it is no number."""
    text = (report.metadata and report.metadata.guidellm_version) or ""
    numbers = text.split("+")[0].split(".")[:3]
    return tuple(int(n) for n in numbers) if all(n.isdecimal() for n in numbers) else ()


def merged(*parts: Any) -> dict[str, Any]:
    """Lay dictionaries over each other; later ones win where they say something."""
    return {k: v for p in parts if isinstance(p, dict) for k, v in p.items() if v not in (None, "")}
