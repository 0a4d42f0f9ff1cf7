"""``/llms.txt``: what an agent has to know to ask this server, made from the questions themselves."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from answers.doors.parameters import schema_json
from answers.doors.questions import QUESTIONS
from dashboard.addresses import AGENTS, METRICS, base

_TEXT = """# Draftboard

> Measurements of language models served with and without speculative decoding, and what follows
> from them: whether to serve with it, with which arm and how many draft tokens, up to which load,
> and what that saves.

Ask with GET and words in the address; an answer is JSON, or CSV or an Arrow stream by `Accept`.
Begin with `decide`, and quote its `headline` and `paragraph`. Without `subject` an answer is about
the first of its `subjects`; `subject=*` asks about all. Improvements are ratios, positive is better,
`low` and `high` are 95 % intervals, null is unknown. What has the evidence `cpu` says nothing about
the speed of a GPU. Where a login is set up, send `Authorization: Bearer` with a personal token.

## Questions

{questions}

## More

- [OpenAPI]({base}/api/v1/openapi.json): every word, form and error
- [OpenMetrics]({base}{metrics}): the newest night of every series
- [MCP]({base}{agents}): the same questions as tools of the Model Context Protocol (streamable HTTP)
"""


def llms(_: Request) -> PlainTextResponse:
    """Answer at ``/llms.txt``."""
    lines = []
    for one in QUESTIONS.values():
        words = ", ".join(f"`{name}`" for name in schema_json(one.parameters)["properties"])
        said = f" Words: {words}." if words else ""
        lines.append(f"- [{one.name}]({base()}/api/v1/{one.name}): {one.summary}{said}")
    return PlainTextResponse(
        _TEXT.format(questions="\n".join(lines), base=base(), metrics=METRICS, agents=AGENTS)
    )
