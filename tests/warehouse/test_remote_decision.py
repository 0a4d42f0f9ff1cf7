"""Two processes with homes of their own share only a bucket and say the same decision."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]


def started(home, *arguments):
    """How a command is run by somebody with that home, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "DRAFTBOARD_CACHE"}
    command = [sys.executable, "-m", "draftboard", *map(str, arguments)]
    return {"args": command, "cwd": ROOT, "env": environment | {"HOME": str(home)}, "text": True}


def draftboard(home, *arguments):
    done = subprocess.run(**started(home, *arguments), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def served(home, place):
    """The decisions that the API says in that home."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    until = time.monotonic() + 180
    with subprocess.Popen(
        **started(home, "serve", "--port", port, "--warehouse", place),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            while True:
                assert server.poll() is None
                assert time.monotonic() < until
                with suppress(OSError), urlopen(f"http://localhost:{port}/api/v1/decide") as said:
                    return json.load(said)["decisions"]
                time.sleep(0.5)
        finally:
            server.kill()


@pytest.mark.slow
def test_a_writer_and_a_reader_share_only_a_bucket_and_decide_the_same(bucket, tmp_path):
    writer, reader = tmp_path / "writer", tmp_path / "reader"
    for home in (writer, reader):
        home.mkdir()
    results = ROOT / "tests" / "fixtures" / "lab-first"
    draftboard(writer, "ingest", results, "--warehouse", bucket.url)
    draftboard(writer, "ingest", results, "--warehouse", tmp_path / "folder")
    shutil.rmtree(writer)
    shown = json.loads(draftboard(reader, "verdict", "--json", "--warehouse", bucket.url))
    alone = json.loads(draftboard(reader, "verdict", "--json", "--warehouse", tmp_path / "folder"))
    assert shown == alone
    assert shown["decisions"]
    assert served(reader, bucket.url) == shown["decisions"]
    assert "a secret of the bucket" not in json.dumps(shown)
