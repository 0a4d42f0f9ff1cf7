"""Processes of their own, for what only another process can show."""

import os
import runpy
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from warehouse.storage.cache import warehouse_path as place_of

HERE = Path(__file__).parent
FAKE = runpy.run_path(str(HERE / "fake_front.py"))


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    """The port of a real server of S3 (moto's), which takes any credentials."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "s3_server.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest.fixture
def bucket(s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Bucket"]:
    """A new bucket, with a front before it that passes everything on unless it is told otherwise."""
    front = FAKE["Front"](s3_port)
    name = f"b{secrets.token_hex(6)}"
    put = Request(f"{front.url}/{name}", method="PUT")  # noqa: S310
    urlopen(put).close()  # noqa: S310
    for key, value in {
        "AWS_ENDPOINT_URL": front.url, "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "a secret of the bucket",
    }.items():  # fmt: skip
        monkeypatch.setenv(key, value)
    yield Bucket(f"s3://{name}/results", front, tmp_path, monkeypatch)
    front.close()


@dataclass
class Bucket:
    """A warehouse in a bucket, and the machines that share it, each with a home of its own."""

    url: str
    front: Any
    homes: Path
    environment: pytest.MonkeyPatch

    def at(self, home: str) -> Path:
        """Be on that machine from now on; return its copy of the warehouse."""
        self.environment.setenv("DRAFTBOARD_CACHE", str(self.homes / home))
        return place_of(self.url)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``start("ingest", root, 5)``: child.py in its own process, returned when it has imported."""
    children: list[subprocess.Popen[str]] = []

    def begin(*arguments: Any) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield begin
    for child in children:
        with child:
            child.kill()
