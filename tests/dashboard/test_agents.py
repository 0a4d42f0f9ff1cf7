"""``/mcp`` of a dashboard with a login, asked by the official client of the protocol."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from click.testing import CliRunner
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from answers.doors.questions import QUESTIONS
from draftboard import cli
from tests.dashboard.doors import ADDRESSES, guarded, visiting

pytestmark = pytest.mark.slow

FIRST = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "runs", "arguments": {}},
}  # fmt: skip
SAID = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def own(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the filled warehouse, into which tokens are written."""
    return Path(shutil.copytree(filled, tmp_path_factory.mktemp("own") / "warehouse"))


@pytest.fixture(scope="module")
def address(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("agents"), own) as (found, _):
        yield found


@pytest.fixture
def token(own: Path) -> str:
    words = ["token", "new", ADDRESSES["viewer"], "--warehouse", str(own)]
    return CliRunner().invoke(cli, words).stdout.strip()


async def _conversation(address: str, token: str) -> tuple[list[str], list[Any]]:
    said = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=said, timeout=120) as client,
        streamable_http_client(f"{address}/mcp", http_client=client) as (read, write),
        ClientSession(read, write) as agent,
    ):
        await agent.initialize()
        tools = [tool.name for tool in (await agent.list_tools()).tools]
        asked = (
            ("decide", {"subject": "*"}),
            ("sql", {"question": "select count(*) as n from cells"}),
            ("sql", {"question": "drop table cells"}),
        )
        return tools, [await agent.call_tool(name, words) for name, words in asked]


def test_an_agent_with_a_token_asks_over_http_what_the_api_answers(
    address: str, token: str
) -> None:
    tools, (decided, counted, refused) = anyio.run(_conversation, address, token)

    assert set(tools) == {*QUESTIONS, "sql"}
    with visiting(address, "viewer") as client:
        told = client.get("/api/v1/decide?subject=*").json()
        total = client.get("/api/v1/cells").json()["page"]["total"]
    assert json.loads(decided.content[0].text)["decisions"] == told["decisions"]
    assert json.loads(counted.content[0].text)["rows"] == [[total]]
    assert refused.is_error


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("stranger", 403)])
def test_who_is_not_let_in_asks_nothing_as_an_agent(
    address: str, role: str | None, status: int
) -> None:
    with visiting(address, role) as client:
        answer = client.post("/mcp", json=FIRST, headers=SAID)

    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_token_that_was_taken_back_and_a_page_of_another_site_ask_nothing(
    address: str, token: str, own: Path
) -> None:
    said = SAID | {"Authorization": f"Bearer {token}"}
    elsewhere = said | {"Origin": "https://evil.example"}
    assert httpx.post(f"{address}/mcp", json=FIRST, headers=elsewhere).status_code == 403

    number = token.split("_")[1]
    CliRunner().invoke(cli, ["token", "revoke", number, "--warehouse", str(own)])

    assert httpx.post(f"{address}/mcp", json=FIRST, headers=said).status_code == 401


def test_no_stream_stays_open(address: str, token: str) -> None:
    said = SAID | {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{address}/mcp", headers=said, timeout=60).status_code == 405


def test_a_question_that_is_too_long_is_refused_before_it_is_read(address: str, token: str) -> None:
    said = SAID | {"Authorization": f"Bearer {token}"}
    long = FIRST | {"params": {"name": "sql", "arguments": {"question": "x" * 2**20}}}

    assert httpx.post(f"{address}/mcp", json=long, headers=said).status_code == 413
