"""The engine's prefix cache between two levels: emptied, or known to be kept."""

import json
import time
from http.client import HTTPException
from typing import Literal

from runners.serving import endpoint

PrefixCache = Literal["reset", "kept"]

#: The route fails while a finished request's blocks are still being given back.
_TRIES = 20
_PAUSE_S = 0.1
_TIMEOUT_S = 30.0


def empty_prefix_cache(url: str, wish: Literal["reset", "keep"]) -> PrefixCache:
    """Empty the cache if that is wished. Return what became of it: "kept" also where the server
    offers no way to empty it.

    vLLM has the route only with VLLM_SERVER_DEV_MODE=1.
    """
    if wish == "keep":
        return "kept"
    for _ in range(_TRIES):
        try:
            said = endpoint.send(f"{url}/reset_prefix_cache", None, _TIMEOUT_S)
        except (OSError, HTTPException):
            return "kept"
        if _succeeded(said):
            return "reset"
        time.sleep(_PAUSE_S)
    return "kept"


def _succeeded(said: str) -> bool:
    """Return whether the answer means success: vLLM 0.32 says ``{"success": true}``; before that an
    empty 200 was all there was."""
    try:
        answer = json.loads(said or "{}")
    except ValueError:
        return False
    return bool(answer.get("success", True)) if isinstance(answer, dict) else False
