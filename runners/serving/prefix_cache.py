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

    vLLM has the route only with VLLM_SERVER_DEV_MODE=1; SGLang has another; llama.cpp has none.
    """
    if wish == "keep":
        return "kept"
    emptied = _asked(f"{url}/reset_prefix_cache") or _asked(f"{url}/flush_cache")
    return "reset" if emptied else "kept"


def _asked(route: str) -> bool:
    for _ in range(_TRIES):
        try:
            said = endpoint.send(route, None, _TIMEOUT_S)
        except (OSError, HTTPException):
            return False
        if _succeeded(said):
            return True
        time.sleep(_PAUSE_S)
    return False


def _succeeded(said: str) -> bool:
    """Return whether the answer means success: vLLM 0.32 says ``{"success": true}``; before that an
    empty 200 was all there was, and SGLang's is a sentence."""
    try:
        answer = json.loads(said or "{}")
    except ValueError:
        return said.startswith("Cache flushed")
    return bool(answer.get("success", True)) if isinstance(answer, dict) else False
