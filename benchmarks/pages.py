"""Server-side rerun of each page on a large warehouse against an empty page, on a real Streamlit server.

The time from the request to rerun until the server says that the script has finished, over the
websocket that a browser would use; what a browser then draws is not in it.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, progress, seconds

TIMES, PORT = 20, 8797
EMPTY = "import streamlit as st\nst.set_page_config(layout='wide')\nst.title('empty')\n"
FRAME = """
import streamlit as st
from dashboard import data
from dashboard.filters import sidebar
from dashboard.views import VIEWS
st.set_page_config(layout="wide")
shelf = data.open_shelf()
filters = sidebar(data.filter_options(shelf))
"""
PAGE = FRAME + "VIEWS[{number}].render(shelf, filters)\n"
#: One model on one machine, as a visitor would choose it; the address of the page says so.
CHOSEN = {"model": "gpt-oss-120b", "gpu": "H100", "dataset": "SWE-bench"}


@contextmanager
def serving(script: Path, root: Path) -> Iterator[None]:
    """A Streamlit server of its own for one script."""
    environment = os.environ | {"DRAFTBOARD_WAREHOUSE": str(root), "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless", "true"]
    command += ["--server.port", str(PORT), "--server.address", "127.0.0.1"]
    silent = subprocess.DEVNULL
    server = subprocess.Popen(command, env=environment, stdout=silent, stderr=silent)
    try:
        wait_until_healthy()
        yield
    finally:
        server.terminate()
        server.wait()


def wait_until_healthy() -> None:
    """Returns when the server answers; raises after a minute."""
    for _ in range(300):
        try:
            urlopen(f"http://127.0.0.1:{PORT}/_stcore/health", timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("The Streamlit server did not answer within a minute.")


def rerun_once(session: ClientConnection, address: str) -> None:
    """Ask for a rerun and wait for its end. Raises if the script fails."""
    message = BackMsg()
    message.rerun_script.query_string = address
    session.send(message.SerializeToString())
    answer = ForwardMsg()
    while answer.WhichOneof("type") != "script_finished":
        # A late acknowledgement would add 40 ms of waiting to every page, the empty one too.
        session.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        answer.ParseFromString(bytes(session.recv(decode=False)))
        if answer.delta.new_element.WhichOneof("type") == "exception":
            raise RuntimeError(f"The page failed: {answer.delta.new_element.exception.message}")


def rerun(script: str, chosen: dict[str, str], folder: Path, root: Path) -> tuple[float, float]:
    """Seconds of the first run in a fresh server, and of a later one (median)."""
    file = folder / "page.py"
    file.write_text(script, encoding="utf-8")
    address = f"ws://127.0.0.1:{PORT}/_stcore/stream"
    with (
        serving(file, root),
        connect(address, subprotocols=["streamlit"], max_size=None) as session,
    ):
        first = seconds(lambda: rerun_once(session, urlencode(chosen)))
        again = [seconds(lambda: rerun_once(session, urlencode(chosen))) for _ in range(TIMES)]
    return first, statistics.median(again)


def judged(title: str, first: float, again: float, empty: float) -> Result:
    """One page beside the empty one."""
    measured = f"{again / empty:.1f} x ({1000 * again:.0f} ms against {1000 * empty:.0f} ms; "
    measured += f"first {1000 * first:.0f} ms)"
    return Result(f"rerun of {title}", "<= 5 x an empty page", measured, again <= 5 * empty)


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Every page, with filters chosen and with none."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    from dashboard.views import (
        VIEWS,
    )  # altair and pandas are not for those who run other benchmarks

    empty = rerun(EMPTY, {}, folder, root)[1]
    frame = rerun(FRAME, CHOSEN, folder, root)[1]
    note = f"{frame / empty:.1f} x, {1000 * frame:.0f} ms"
    yield Result("rerun of the frame alone", "-", note, None)
    for number, view in enumerate(VIEWS):
        progress(f"page {view.TITLE}")
        script = PAGE.format(number=number)
        yield judged(view.TITLE, *rerun(script, CHOSEN, folder, root), empty)
        yield judged(f"{view.TITLE}, unfiltered", *rerun(script, {}, folder, root), empty)
