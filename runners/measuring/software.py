"""The engine and the load generator that a cell is measured with: part of its path.

A cell of another version is another cell: neither takes the other's place.
"""

import re
from dataclasses import dataclass
from typing import Any

from runners.planning.study import Study
from runners.serving.engines import engine_of, glance
from runners.surroundings.tools import tool


@dataclass(frozen=True)
class Software:
    """The versions of engine and load generator. None: unknown, and then nothing is held against
    it."""

    engine: str | None = None
    engine_version: str | None = None
    engine_executable: str | None = None
    """As the study names it; None for somebody else's server."""
    guidellm_version: str | None = None
    guidellm_executable: str | None = None

    @property
    def name(self) -> str:
        """The versions as a part of a path, e.g. "vllm0.32.0-guidellm0.8.1"; empty where no version
        is known."""
        versions = ((self.engine, self.engine_version), ("guidellm", self.guidellm_version))
        known = [f"{name}{version}" for name, version in versions if name and version]
        return re.sub(r"[^A-Za-z0-9.+_-]", "_", "-".join(known))

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name, as a dict for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}


def software(study: Study, target_url: str | None = None) -> Software:
    """Return what the study's executables, or the server at ``target_url``, say of themselves."""
    load, executables = tool(study, "guidellm"), study.executables
    if target_url is not None:
        said = glance(target_url)
        return Software(said.engine, said.version, None, load.version, executables.guidellm)
    engine = engine_of(study)
    return Software(
        engine.name, tool(study, engine.tool).version, getattr(executables, engine.tool),
        load.version, executables.guidellm,
    )  # fmt: skip


def of_record(said: dict[str, Any]) -> Software:
    """Return the software that a record says it was measured with, also of a record from before
    this was kept."""
    environment = _part(said, "environment")
    kept = _part(environment, "software")
    if kept:
        return Software(**{name: value for name, value in kept.items() if name in _FIELDS})
    versions = _part(environment, "versions")
    return Software(
        said.get("engine"), said.get("engine_version"), guidellm_version=versions.get("guidellm")
    )


_FIELDS = frozenset(Software.__dataclass_fields__)


def differs(one: Software, other: Software) -> list[str]:
    """Return the names of the versions that both know and that differ."""
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in sorted(_FIELDS)]
    return [name for name, a, b in pairs if None not in (a, b) and a != b]


def _part(said: dict[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}
