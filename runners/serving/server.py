"""One server: started, watched, asked whether it lives, stopped; or somebody else's, only asked."""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Self

from runners.serving import endpoint
from runners.serving.diagnosis import Diagnosis, diagnose
from runners.serving.endpoint import RequestFormat, environment, pin
from runners.serving.processes import Guarded
from warehouse.errors import RunnerError

_HOST = "127.0.0.1"
_PAUSE_S = 0.25
#: Long enough for a token behind a full queue, short enough to notice a hang.
_ALIVE_S = 60.0
#: A port that was free a moment ago may be taken when the server gets to it.
_PORT_TRIES = 3
_LOG_BYTES = 1 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SILENT = (OSError, HTTPException)


@dataclass(frozen=True)
class ServerSpec:
    """How a server is started. ``argv`` contains ``{port}``; ``env`` is its whole environment.

    ``port`` None means a free one. Where cores are given, the engine and its workers run on
    ``engine_cpus``, the API server on ``api_cpus``; ``cpus`` keeps all of them there from the start.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    model: str
    log: Path
    ready_timeout_s: float
    engine_cpus: frozenset[int] | None = None
    api_cpus: frozenset[int] | None = None
    cpus: frozenset[int] | None = None
    port: int | None = None
    request_format: RequestFormat = "chat_completions"


class ServerFailed(RunnerError):
    """A server did not get ready; the diagnosis says why, ``log_tail`` what it printed last."""

    def __init__(self, diagnosis: Diagnosis, log_tail: list[str]) -> None:
        super().__init__(f"The server did not start. {diagnosis.sentence}")
        self.diagnosis = diagnosis
        self.log_tail = log_tail


@dataclass
class Server:
    """A running server of our own. ``log_start`` is where its part of the log file begins."""

    process: Guarded
    spec: ServerSpec
    port: int
    log_start: int
    ready_after_s: float = 0.0
    _died: Diagnosis | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The server's URL, without a path."""
        return f"http://{_HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the API server."""
        return self.process.pid

    def alive(self, timeout_s: float = _ALIVE_S) -> bool:
        """Return whether the server's process runs and it answers a real request."""
        return self.process.poll() is None and _answers(self.url, self.spec, timeout_s)

    def died(self) -> Diagnosis | None:
        """Say why the server's process ended; None while it runs."""
        if self._died is None and (status := self.process.poll()) is not None:
            self._died = diagnose(self.log_lines(), status)
        return self._died

    def log_tail(self, lines: int) -> list[str]:
        """Return the lines that the server printed last."""
        return self.log_lines()[-lines:]

    def log_lines(self) -> list[str]:
        """Return all that this server printed, or the last megabyte of it, without colours."""
        with self.spec.log.open("rb") as log:
            log.seek(max(self.log_start, log.seek(0, 2) - _LOG_BYTES))
            text = log.read().decode("utf-8", "replace")
        return _COLOURS.sub("", text).splitlines()

    def stop(self) -> None:
        """End the server and all that it started."""
        self.process.stop()

    def __enter__(self) -> Self:
        """Return the server, which runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()


@dataclass(frozen=True)
class Remote:
    """A server that somebody else runs: it can be asked, and its log and process are unknown."""

    url: str
    model: str
    request_format: RequestFormat = "chat_completions"
    pid: int | None = None
    ready_after_s: float = 0.0

    def alive(self, timeout_s: float = _ALIVE_S) -> bool:
        """Return whether the server answers a real request."""
        return _answers(self.url, self, timeout_s)

    def died(self) -> Diagnosis | None:
        """Return None: the process of somebody else's server cannot be seen."""
        return None

    def log_tail(self, lines: int) -> list[str]:
        """Return nothing: the log of somebody else's server cannot be seen."""
        return []

    def stop(self) -> None:
        """Do nothing: the server is not ours to stop."""


def start(spec: ServerSpec) -> Server:
    """Start a server and wait until it answers a real request. Raises ServerFailed.

    Whatever interrupts the waiting, Ctrl-C included, nothing is left running.
    """
    for left in reversed(range(_PORT_TRIES)):
        try:
            return _start_on(spec, _port(spec))
        except ServerFailed as error:
            lost_race = error.diagnosis.cause == "port_taken" and spec.port is None
            if not lost_race or not left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _port(spec: ServerSpec) -> int:
    """Return a free port, or the wanted one if it is free. Raises ServerFailed."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, spec.port or 0))
        except OSError as error:
            sentence = f"Port {spec.port} cannot be used: {error.strerror}; take another one."
            raise ServerFailed(Diagnosis("port_taken", sentence), []) from None
        return int(probe.getsockname()[1])


def _start_on(spec: ServerSpec, port: int) -> Server:
    began = time.monotonic()
    log_start = spec.log.stat().st_size if spec.log.exists() else 0
    argv = [word.replace("{port}", str(port)) for word in spec.argv]
    env = environment(spec.engine_cpus, spec.argv) | spec.env
    try:
        process = Guarded.start(argv, env, spec.log, cpus=spec.cpus)
    except RunnerError as error:
        raise ServerFailed(Diagnosis("executable_missing", f"{error}."), []) from None
    server = Server(process, spec, port, log_start)
    try:
        _wait_until_ready(server, began + spec.ready_timeout_s)
        if spec.engine_cpus and spec.api_cpus:
            pin(process, spec.engine_cpus, spec.api_cpus)
    except BaseException:
        server.stop()
        raise
    server.ready_after_s = time.monotonic() - began
    return server


def _wait_until_ready(server: Server, deadline: float) -> None:
    """Wait until the server answers ``/health``, then a real request. Raises ServerFailed."""
    spec = server.spec

    def healthy() -> None:
        endpoint.fetch(f"{server.url}/health")
        if not server.process.listens_on(server.port):
            raise ConnectionError(f"somebody else answers on port {server.port}")

    def answering() -> None:
        left = max(1.0, deadline - time.monotonic())
        endpoint.ask(server.url, spec.model, spec.request_format, left)

    _repeat(server, healthy, deadline)
    try:
        _repeat(server, answering, deadline)
    except endpoint.Refused as error:
        sentence = f"The server is up and refuses a request for {spec.model}: {error}"
        raise ServerFailed(Diagnosis("request_refused", sentence), server.log_tail(40)) from None


def _repeat(server: Server, question: Callable[[], None], deadline: float) -> None:
    """Ask until there is an answer. Raises ServerFailed when the server ends or the time is up."""
    while True:
        if (died := server.died()) is not None:
            raise ServerFailed(died, server.log_tail(40))
        try:
            question()
        except _SILENT:
            if time.monotonic() > deadline:
                raise ServerFailed(_never_ready(server), server.log_tail(40)) from None
            time.sleep(_PAUSE_S)
        else:
            return


def _never_ready(server: Server) -> Diagnosis:
    """Say that the server took too long, and what its log complains of."""
    told = diagnose(server.log_lines(), None)
    seconds = f"{server.spec.ready_timeout_s:g} s"
    hint = "" if told.cause == "unknown" else f" Its log: {told.sentence}"
    return Diagnosis(
        "never_ready",
        f"The server answered no request within {seconds}; raise limits.server_ready_s if it was "
        f"still loading, or look into its log.{hint}",
    )


def _answers(url: str, asked: ServerSpec | Remote, timeout_s: float) -> bool:
    try:
        endpoint.ask(url, asked.model, asked.request_format, timeout_s)
    except (*_SILENT, endpoint.Refused):
        return False
    return True
