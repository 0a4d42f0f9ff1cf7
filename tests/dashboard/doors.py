"""A dashboard with a login, and visitors whose cookies are signed as the provider's callback signs
them: what HTTP alone can show needs no browser.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from streamlit.web.server.starlette.starlette_app_utils import (
    create_signed_value,
    generate_xsrf_token_string,
)

from tests.dashboard.browser.seen import answered

SECRET = "a secret of a test, as long as one has to be"
_SECRETS = """
[auth]
redirect_uri = "http://localhost:{port}/oauth2callback"
cookie_secret = "{secret}"
client_id = "draftboard"
client_secret = "another secret"
server_metadata_url = "http://localhost:9/.well-known/openid-configuration"
[draftboard.access]
admins = {{ addresses = ["ad@example.com"] }}
editors = {{ addresses = ["ed@example.com"] }}
viewers = {{ domains = ["viewers.example"] }}
"""
ADDRESSES = {
    "viewer": "vi@viewers.example", "editor": "ed@example.com", "admin": "ad@example.com",
    "stranger": "s@elsewhere.example",
}  # fmt: skip


@contextmanager
def guarded(place: Path, warehouse: Path, more: str = "") -> Iterator[tuple[str, int]]:
    """The address and the process of a dashboard with a login; ``more``: further settings."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = place / ".streamlit"
    folder.mkdir(parents=True)
    secrets = _SECRETS.format(port=port, secret=SECRET) + more
    (folder / "secrets.toml").write_text(secrets, encoding="utf-8")
    words = [str(Path(sys.executable).with_name("draftboard")), "dashboard", f"--port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(warehouse)}
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=place, env=environment, stdout=log, stderr=log)
        try:
            answered(f"http://localhost:{port}/healthz")
            yield f"http://localhost:{port}", server.pid
        finally:
            server.terminate()
            server.wait(60)


@contextmanager
def visiting(address: str, role: str | None) -> Iterator[httpx.Client]:
    """A client of somebody who is logged in as ``role``; None: of nobody."""
    cookies = {} if role is None else {"_streamlit_user": _cookie(address, role)}
    with httpx.Client(base_url=address, cookies=cookies, timeout=60) as client:
        yield client


def _cookie(address: str, role: str) -> str:
    claims: dict[str, Any] = {
        "origin": address, "is_logged_in": True, "provider": "default", "sub": role,
        "name": role.title(), "email": ADDRESSES[role], "email_verified": True,
        "exp": time.time() + 3600,
    }  # fmt: skip
    return create_signed_value(SECRET, "_streamlit_user", json.dumps(claims)).decode()


def opens_a_session(client: httpx.Client) -> int:
    """The status with which a websocket is answered: 101 opens it."""
    line, status = websocket(client)
    line.close()
    return status


def websocket(
    client: httpx.Client, path: str = "/_stcore/stream", origin: str = ""
) -> tuple[socket.socket, int]:
    """A line on which a websocket was asked for, and the status of the answer."""
    url = client.base_url
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    asks = f"GET {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
    asks += f"Origin: {origin or f'http://{url.host}:{url.port}'}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    asks += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    asks += f"Cookie: {cookies}\r\n\r\n" if cookies else "\r\n"
    line = socket.create_connection((url.host, url.port or 80), 60)
    line.sendall(asks.encode())
    return line, int(line.recv(64).split()[1])


def uploads(client: httpx.Client, size: int = 10) -> int:
    """The status with which a file is answered that names a session which there is not."""
    token = generate_xsrf_token_string()
    client.cookies.set("_streamlit_xsrf", token)
    answer = client.put(
        "/_stcore/upload_file/no-session/file",
        files={"file": ("a.json", b"x" * size)},
        headers={"X-Xsrftoken": token},
    )
    return answer.status_code


def flood(client: httpx.Client, times: int) -> None:
    """Send files of 4 MB, ask for sessions, and begin logins that nobody ends."""
    lines = []
    for _ in range(times):
        # The server has answered and closed before it was sent whole.
        with suppress(httpx.TransportError):
            assert uploads(client, 4 << 20) == 403
        line, status = websocket(client)
        lines.append(line)
        assert status == 403
        assert client.get("/auth/login?provider=x", follow_redirects=False).status_code == 302
        assert client.get("/oauth2callback?state=x&code=y").status_code in (302, 400, 403)
    for line in lines:
        line.close()
