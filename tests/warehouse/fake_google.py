"""A fake: Google's object store as far as its XML interface is written down, with conditions on generations.

No emulator of it that could be had answers what our client asks: they lack this interface, or its tags.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_DAY = "Tue, 24 Nov 2026 10:00:00 GMT"
#: Google counts microseconds: no generation is a small number.
_FIRST = 1_764_000_000_000_000


class _Store(BaseHTTPRequestHandler):
    """One bucket in memory: name -> content and generation."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, tuple[bytes, int]]
    turn: threading.Lock

    def do_PUT(self) -> None:  # noqa: N802
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.turn:
            now = self.objects.get(self._name(), (b"", 0))[1]
            asked = self.headers["x-goog-if-generation-match"]
            if asked is not None and int(asked) != now:
                self._answer(412)
                return
            generation = (now or _FIRST) + 1
            self.objects[self._name()] = content, generation
        self._answer(200, *self._tags(content, generation))

    def do_GET(self) -> None:  # noqa: N802
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._answer(200, body=self._listing())
            return
        found = self.objects.get(self._name())
        if found is None:
            self._answer(404)
            return
        tags = self._tags(*found)
        known = self.headers["If-None-Match"] == tags[0][1]
        self._answer(304 if known else 200, *tags, body=b"" if known else found[0])

    def do_DELETE(self) -> None:  # noqa: N802
        self._answer(404 if self.objects.pop(self._name(), None) is None else 204)

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).split("/", 2)[2]

    @staticmethod
    def _tags(content: bytes, generation: int) -> tuple[tuple[str, str], ...]:
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return ("ETag", f'"{digest}"'), ("x-goog-generation", str(generation))

    def _listing(self) -> bytes:
        asked = parse_qs(urlsplit(self.path).query)
        prefix, cut = asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0]
        found = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
            f"<LastModified>2026-11-24T10:00:00Z</LastModified>"
            f"<ETag>{self._tags(content, generation)[0][1]}</ETag></Contents>"
            for name, (content, generation) in sorted(self.objects.items())
            if name.startswith(prefix) and not (cut and cut in name[len(prefix) :])
        )
        return f"<ListBucketResult>{found}</ListBucketResult>".encode()

    def _answer(self, status: int, *headers: tuple[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (*headers, ("Last-Modified", _DAY)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def google(folder: Path) -> Iterator[Path]:
    """The file of a service account by which Google's clients reach the fake."""
    store = type("Store", (_Store,), {"objects": {}, "turn": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    account = folder / "account.json"
    said = {"gcs_base_url": f"http://127.0.0.1:{server.server_port}", "disable_oauth": True}
    said |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    account.write_text(json.dumps(said), encoding="utf-8")
    yield account
    server.shutdown()
    server.server_close()
