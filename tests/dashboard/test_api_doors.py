"""Who reaches the API of a dashboard with a login: on a real server, with cookies and with tokens."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from click.testing import CliRunner

from draftboard import cli
from tests.dashboard.doors import ADDRESSES, guarded, opens_a_session, visiting

pytestmark = pytest.mark.slow

CELLS = "/api/v1/cells"
LIMITS = "[draftboard.limits]\ncalls_per_minute = 60\n"
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def own(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the filled warehouse, into which tokens and their deeds are written."""
    return Path(shutil.copytree(filled, tmp_path_factory.mktemp("own") / "warehouse"))


@pytest.fixture(scope="module")
def server(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    with guarded(tmp_path_factory.mktemp("doors"), own, LIMITS) as found:
        yield found


def _token(warehouse: Path, address: str) -> str:
    done = CliRunner().invoke(cli, ["token", "new", address, "--warehouse", str(warehouse)])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def _asked(address: str, secret: str, path: str = CELLS) -> httpx.Response:
    return httpx.get(address + path, headers={"Authorization": f"Bearer {secret}"}, timeout=60)


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("stranger", 403)])
def test_who_is_not_let_in_reaches_nothing_of_the_api(
    server: tuple[str, int], role: str | None, status: int
) -> None:
    with visiting(server[0], role) as client:
        for path in (CELLS, "/api/v1/openapi.json", "/api/v1/health", "/api/none"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["Content-Type"]) == (status, PROBLEM), path
            assert "lab/tiny-target" not in answer.text


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_who_is_let_in_asks_the_api_with_the_cookie_of_the_login(
    server: tuple[str, int], role: str
) -> None:
    with visiting(server[0], role) as client:
        assert client.get(CELLS).json()["page"]["total"] == 31


def test_a_token_reads_until_it_is_taken_back_and_opens_no_page(
    server: tuple[str, int], own: Path
) -> None:
    address, warehouse = server[0], ["--warehouse", str(own)]
    secret = _token(own, ADDRESSES["editor"])

    assert _asked(address, secret).status_code == 200
    assert _asked(address, secret, "/").status_code == 403
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}) as client:
        assert opens_a_session(client) == 403
    assert secret.encode() not in b"".join(
        path.read_bytes() for path in own.iterdir() if path.is_file()
    )
    listed = CliRunner().invoke(cli, ["token", "list", *warehouse]).stdout
    number = secret.split("_")[1]
    assert number in listed
    assert secret not in listed
    CliRunner().invoke(cli, ["token", "revoke", number, *warehouse])
    gone = _asked(address, secret)
    assert (gone.status_code, gone.headers["Content-Type"]) == (401, PROBLEM)
    assert gone.headers["WWW-Authenticate"] == "Bearer"
    assert "taken back" in gone.json()["detail"]
    told = CliRunner().invoke(cli, ["audit", *warehouse]).stdout
    assert f"token {number} of {ADDRESSES['editor']}" in told


def test_a_token_gives_its_owner_no_more_than_the_login_does(
    server: tuple[str, int], own: Path
) -> None:
    refused = _asked(server[0], _token(own, ADDRESSES["stranger"]))

    assert (refused.status_code, refused.headers["Content-Type"]) == (403, PROBLEM)
    for secret in ("draftboard_00000000_no", "x", "é"):
        made_up = {"Authorization": f"Bearer {secret}".encode()}
        assert httpx.get(server[0] + CELLS, headers=made_up).status_code == 401


def test_a_body_of_a_gigabyte_leaves_no_memory_behind(server: tuple[str, int]) -> None:
    address, pid = server
    piece = b"x" * (1 << 20)
    before = psutil.Process(pid).memory_info().rss
    for role in (None, "viewer"):
        with visiting(address, role) as client:
            try:
                answer = client.request("GET", CELLS, content=itertools.repeat(piece, 1024))
            except httpx.TransportError:
                # It was answered, and the line closed, before the body was sent.
                continue
            assert answer.status_code in (401, 413)

    assert psutil.Process(pid).memory_info().rss - before < 50 << 20


def test_a_client_that_asks_more_often_than_it_may_hears_when_to_try_again(
    server: tuple[str, int],
) -> None:
    with visiting(server[0], "admin") as client:
        answers = [client.get("/api/v1/health") for _ in range(61)]

    assert [one.status_code for one in answers] == [200] * 60 + [429]
    assert answers[-1].headers["Content-Type"] == PROBLEM
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
