"""The FAKE engine as a context: its address, and its end."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FAKE = Path(__file__).with_name("fake_vllm.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def fake_engine(tmp_path: Path, *switches: str) -> Iterator[str]:
    port = free_port()
    argv = [sys.executable, str(FAKE), "serve", "tiny", "--port", str(port), *switches]
    with (tmp_path / "engine.log").open("w") as log:
        process = subprocess.Popen(argv, stderr=log)
    try:
        _await(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _await(url: str) -> None:
    for _ in range(2400):
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the fake engine does not answer")
