"""FAKE Hugging Face hub: one model of small files and one dataset, because tests have no network.

The client is the real huggingface_hub; this answers the few requests that it makes.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" * 6 + "c0ff"
WEIGHT_BYTES = 123_456_789


@contextmanager
def serve(model: str, files: dict[str, bytes], dataset: str) -> Iterator[str]:
    """The address of a hub that has ``model`` with ``files`` (and weights in name only)."""
    siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
    siblings.append({"rfilename": "model.safetensors", "size": WEIGHT_BYTES})
    about = {"id": model, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}
    pages = {
        f"/api/models/{model}": about,
        f"/api/datasets/{dataset}": {"id": dataset, "sha": COMMIT},
    }
    for revision in ("main", COMMIT):
        pages[f"/api/models/{model}/revision/{revision}"] = about
    pages[f"/api/models/{model}/tree/{COMMIT}"] = [
        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        for name, data in files.items()
    ]
    contents = {f"/{model}/resolve/{COMMIT}/{name}": data for name, data in files.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            data = contents.get(path)
            if data is None and path in pages:
                data = json.dumps(pages[path]).encode()
            self.send_response(200 if data is not None else 404)
            data = data if data is not None else b"{}"
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if with_body:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing: the terminal is the test's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
