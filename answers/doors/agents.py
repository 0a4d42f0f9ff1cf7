"""The tools of an agent, on standard input and behind ``/mcp``: each a question of ``answers.doors``,
or one in SQL."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
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
from answers.doors.questions import QUESTIONS, Json, answer_json
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.json_text import json_text
from warehouse.storage.current import not_fresh
from warehouse.storage.question import VIEWS, Bounds, ask
from warehouse.store import Reader

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
    sql = (
        f"One read-only question in SQL on the views {', '.join(VIEWS)}; at most "
        f"{Bounds().seconds:g} s and {Bounds().rows:,} rows. What columns there are: select * from "
        "information_schema.columns."
    )
    described = [(each.name, each.summary, each.schema()) for each in QUESTIONS.values()]
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [
        types.Tool(name=name, description=text, input_schema=schema, annotations=reads)
        for name, text, schema in (*described, (SQL, sql, _SQL_SCHEMA))
    ]


def answer(root: Path, name: str, words: Mapping[str, Any]) -> Json:
    """Return what a tool answers. Raises DraftboardError or ValidationError for words that ask for
    nothing, each in words of its own."""
    if name == SQL:
        question = words.get("question")
        if not isinstance(question, str) or set(words) != {"question"} or len(question) > _LONGEST:
            raise InvalidInput(f"Give one question, a text of at most {_LONGEST:,} letters.")
        result = ask(root, question)
        values = [column.to_pylist() for column in result.rows.columns]
        # What is not a number becomes null, what JSON has no word for its text.
        rows: list[Any] = json.loads(encode(list(zip(*values, strict=True)), enc_hook=str))
        return {
            "columns": result.rows.column_names, "rows": rows, "more": result.cut,
            "not_fresh": not_fresh(root),
        }  # fmt: skip
    asking = QUESTIONS.get(name)
    if asking is None:
        raise InvalidInput(f"There is no tool {name!r}; there are {', '.join([*QUESTIONS, SQL])}.")
    own, page = asking.read(words)
    with Reader(root, everything=asking.everything) as reader:
        plain = answer_json(asking, asking.ask(reader, own), page)
        return plain | {"generation": reader.generation, "not_fresh": not_fresh(root)}


def serve(root: Path) -> None:
    """Answer on standard input and output until the agent ends; one question at a time."""

    async def served() -> None:
        server = agents_server(root)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(served)


def agents_server(root: Path, turn: Turn = nullcontext) -> AgentsServer:
    """Return what answers agents; of each conversation one question at a time. ``turn()`` is held
    while a question is answered, and may raise DraftboardError."""
    one_at_a_time = anyio.CapacityLimiter(1)

    def answered(request: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the answer as JSON; what cannot be answered as an error that the agent reads."""
        is_error = True
        try:
            with turn():
                text = json_text(answer(root, request.name, request.arguments or {}), plain=False)
            is_error = False
        except DraftboardError as error:
            text = str(error)
        except ValidationError as error:
            text = problems_of(error)
        content: list[types.ContentBlock] = [types.TextContent(text=text)]
        return types.CallToolResult(content=content, is_error=is_error)

    async def listed(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def called(_: object, request: types.CallToolRequestParams) -> types.CallToolResult:
        return await run_sync(answered, request, limiter=one_at_a_time)

    return Server(
        "draftboard", version=version("draftboard"), instructions=_INSTRUCTIONS,
        on_list_tools=listed, on_call_tool=called,
    )  # fmt: skip
