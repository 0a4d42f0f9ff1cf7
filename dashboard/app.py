"""The dashboard as an application: who is let in, its own addresses, and Streamlit behind both.

Start with ``streamlit run dashboard/app.py`` from the root of the repository.
"""

from pathlib import Path
from types import ModuleType

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route
from streamlit import App

from dashboard import memory
from dashboard.gate import HEALTH, LOGIN, Gate, base, log_in

# Read before the first reader comes, who would wait for it.
from dashboard.views import VIEWS

memory.give_back()


async def healthz(_: Request) -> PlainTextResponse:
    """Answer whoever watches the server, without a login: it is up. It tells nothing else."""
    return PlainTextResponse("ok")


def former(view: ModuleType) -> list[Route]:
    """The addresses of pages that ``view`` took over; what stands after ``?`` goes along."""

    async def lead_on(visit: Request) -> RedirectResponse:
        query = f"?{visit.url.query}" if visit.url.query else ""
        first = view is VIEWS[0]
        return RedirectResponse(f"{base()}/{'' if first else view.URL_PATH}{query}")

    return [Route(f"{base()}/{path}", lead_on) for path in getattr(view, "FORMER", ())]


app = App(
    Path(__file__).with_name("frame.py"),
    routes=[
        Route(f"{base()}{HEALTH}", healthz),
        Route(f"{base()}{LOGIN}", log_in),
        *(route for view in VIEWS for route in former(view)),
    ],
    middleware=[Middleware(Gate)],
)
