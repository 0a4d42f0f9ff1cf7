"""The dashboard as an application: who is let in, its own addresses, and Streamlit behind both.

Start with ``streamlit run dashboard/app.py`` from the root of the repository.

What the server keeps of memory that it no longer needs is next to nothing. Allocators keep what was
freed for the next large question. A dashboard is asked one now and then, by one of its sessions, and
stands beside engines and watchers for weeks. Measured, three readers at once on every page twice, on
the smaller warehouse of the benchmarks: 338 MB with all of this, 386 without ``mallopt``, 350 without
DuckDB's setting (``warehouse/__init__.py``), 407 without any; 224 are imports.
"""

import contextlib
import ctypes
import functools
import gc
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import urlencode

import psutil
import pyarrow as pa
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route
from streamlit import App, net_util

from dashboard.doors.addresses import AGENTS, API, HEALTH, LLMS, LOGIN, METRICS, SEEN, base
from dashboard.doors.api import Agents, application, llms
from dashboard.doors.gate import Gate, Headers, broken, log_in
from dashboard.doors.metrics import metrics
from dashboard.doors.quotas import Quotas

# Read before the first reader comes, who would wait for it.
from dashboard.views import VIEWS
from dashboard.welcome import seen

#: <malloc.h> of the GNU C library: from which size on memory is mapped and given back at once, and
#: how many heaps the threads share.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MAPPED_BYTES, _ARENAS = 128 << 10, 2


def spare_memory() -> None:
    """Let the allocators of this process give back what is freed, and spare each look for garbage a
    walk through what was imported; before anything large.

    Python looks by itself, when enough was made since. The setting ``runner.postScriptGC`` keeps Streamlit
    from looking through everything after each run of a page besides: with fifty readers of 30,000
    cells that took six sevenths of the processor.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    # Another C library, or another system, knows none of these and does as it likes.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
    gc.collect()
    gc.freeze()


@contextlib.asynccontextmanager
async def served(_: object) -> AsyncIterator[None]:
    """Stand around the life of the application; the server listens when it begins.

    What connects from now on is sent each part of an answer at once. Python does so by itself, but not
    for the kind of socket that Streamlit listens on. There the body of each answer waits until the client
    has acknowledged its head, which takes 40 ms on a line that is kept open.
    """
    # Where a system does not tell, answers wait as they did.
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.Process().net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.fd >= 0:
                with socket.socket(fileno=os.dup(connection.fd)) as same:
                    same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    yield


# For an origin that is allowed, Streamlit would ask an address on the internet for this machine's own.
net_util.get_external_ip = lambda: None
spare_memory()


async def healthz(_: Request) -> PlainTextResponse:
    """Answer whoever watches the server, without a login, that it is up, and nothing else."""
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
        Route(f"{base()}{SEEN}", seen),
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
