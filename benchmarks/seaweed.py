"""SeaweedFS on this machine, as compose.yaml starts it, and a front that delays each request to it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.warehouse.fake_front import Answer, Front, Handler

WEED = Path(sys.executable).with_name("weed")
BUCKET = "draftboard"
KEYS = {
    "AWS_ACCESS_KEY_ID": "benchmark", "AWS_SECRET_ACCESS_KEY": "benchmark", "AWS_REGION": "us-east-1",
}  # fmt: skip
#: What each request takes longer, s.
DELAY_S = 0.050
START_S = 60
#: Each part listens on its port, and so many ports above it to the other parts.
_BESIDE = 10_000
_PARTS = ("master", "volume", "filer", "s3")


@contextlib.contextmanager
def seaweed(place: Path) -> Iterator[int]:
    """The port of its S3 door, with one empty bucket; its files lie in ``place`` until the end."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    ports = dict(zip(_PARTS, _free(len(_PARTS)), strict=True))
    words = [str(WEED), "server", f"-dir={place}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    words += [f"-{part}.port={port}" for part, port in ports.items()]
    words += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=0"]
    words += ["-master.volumeSizeLimitMB=1024", "-master.telemetry=false"]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(words, env={**os.environ, **KEYS}, stdout=log, stderr=log)
        try:
            _make_bucket(ports)
            yield ports["s3"]
        finally:
            server.terminate()
            server.wait(30)
            shutil.rmtree(place, ignore_errors=True)


def _free(count: int) -> list[int]:
    """Ports of which the one that lies beside each is free, too."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in range(21_000, 29_000, 7):
            with contextlib.suppress(OSError):
                for one in (port, port + _BESIDE):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", one))
                found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError("No ports are free for SeaweedFS.")


def _make_bucket(ports: dict[str, int]) -> None:
    """Wait until the server answers, and make the bucket."""
    url, until = f"http://127.0.0.1:{ports['s3']}/healthz", time.monotonic() + START_S
    while not _answers(url):
        if time.monotonic() > until:
            raise RuntimeError(f"SeaweedFS did not answer within {START_S} s.")
        time.sleep(0.2)
    at = [f"-{part}=127.0.0.1:{ports[part]}" for part in ("master", "filer")]
    said = f"s3.bucket.create -name {BUCKET}\n"
    subprocess.run(
        [WEED, "shell", *at],
        input=said,
        text=True,
        check=True,
        capture_output=True,
        timeout=START_S,
    )


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        urllib.request.urlopen(url, timeout=1).close()
        return True
    return False


def _late(handler: Handler, body: bytes) -> Answer:
    time.sleep(DELAY_S)
    return handler.forward(body)


@contextlib.contextmanager
def far_away(port: int) -> Iterator[Front]:
    """A front before the S3 door, by which each request takes ``DELAY_S`` longer."""
    front = Front(port)
    front.fail("", _late)
    try:
        yield front
    finally:
        front.close()


@dataclass(frozen=True)
class Machine:
    """A machine with a home of its own that knows the bucket by one address."""

    home: Path
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What its processes find in the environment."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint, "DRAFTBOARD_CACHE": str(self.home)}

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Be on this machine: so are the processes that start in the block."""
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def started(context: Any, machine: Machine, work: Any, *arguments: Any) -> Any:
    """A process of a ``multiprocessing`` context that does a piece of work on a machine."""
    with machine.here():
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
    return process
