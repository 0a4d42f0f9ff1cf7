"""The dashboard as an application: who is let in, its own addresses, and Streamlit behind both.

Start with ``streamlit run dashboard/app.py`` from the root of the repository.
"""

from pathlib import Path

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit import App

from dashboard.gate import HEALTH, LOGIN, Gate, log_in


async def healthz(_: Request) -> PlainTextResponse:
    """Answer whoever watches the server, without a login: it is up. It tells nothing else."""
    return PlainTextResponse("ok")


app = App(
    Path(__file__).with_name("frame.py"),
    routes=[Route(HEALTH, healthz), Route(LOGIN, log_in)],
    middleware=[Middleware(Gate)],
)
