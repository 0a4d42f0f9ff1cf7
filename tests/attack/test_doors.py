"""Every address by everybody: in foreign pages, by websocket, and with tokens that do not count. The addresses
are those that the application itself has."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.dashboard.doors import guarded, visiting, websocket
from tests.dashboard.test_guard_matrix import VISITORS, addresses
from warehouse.annotations import make_token, revoke_token

pytestmark = pytest.mark.slow

FOREIGN = (
    "https://evil.example", "null", "http://localhost:9", "http://localhost", "file://", "",
    "http://localhost:{port}.evil.example", "http://evil@localhost:{port}", "http://127.0.0.1:{port}",
)  # fmt: skip
PAGES = "/_stcore/stream"


@pytest.fixture(scope="module")
def own(first_lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(first_lab, tmp_path_factory.mktemp("attacked") / "warehouse"))


@pytest.fixture(scope="module")
def address(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("attacked"), own) as (url, _):
        yield url


@pytest.fixture(scope="module")
def places() -> list[tuple[str, str]]:
    """Method and path of every address, its parts filled in."""
    found = [
        one.replace("{path:path}", "x").replace("{", "").replace("}", "").split()
        for one in addresses()
    ]
    return [(method, path) for method, path in found]


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("origin", FOREIGN)
def test_no_address_answers_a_page_of_another_origin(
    address: str, places: list[tuple[str, str]], visitor: str | None, origin: str
) -> None:
    said = origin.replace("{port}", address.rpartition(":")[2])
    with visiting(address, visitor) as client:
        for method, path in places:
            if method == "WEBSOCKET":
                line, status = websocket(client, path, said or "x")
                line.close()
            else:
                asked = client.request(method, path, headers={"Origin": said})
                status = asked.status_code
                assert "Access-Control-Allow-Origin" not in asked.headers
            assert status == 403, (method, path)


@pytest.mark.parametrize("visitor", VISITORS)
def test_a_websocket_opens_at_no_other_address(
    address: str, places: list[tuple[str, str]], visitor: str | None
) -> None:
    with visiting(address, visitor) as client:
        for _, path in places:
            if path != PAGES:
                line, status = websocket(client, path)
                line.close()
                assert status in (403, 404), path


def test_no_token_that_does_not_count_opens_anything(
    address: str, places: list[tuple[str, str]], own: Path
) -> None:
    taken, secret = make_token(own, "ed@example.com", 1, "a test")
    revoke_token(own, taken.id, "a test")
    _, ended = make_token(own, "ed@example.com", -1, "a test")
    _, of_nobody = make_token(own, "s@elsewhere.example", 1, "a test")
    _, counts = make_token(own, "ed@example.com", 1, "a test")
    wrong = (
        secret,
        ended,
        of_nobody,
        counts[:-1],
        f"{counts}x",
        counts.upper(),
        "-",
        "draftboard_",
        "x" * 5000,
    )
    with httpx.Client(base_url=address, timeout=60) as client:
        for method, path in places:
            if method != "GET" or not path.startswith(("/api/", "/metrics", "/llms.txt")):
                continue
            for one in wrong:
                status = client.get(path, headers={"Authorization": f"Bearer {one}"}).status_code
                assert status in (401, 403), (path, one[:20])
            assert client.get(path, headers={"Authorization": f"Bearer {counts}"}).status_code < 500
