"""A fake of GitHub's API: the comments of one pull request, in pages of two, and whose token it is."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.listening import listening

TOKEN = "fake-token-of-a-workflow"
_COMMENTS = "/repos/team/serving/issues/7/comments"
_PAGE = 2


@dataclass
class FakeGitHub:
    """``login``: whose token it is, None: a workflow's; ``may_write``: whether it may comment."""

    address: str = ""
    login: str | None = None
    may_write: bool = True
    comments: list[dict[str, Any]] = field(default_factory=list)

    def add(self, body: str, login: str = "github-actions[bot]") -> dict[str, Any]:
        """A comment; who is called ``…[bot]`` is no person."""
        kind = "Bot" if login.endswith("[bot]") else "User"
        user = {"login": login, "type": kind}
        made = {"id": len(self.comments) + 1, "body": body, "user": user}
        self.comments.append(made | {"html_url": f"https://github.example/{made['id']}"})
        return self.comments[-1]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any, str | None]:
        """Status, body, address of the next page."""
        parts = urlsplit(path)
        if parts.path == "/user":
            known = self.login is not None
            return (200, {"login": self.login}, None) if known else (403, {"message": "no"}, None)
        if method == "GET" and parts.path == _COMMENTS:
            page = int(parse_qs(parts.query).get("page", ["1"])[0])
            more = len(self.comments) > page * _PAGE
            following = f"{self.address}{_COMMENTS}?page={page + 1}" if more else None
            return 200, self.comments[(page - 1) * _PAGE : page * _PAGE], following
        if not self.may_write:
            return 403, {"message": "Resource not accessible by integration"}, None
        if method == "POST" and parts.path == _COMMENTS:
            return 201, self.add(body["body"], self.login or "github-actions[bot]"), None
        found = [c for c in self.comments if parts.path.endswith(f"/issues/comments/{c['id']}")]
        if method == "PATCH" and found:
            found[0]["body"] = body["body"]
            return 200, found[0], None
        return 404, {"message": "Not Found"}, None


@contextmanager
def fake_github() -> Iterator[FakeGitHub]:
    """A fake that listens on this machine."""
    fake = FakeGitHub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, said, following = 401, {"message": "Bad credentials"}, None
            if self.headers.get("Authorization") == f"Bearer {TOKEN}":
                status, said, following = fake.answer(self.command, self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            if following:
                self.send_header("Link", f'<{following}>; rel="next"')
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with listening(Handler) as port:
        fake.address = f"http://127.0.0.1:{port}"
        yield fake
