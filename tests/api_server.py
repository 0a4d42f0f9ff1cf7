"""The API on a port of its own, in a thread of the tests' process, without its gate."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from dashboard.doors.api import application


@contextlib.contextmanager
def api_served() -> Iterator[str]:
    """Serve the warehouse of the environment until the block ends; yield the address."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        app = Starlette(routes=[Mount("/api", app=application())])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [line]})
        thread.start()
        try:
            yield f"http://localhost:{line.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
