"""The dashboard as an application: who is let in, its own addresses, and Streamlit behind both.

Start with ``streamlit run dashboard/app.py`` from the root of the repository.
"""

import contextlib
import functools
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import urlencode

import psutil
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route
from streamlit import App, net_util

from dashboard import memory
from dashboard.addresses import AGENTS, API, HEALTH, LLMS, LOGIN, METRICS, base
from dashboard.agents import Agents, llms
from dashboard.api.app import application
from dashboard.gate import Gate, log_in
from dashboard.headers import Headers, broken
from dashboard.metrics import metrics
from dashboard.quotas import Quotas

# Read before the first reader comes, who would wait for it.
from dashboard.views import VIEWS


def answer_at_once() -> None:
    """Let what connects from now on to this process be sent each part of an answer at once.

    Python does so by itself, but not for the kind of socket that Streamlit listens on. There the body of
    each answer waits until the client has acknowledged its head, which takes 40 ms on a line that is
    kept open.
    """
    # Where a system does not tell, answers wait as they did.
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.Process().net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.fd >= 0:
                with socket.socket(fileno=os.dup(one.fd)) as same:
                    same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextlib.asynccontextmanager
async def served(_: object) -> AsyncIterator[None]:
    """Stand around the life of the application; the server listens when it begins."""
    answer_at_once()
    yield


# For an origin that is allowed, Streamlit would ask an address on the internet for this machine's own.
net_util.get_external_ip = lambda: None

memory.give_back()
memory.keep_imports()


async def healthz(_: Request) -> PlainTextResponse:
    """Answer whoever watches the server, without a login, that the server is up, and nothing
    else."""
    return PlainTextResponse("ok")


def former(view: ModuleType) -> list[Route]:
    """Return the addresses of pages that ``view`` took over; what stands after ``?`` goes along.

    Where ``FORMER`` is a mapping, it adds parameters that the link does not state itself. The first
    page stands at the root, to which its own address leads.
    """
    paths: Mapping[str, Mapping[str, str]] | Sequence[str] = getattr(view, "FORMER", ())
    more = {**paths} if isinstance(paths, Mapping) else dict.fromkeys(paths, {})
    if view is VIEWS[0]:
        more[view.URL_PATH] = {}
    return [
        Route(f"{base()}/{path}", functools.partial(_lead_on, view, dict(added)))
        for path, added in more.items()
    ]


async def _lead_on(view: ModuleType, added: dict[str, str], visit: Request) -> RedirectResponse:
    own = visit.query_params.multi_items()
    there = {name for name, _ in own}
    query = urlencode([*((n, v) for n, v in added.items() if n not in there), *own])
    page = "" if view is VIEWS[0] else view.URL_PATH
    return RedirectResponse(f"{base()}/{page}{'?' if query else ''}{query}")


app = App(
    Path(__file__).with_name("frame.py"),
    routes=[
        Route(f"{base()}{HEALTH}", healthz),
        Route(f"{base()}{LOGIN}", log_in),
        Route(f"{base()}{METRICS}", metrics),
        Route(f"{base()}{LLMS}", llms),
        Route(f"{base()}{AGENTS}", Agents()),
        Mount(f"{base()}{API.rstrip('/')}", app=application()),
        *(route for view in VIEWS for route in former(view)),
    ],
    # Innermost last: who is not let in costs nothing, who is let in is counted.
    middleware=[Middleware(Headers), Middleware(Gate), Middleware(Quotas)],
    exception_handlers={Exception: broken},
    lifespan=served,
)
