"""A server that shows recorded counters at /metrics, one sample a question; or refuses as servers do."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import zstandard

from tests.truth.standing import RECORDED


def texts(name: str, first: int = 0) -> list[str]:
    """The samples of a recording as a server shows them."""
    packed = (RECORDED / f"{name}.jsonl.zst").read_bytes()
    lines = zstandard.ZstdDecompressor().decompress(packed, max_output_size=2**24).splitlines()
    return ["\n".join(json.loads(line)[1]) + "\n" for line in lines[first:]]


@contextmanager
def showing(
    answers: Sequence[str | int], key: str | None = None, asked: list[str] | None = None
) -> Iterator[str]:
    """Its address. ``answers``: a text, or a status, for each question, the last one for all that follow;
    ``key``: what must be sent; ``asked``: is told what was asked."""
    left, lock = list(answers), Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(f"{self.command} {self.path}")
            with lock:
                answer = left.pop(0) if len(left) > 1 else left[0]
            if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                answer = 401
            body = answer.encode() if isinstance(answer, str) else b"no"
            self.send_response(200 if isinstance(answer, str) else answer)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
