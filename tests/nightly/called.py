"""The nightly as a timer calls it: a process, and a receiver of its messages on this machine."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from runners.executors import PROGRAM
from tests.listening import listening
from tests.runners.conftest import ROOT
from warehouse import beside
from warehouse.beside import NightSummary

#: Stands in the address of the receiver: it must be nowhere else.
SECRET = "hunter2-s3cr3t"


@dataclass
class Receiver:
    """A real HTTP endpoint: what it got; ``status``: its answer; ``delay_s``: before it answers."""

    port: int
    status: int = 200
    delay_s: float = 0.0
    got: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    @property
    def address(self) -> str:
        return f"json://reader:{SECRET}@127.0.0.1:{self.port}/hook/{SECRET}"

    @property
    def titles(self) -> list[str]:
        return [message["title"] for message in self.got]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that answers until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known.asked += 1
            time.sleep(known.delay_s)
            if known.status == 200:
                known.got.append(body)
            self.send_response(known.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read what it got, not what it logs."""

    with listening(Handler) as port:
        known = Receiver(port)
        yield known


@dataclass(frozen=True)
class Nightly:
    """Calls of the nightly for one study, with places of its own."""

    study: Path
    folder: Path
    notify: str = ""

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def environment(self) -> dict[str, str]:
        told = {"DRAFTBOARD_NOTIFY_URLS": self.notify} if self.notify else {}
        return os.environ | {
            "DRAFTBOARD_WAREHOUSE": str(self.warehouse),
            "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        } | told  # fmt: skip

    def command(self, *more: str) -> list[str]:
        return [*PROGRAM, "nightly", str(self.study), "--results", str(self.results), *more]

    def call(self, *more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*more), capture_output=True, text=True, cwd=ROOT, env=self.environment,
            check=False, timeout=900,
        )  # fmt: skip

    def start(self, *more: str) -> "subprocess.Popen[str]":
        """In the background; what it says is in ``said``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.said.open("a") as said:
            return subprocess.Popen(
                self.command(*more), text=True, cwd=ROOT, env=self.environment,
                stdout=said, stderr=said,
            )  # fmt: skip

    @property
    def said(self) -> Path:
        return self.folder / "said.log"

    def history(self) -> list[NightSummary]:
        return list(beside.nights_history(self.warehouse).nights)

    def texts(self) -> Iterator[tuple[Path, str]]:
        """Everything that was written, but the results of the load generator."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path.suffix != ".parquet":
                yield path, path.read_text(encoding="utf-8", errors="replace")
