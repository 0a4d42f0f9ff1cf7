"""What an anonymous visitor, a viewer and an editor reach over plain HTTP, on a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard.doors.gate import Headers, broken
from tests.dashboard.doors import (
    flood,
    guarded,
    opens_a_session,
    uploads,
    visiting,
    websocket,
)

pytestmark = pytest.mark.slow

OF_STREAMLIT = (
    "/_stcore/host-config", "/_stcore/metrics", "/_stcore/script-health-check", "/media/x.csv",
    "/_stcore/agent/openapi.json", "/static/js/index.js", "/component/x/y.js",
)  # fmt: skip
LIMITS = "[draftboard.limits]\nsessions = 3\nupload_mb = 1\n"


@pytest.fixture(scope="module")
def address(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("guard"), filled, LIMITS) as (url, _):
        yield url


@pytest.mark.parametrize("role", [None, "stranger"])
def test_who_is_not_let_in_reaches_neither_a_session_nor_an_upload_nor_any_address(
    address: str, role: str | None
) -> None:
    with visiting(address, role) as client:
        assert opens_a_session(client) == 403
        assert uploads(client) == 403
        for path in ("/", "/data", *OF_STREAMLIT):
            assert client.get(path).status_code == 403, path
        assert client.get("/healthz").text == "ok"


def test_a_viewer_reaches_the_pages_and_sends_no_file(address: str) -> None:
    with visiting(address, "viewer") as client:
        assert client.get("/").status_code == 200
        assert opens_a_session(client) == 101
        assert uploads(client) == 403


#: What is open to all by HTTP, and what there is not: no websocket opens there.
NOT_A_PAGE = ("/healthz", "/login", "/auth/login", "/auth/logout", "/oauth2callback",
              "/_stcore/health", "/", "/api/v1/runs", "/mcp", "/no/such")  # fmt: skip


@pytest.mark.parametrize("role", [None, "stranger", "viewer", "admin"])
@pytest.mark.parametrize("path", NOT_A_PAGE)
def test_a_websocket_opens_at_the_pages_and_nowhere_else(
    address: str, role: str | None, path: str
) -> None:
    with visiting(address, role) as client:
        line, status = websocket(client, path)
        line.close()
    assert status in (403, 404)


@pytest.mark.parametrize("role", [None, "editor"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9"])
def test_a_page_of_another_origin_is_refused_before_anything_else_is_asked(
    address: str, role: str | None, origin: str
) -> None:
    with visiting(address, role) as client:
        for path in ("/", "/healthz", "/auth/login", *OF_STREAMLIT):
            answer = client.get(path, headers={"Origin": origin})
            assert answer.status_code == 403, path
            assert "another origin" in answer.text
        line, status = websocket(client, origin=origin)
        line.close()
    assert status == 403


def test_a_page_of_its_own_is_served_behind_a_proxy_with_https(address: str) -> None:
    port = address.rpartition(":")[2]
    own = (("localhost", "https://localhost"), ("localhost:443", "https://LOCALHOST"),
           ("localhost", "http://localhost:80"), (f"localhost:{port}", f"https://localhost:{port}"))  # fmt: skip
    with visiting(address, "viewer") as client:
        for host, origin in own:
            answer = client.get("/", headers={"Host": host, "Origin": origin})
            assert answer.status_code == 200, (host, origin)
        for host, origin in (
            ("localhost:80", "https://localhost"),
            ("localhost", "https://localhost:80"),
        ):
            answer = client.get("/", headers={"Host": host, "Origin": origin})
            assert answer.status_code == 403, (host, origin)


def test_an_editor_reaches_the_pages_and_the_upload(address: str) -> None:
    with visiting(address, "editor") as client:
        assert client.get("/").status_code == 200
        assert opens_a_session(client) == 101
        # Streamlit itself answers: it knows no such session.
        assert uploads(client) == 400


@pytest.mark.parametrize("role", [None, "viewer", "editor"])
@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/login", "/no/such/page", "/_stcore/health", "/_stcore/metrics"]
)
def test_every_answer_has_the_headers_that_keep_other_sites_out(
    address: str, role: str | None, path: str
) -> None:
    with visiting(address, role) as client:
        told = client.get(path).headers

    assert "frame-ancestors 'none'" in told["Content-Security-Policy"]
    assert "default-src 'none'" in told["Content-Security-Policy"]
    assert "unsafe-eval" not in told["Content-Security-Policy"]
    assert told["X-Content-Type-Options"] == "nosniff"
    assert told["Referrer-Policy"] == "same-origin"


def test_one_client_opens_as_many_pages_as_it_may_and_others_are_not_held_up(address: str) -> None:
    with visiting(address, "viewer") as client, visiting(address, "editor") as other:
        lines = [websocket(client) for _ in range(4)]

        assert [status for _, status in lines] == [101, 101, 101, 403]
        assert opens_a_session(other) == 101
        for line, _ in lines:
            line.close()


def test_uploads_of_one_client_are_counted_by_their_bytes(address: str) -> None:
    with visiting(address, "admin") as client:
        assert uploads(client, 600_000) == 400
        assert uploads(client, 600_000) == 429


def test_under_another_name_there_is_one_sentence_without_a_path(address: str) -> None:
    with visiting(address, "editor") as client:
        answer = client.get("/", headers={"Host": "rebound.example"})

    assert answer.status_code == 403
    assert "not known under the name" in answer.text
    assert str(Path.cwd()) not in answer.text


async def _asked(app: Starlette) -> httpx.Response:
    there = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=there, base_url="http://localhost") as client:
        return await client.get("/")


def test_a_mistake_of_ours_is_one_sentence_with_the_headers() -> None:
    def break_down(_: Request) -> Response:
        raise RuntimeError(f"in {__file__}")

    app = Starlette(
        routes=[Route("/", break_down)],
        middleware=[Middleware(Headers)],
        exception_handlers={Exception: broken},
    )
    answer = asyncio.run(_asked(app))

    assert answer.status_code == 500
    assert answer.text == "The server made a mistake; its log has the details.\n"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


#: What a flood by nobody may leave behind.
_MOST_LEFT = 50 << 20


def test_a_flood_of_uploads_and_sessions_by_nobody_leaves_no_memory_behind(
    filled: Path, tmp_path: Path
) -> None:
    with guarded(tmp_path, filled) as (address, pid), visiting(address, None) as client:
        flood(client, 2)
        before = psutil.Process(pid).memory_info().rss
        flood(client, 100)
        after = psutil.Process(pid).memory_info().rss

    assert after - before < _MOST_LEFT
