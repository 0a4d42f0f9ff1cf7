"""A fake: it stands before a real server of S3 and does to requests what networks and clouds do.

What cannot be had here is an overloaded store, a cut line, credentials that expire, another region.
"""

import http.client
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[["Handler", bytes], Answer | None]


class _Server(ThreadingHTTPServer):
    """Takes in as many lines at once as several machines open."""

    request_queue_size = 128


class Front:
    """``http://127.0.0.1:<port>`` before the server at ``behind``; ``requests`` holds what came."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.requests: list[str] = []
        self.sent = 0
        self._faults: list[tuple[str, Fault, list[int]]] = []
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.front = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def fail(self, pattern: str, fault: Fault, times: int = 1_000_000) -> None:
        """Do this to so many requests whose ``METHOD /path`` has the pattern."""
        self._faults.append((pattern, fault, [times]))

    def heal(self) -> None:
        self._faults.clear()

    def fault_of(self, request: str) -> Fault | None:
        for pattern, fault, left in self._faults:
            if re.search(pattern, request) and left[0] > 0:
                left[0] -= 1
                return fault
        return None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def refused(status: int, code: str) -> Fault:
    """The store answers with an error of its own."""
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return lambda *_: (status, {"Content-Type": "application/xml"}, text.encode())


def cut(handler: "Handler", body: bytes) -> None:
    """The line is cut in the middle of the answer."""
    status, headers, content = handler.forward(body)
    handler.answer(status, headers, content[: len(content) // 2], len(content))


def unanswered(handler: "Handler", body: bytes) -> None:
    """The store does it, and the line is cut before its answer."""
    handler.forward(body)
    handler.close_connection = True


def slow(handler: "Handler", body: bytes) -> Answer:
    """The answer takes its time."""
    time.sleep(0.4)
    return handler.forward(body)


def truncated(handler: "Handler", body: bytes) -> Answer:
    """The object is half of what it was."""
    status, headers, content = handler.forward(body)
    return status, headers, content[: len(content) // 2]


def deaf(handler: "Handler", body: bytes) -> Answer:
    """The store does not know of conditions."""
    for name in ("If-Match", "If-None-Match"):
        del handler.headers[name]
    return handler.forward(body)


class Handler(BaseHTTPRequestHandler):
    """One request: passed on, or spoilt."""

    def _any(self) -> None:
        front: Front = self.server.front  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path}"
        front.requests.append(request)
        fault = front.fault_of(request)
        found = self.forward(body) if fault is None else fault(self, body)
        if found is not None:
            self.answer(*found)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any

    def forward(self, body: bytes) -> Answer:
        behind = http.client.HTTPConnection("127.0.0.1", self.server.front.behind)  # type: ignore[attr-defined]
        behind.request(self.command, self.path, body, dict(self.headers))
        got = behind.getresponse()
        content = got.read()
        behind.close()
        kept = {
            k: v for k, v in got.getheaders() if k.lower() not in ("content-length", "connection")
        }
        return got.status, kept, content

    def answer(
        self, status: int, headers: dict[str, str], content: bytes, said: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content) if said is None else said))
        self.end_headers()
        self.server.front.sent += len(content)  # type: ignore[attr-defined]
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
