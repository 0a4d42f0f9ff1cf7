"""The tools of an agent, on standard input and behind ``/mcp``: each a question of ``answers.doors``,
or one in SQL."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync
from mcp import types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from msgspec.json import encode
from pydantic import ValidationError

from answers.doors.parameters import problems_of
from answers.doors.questions import QUESTIONS, answer_json
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.json_text import json_text
from warehouse.store import Reader
from warehouse.store_current import not_fresh
from warehouse.store_question import VIEWS, Bounds, ask

Json = dict[str, Any]
#: What answers the messages of agents, however they come.
AgentsServer = Server[Any]
Turn = Callable[[], AbstractContextManager[object]]
SQL = "sql"
_LONGEST = 8000
_SQL_SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["question"],
    "properties": {
        "question": {
            "type": "string", "maxLength": _LONGEST, "description": "One select statement (DuckDB)."
        }
    },
}  # fmt: skip
_INSTRUCTIONS = (
    "Measurements of language models served with and without speculative decoding. Start with "
    "`decide`: it says whether to serve with speculation, with which arm, at which loads, and how "
    "sure that is; quote its `headline` and `paragraph`. Improvements are ratios, positive is "
    "better; null is unknown; what carries the evidence `cpu` says nothing of a GPU's speed."
)


def tools() -> list[types.Tool]:
    """Return every tool with the schema of its words."""
    asked = [
        types.Tool(name=one.name, description=one.summary, input_schema=one.schema())
        for one in QUESTIONS.values()
    ]
    said = (
        f"One read-only question in SQL on the views {', '.join(VIEWS)}; at most "
        f"{Bounds().seconds:g} s and {Bounds().rows:,} rows. What columns there are: select * from "
        "information_schema.columns."
    )
    found = [*asked, types.Tool(name=SQL, description=said, input_schema=_SQL_SCHEMA)]
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [tool.model_copy(update={"annotations": reads}) for tool in found]


def answer(root: Path, name: str, words: Mapping[str, Any]) -> Json:
    """Return what a tool answers. Raises DraftboardError or ValidationError for words that ask for
    nothing, each in words of its own."""
    if name == SQL:
        return _rows(root, words)
    asking = QUESTIONS.get(name)
    if asking is None:
        raise InvalidInput(f"There is no tool {name!r}; there are {', '.join([*QUESTIONS, SQL])}.")
    own, page = asking.read(words)
    with Reader(root, everything=asking.everything) as reader:
        found = asking.ask(reader, own)
        told = answer_json(asking, found, page)
        return told | {"generation": reader.generation, "not_fresh": not_fresh(root)}


def _rows(root: Path, words: Mapping[str, Any]) -> Json:
    question = words.get("question")
    if not isinstance(question, str) or set(words) != {"question"} or len(question) > _LONGEST:
        raise InvalidInput(f"Give one question, a text of at most {_LONGEST:,} letters.")
    found = ask(root, question)
    values = [column.to_pylist() for column in found.rows.columns]
    # What is not a number becomes null, what JSON has no word for its text.
    rows: list[Any] = json.loads(encode(list(zip(*values, strict=True)), enc_hook=str))
    return {
        "columns": found.rows.column_names,
        "rows": rows,
        "more": found.cut,
        "not_fresh": not_fresh(root),
    }


def serve(root: Path) -> None:
    """Answer on standard input and output until the agent ends; one question at a time."""
    anyio.run(_serve, root)


async def _serve(root: Path) -> None:
    server = agents_server(root)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def agents_server(root: Path, turn: Turn = nullcontext) -> AgentsServer:
    """Return what answers agents; of each conversation one question at a time. ``turn()`` is held
    while a question is answered, and may raise DraftboardError."""
    one_at_a_time = anyio.CapacityLimiter(1)

    async def listed(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def called(_: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        told = partial(_told, root, asked.name, asked.arguments or {}, turn)
        return await run_sync(told, limiter=one_at_a_time)

    return Server(
        "draftboard", version=version("draftboard"), instructions=_INSTRUCTIONS,
        on_list_tools=listed, on_call_tool=called,
    )  # fmt: skip


def _told(root: Path, name: str, words: Mapping[str, Any], turn: Turn) -> types.CallToolResult:
    """Return the answer as JSON; what cannot be answered as an error that the agent reads."""
    try:
        with turn():
            found = answer(root, name, words)
    except DraftboardError as error:
        return _text(str(error), is_error=True)
    except ValidationError as error:
        return _text(problems_of(error), is_error=True)
    return _text(json_text(found, plain=False))


def _text(said: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], is_error=is_error)
