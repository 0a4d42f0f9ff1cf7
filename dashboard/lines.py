"""The lines on which the server answers: each part of an answer goes out at once."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator

import psutil


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
