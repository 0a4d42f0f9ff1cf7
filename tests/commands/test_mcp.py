"""``draftboard mcp``, asked by the official client of the protocol over standard input and output."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from answers.doors.questions import QUESTIONS
from draftboard import cli

pytestmark = pytest.mark.slow

ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("decide", {"subject": "*"}),
    ("runs", {"limit": 1}),
    ("cost", {"usd_per_hour": 2.5}),
    ("sql", {"question": "select count(*) as n, 'nan'::double as odd from cells"}),
    ("decide", {"modle": "x"}),
    ("decide", {"slo": "fast"}),
    ("sql", {"question": "drop table cells"}),
    ("sql", {"question": "select * from read_csv('/etc/passwd')"}),
    ("sql", {}),
    ("none", {}),
)


async def _conversation(root: Path) -> tuple[list[Any], list[CallToolResult]]:
    command = str(Path(sys.executable).with_name("draftboard"))
    there = StdioServerParameters(command=command, args=["mcp", "--warehouse", str(root)])
    async with stdio_client(there) as (read, write), ClientSession(read, write) as agent:
        await agent.initialize()
        tools = (await agent.list_tools()).tools
        answers = [await agent.call_tool(name, words) for name, words in ASKED]
    return tools, answers


def test_an_agent_asks_what_the_commands_answer_and_reads_what_it_asked_wrongly(
    filled: Path,
) -> None:
    tools, answers = anyio.run(_conversation, filled)

    assert {tool.name for tool in tools} == {*QUESTIONS, "sql"}
    decide = next(tool for tool in tools if tool.name == "decide")
    assert {"subject", "slo", "limit"} <= set(decide.input_schema["properties"])
    assert all(tool.annotations.read_only_hint for tool in tools)
    texts = [answer.content[0].text for answer in answers]
    assert [answer.is_error for answer in answers] == [False] * 4 + [True] * 6
    told = json.loads(texts[0])
    command = ["verdict", "--json", "--warehouse", str(filled)]
    printed = json.loads(CliRunner().invoke(cli, command).stdout)
    assert told["decisions"] == printed["decisions"]
    runs = json.loads(texts[1])
    assert (len(runs["runs"]), runs["page"]["total"]) == (1, 2)
    assert json.loads(texts[2])["costs"][0]["basis"]["usd_per_hour"] == 2.5
    assert json.loads(texts[3]) == {
        "columns": ["n", "odd"],
        "rows": [[6, None]],
        "more": False,
        "not_fresh": None,
    }
    for said, text in zip(("modle", "is no bound", "", "", "one question", "sql"), texts[4:],
                          strict=True):  # fmt: skip
        assert said in text
        assert str(filled) not in text


def test_without_a_warehouse_it_ends_with_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["mcp", "--warehouse", str(tmp_path / "none")])

    assert done.exit_code == 1
    assert "none" in str(done.exception)
