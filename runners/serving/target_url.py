"""A server that somebody else runs: only load and counters; what it does not say stays unknown."""

import json
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from runners.planning.plan import PlannedCell
from runners.serving.endpoint import fetch
from warehouse.errors import RunnerError


def engine_facts(url: str) -> dict[str, Any]:
    """Engine and version, if the server shows vLLM's own metrics; else nothing."""
    if "vllm:" not in (_read(url + "/metrics") or ""):
        return {}
    try:
        said = json.loads(_read(url + "/version") or "{}")
    except ValueError:
        said = {}
    version = said.get("version") if isinstance(said, dict) else None
    return {"engine": "vllm", "engine_version": version}


def _read(url: str) -> str | None:
    try:
        return fetch(url)
    except (OSError, HTTPException):
        return None


def require_one_arm(cells: Sequence[PlannedCell]) -> None:
    """Raise RunnerError where the cells want more than the one server that there is."""
    arms = sorted({f"{cell.arm} on {cell.tensor_parallel_size} GPUs" for cell in cells})
    if len(arms) > 1:
        raise RunnerError(
            f"The server at --target-url is one arm, and the study has {', '.join(arms)}; say which "
            "it is: --only arm=… (and tp=…)."
        )
