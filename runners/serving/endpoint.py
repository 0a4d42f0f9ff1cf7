"""Questions to an OpenAI-compatible server over HTTP."""

import json
import os
import time
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from runners.surroundings.machine import hide
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import REMOVED

_LONGEST = 8192


def read_key(variable: str | None, file: Path | None) -> str | None:
    """Return the key that the options name; None where they name none. Raises RunnerError."""
    if variable is not None and file is not None:
        raise RunnerError("Give the API key once: --api-key-env or --api-key-file.")
    if variable is not None:
        text, where = os.environ.get(variable, ""), f"the variable {variable}"
    elif file is not None:
        where = f"the file {file}"
        try:
            with file.open(encoding="utf-8") as content:
                text = content.read(_LONGEST + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise RunnerError(f"The API key in {file} cannot be read: {error}.") from None
    else:
        return None
    key = text.strip()
    if not key:
        raise RunnerError(f"There is no API key in {where}; put the key there, alone.")
    if len(key) > _LONGEST or not key.isprintable() or " " in key:
        raise RunnerError(f"What stands in {where} is no API key: it must be one word.")
    hide(key)
    return key


def scrub(paths: Iterable[Path], key: str) -> None:
    """Take a key out of files: releases of GuideLLM write their own settings into their reports."""
    forms = {key.encode(), json.dumps(key)[1:-1].encode()}
    for path in paths:
        if not path.is_file():
            continue
        written = clean = path.read_bytes()
        for form in forms:
            clean = clean.replace(form, REMOVED.encode())
        if clean != written:
            path.write_bytes(clean)


RequestFormat = Literal["chat_completions", "text_completions"]
ROUTES: dict[RequestFormat, str] = {
    "chat_completions": "/v1/chat/completions",
    "text_completions": "/v1/completions",
}

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_QUICK_S = 10.0
#: API keys by scheme, host and port. Only this module holds them, so no record can.
_KEYS: dict[str, str] = {}
#: What raises where nobody answers, or not in HTTP.
SILENT = (OSError, HTTPException)


class RequestRefused(Exception):
    """The server is well and takes no such request; the text is its answer."""


class BadStatus(URLError):
    """An answer that is not a success; ``text`` is what it said."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"status {status} {text[:200]}".strip())
        self.status = status
        self.text = text

    @property
    def denied(self) -> bool:
        """Whether the server wants another API key, or one at all."""
        return self.status in (401, 403)


def use_key(url: str, key: str) -> None:
    """Send ``key`` with every question to the server at ``url`` from now on."""
    _KEYS[_origin(url)] = key


def fetch(url: str, timeout_s: float = _QUICK_S) -> str:
    """Return the text at ``url``. OSError or HTTPException where there is none."""
    return _open(urllib.request.Request(url), timeout_s)


def send(url: str, body: Mapping[str, Any] | None, timeout_s: float) -> str:
    """Return the answer to a POST. OSError or HTTPException where there is none."""
    data = b"" if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return _open(request, timeout_s)


def ask(url: str, model: str, request_format: RequestFormat, timeout_s: float) -> None:
    """Ask for one token with a real request: ``/health`` may answer although the engine is dead.

    Raises RequestRefused where the server finds fault with the request, OSError where it does not
    answer.
    """
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
    if request_format == "chat_completions":
        body["messages"] = [{"role": "user", "content": "Hello"}]
    else:
        body["prompt"] = "Hello"
    try:
        send(url + ROUTES[request_format], body, timeout_s)
    except BadStatus as error:
        if not 400 <= error.status < 500 or error.denied:
            raise
        try:  # As OpenAI writes an error.
            message = str(json.loads(error.text)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = str(error.reason)
        raise RequestRefused(message) from None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _open(request: urllib.request.Request, timeout_s: float) -> str:
    if (key := _KEYS.get(_origin(request.full_url))) is not None:
        # Unredirected: a server that sends us elsewhere must not send the key there too.
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    # A proxy of the environment knows nothing of this machine's own ports.
    own = urlsplit(request.full_url).hostname in _LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if own else []))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except HTTPError as error:
        with error:
            raise BadStatus(error.code, error.read().decode("utf-8", "replace")) from None


# --- The engine's prefix cache between two levels: emptied, or known to be kept.


_PAUSE_S = 0.1
_TIMEOUT_S = 30.0


def empty_prefix_cache(url: str, wish: Literal["reset", "keep"]) -> Literal["reset", "kept"]:
    """Empty the cache if that is wished. Return what became of it: "kept" also where the server
    offers no way to empty it.

    vLLM has the route only with VLLM_SERVER_DEV_MODE=1; SGLang has another; llama.cpp has none.
    """
    if wish == "keep":
        return "kept"
    routes = (f"{url}/reset_prefix_cache", f"{url}/flush_cache")
    return "reset" if any(_emptied(route) for route in routes) else "kept"


def _emptied(route: str) -> bool:
    # The route fails while a finished request's blocks are still being given back.
    for _ in range(20):
        try:
            answer = send(route, None, _TIMEOUT_S)
        except SILENT:
            return False
        # vLLM 0.32 says ``{"success": true}``; before that an empty 200 was all there was, and
        # SGLang's is a sentence.
        try:
            parsed = json.loads(answer or "{}")
            success = isinstance(parsed, dict) and bool(parsed.get("success", True))
        except ValueError:
            success = answer.startswith("Cache flushed")
        if success:
            return True
        time.sleep(_PAUSE_S)
    return False
