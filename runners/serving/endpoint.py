"""Questions to an OpenAI-compatible server over HTTP."""

import json
import urllib.request
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

RequestFormat = Literal["chat_completions", "text_completions"]

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_QUICK_S = 10.0
#: API keys by scheme, host and port. Only this module holds them, so no record can.
_KEYS: dict[str, str] = {}
#: What raises where nobody answers, or not in HTTP.
SILENT = (OSError, HTTPException)


class Refused(Exception):
    """The server is well and takes no such request; the text is its answer."""


class BadStatus(URLError):
    """An answer that is not a success; ``said`` is its text."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"status {status} {said[:200]}".strip())
        self.status = status
        self.said = said

    @property
    def denied(self) -> bool:
        """Whether the server wants another API key, or one at all."""
        return self.status in (401, 403)

    @property
    def unknown_route(self) -> bool:
        """Whether the server has no such address, or does not show it to us."""
        return self.denied or self.status in (404, 405, 501)


def use_key(url: str, key: str) -> None:
    """Send ``key`` with every question to the server at ``url`` from now on."""
    _KEYS[_origin(url)] = key


def fetch(url: str, timeout_s: float = _QUICK_S) -> str:
    """Return the text at ``url``. OSError or HTTPException where there is none."""
    return _open(urllib.request.Request(url), timeout_s)


def send(url: str, body: dict[str, Any] | None, timeout_s: float) -> str:
    """Return the answer to a POST. OSError or HTTPException where there is none."""
    data = b"" if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return _open(request, timeout_s)


def ask(url: str, model: str, request_format: RequestFormat, timeout_s: float) -> None:
    """Ask for one token with a real request: ``/health`` may answer although the engine is dead.

    Raises Refused where the server finds fault with the request, OSError where it does not answer.
    """
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
    if request_format == "chat_completions":
        path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": "Hello"}]
    else:
        path, body["prompt"] = "/v1/completions", "Hello"
    try:
        send(url + path, body, timeout_s)
    except BadStatus as error:
        if 400 <= error.status < 500 and not error.denied:
            raise Refused(_message(error)) from None
        raise


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


def _message(error: BadStatus) -> str:
    """Return the message of an error as OpenAI writes it, ``{"error": {"message": …}}``, else the
    error's reason."""
    try:
        return str(json.loads(error.said)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
