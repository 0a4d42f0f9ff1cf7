"""One server: started, watched, asked whether it lives, stopped; or somebody else's, only asked."""

import contextlib
import os
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from runners.planning.plan import Launch, gpus_needed
from runners.planning.study_file import Study
from runners.serving import endpoint
from runners.serving.agreement import served_model
from runners.serving.diagnosis import Diagnosis, diagnose
from runners.serving.engines import engine_of, tool
from runners.serving.processes import Guarded
from runners.surroundings import machine
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

_HOST = "127.0.0.1"
_PAUSE_S = 0.25
#: Long enough for a token behind a full queue, short enough to notice a hang.
_ALIVE_S = 60.0
#: So much of a log tells of a failure.
_LOG_LINES = 40
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RANKS = "--tensor-parallel-size"


@dataclass(frozen=True)
class ServerSpec:
    """How a server is started. ``argv`` contains ``{port}``, which becomes a free one; ``env`` is its
    whole environment.

    Where cores are given, the engine and its workers run on ``engine_cpus``, the API server on
    ``api_cpus``; ``cpus`` keeps all of them there from the start.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    model: str
    log: Path
    ready_timeout_s: float
    engine_cpus: frozenset[int] | None = None
    api_cpus: frozenset[int] | None = None
    cpus: frozenset[int] | None = None
    request_format: endpoint.RequestFormat = "chat_completions"


def server_spec(study: Study, launch: Launch, layout: Layout) -> ServerSpec:
    """Return how a launch's server is started. Raises RunnerError where there is no such engine."""
    engine = engine_of(study)
    found = tool(study, engine.tool)
    if found.path is None:
        raise RunnerError(
            f"{engine.title} cannot be started: {found.problem}; install it in an environment of its "
            f"own and name it under executables.{engine.tool} of the study."
        )
    cpus, near = study.cpus, near_gpus(study, launch)
    return ServerSpec(
        argv=tuple(engine.command(study, launch.variant, launch.tensor_parallel_size)),
        env={**engine.always, **os.environ, **study.environment, **launch.variant.environment},
        model=served_model(study),
        log=layout.log(launch.launch_id).absolute(),
        ready_timeout_s=study.limits.server_ready_s,
        engine_cpus=None if cpus is None else frozenset(cpus.engine),
        api_cpus=None if cpus is None else frozenset(cpus.client),
        cpus=None if near is None else near.cores,
        request_format=study.request.format,
    )


def used_gpus(study: Study, launch: Launch) -> list[machine.Gpu]:
    """Return the GPUs that a server started here gets: the first that are visible."""
    seen = machine.visible(machine.survey(), {**os.environ, **study.environment})
    return [*seen[: gpus_needed(study, launch)]]


def near_gpus(study: Study, launch: Launch) -> machine.Near | None:
    """Return the cores near the GPUs that a launch gets on this machine; None where nothing is to
    be kept apart, or where study or engine (vLLM's ``--numa-bind``) see to it themselves."""
    binds = any(name.startswith("numa-bind") for name in study.engine_arguments(launch.variant))
    if study.numa == "leave" or study.cpus is not None or binds:
        return None
    nodes = [gpu.numa_node for gpu in used_gpus(study, launch)]
    return machine.near(nodes, machine.usable_cores())


class ServerFailed(RunnerError):
    """A server did not get ready; the diagnosis says why, ``log_tail`` what it printed last."""

    def __init__(self, diagnosis: Diagnosis, log_tail: list[str]) -> None:
        super().__init__(f"The server did not start. {diagnosis.sentence}")
        self.diagnosis = diagnosis
        self.log_tail = log_tail


@dataclass
class LocalServer(contextlib.AbstractContextManager["LocalServer"]):
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

    def alive(self, timeout_s: float = _ALIVE_S) -> bool:
        """Return whether the server's process runs and it answers a real request."""
        return self.process.poll() is None and RemoteServer(
            self.url, self.spec.model, self.spec.request_format
        ).alive(timeout_s)

    def died(self) -> Diagnosis | None:
        """Say why the server's process ended; None while it runs."""
        if self._died is None and (status := self.process.poll()) is not None:
            self._died = diagnose(self.log_lines(), status)
        return self._died

    def log_tail(self, lines: int = _LOG_LINES) -> list[str]:
        """Return the lines that the server printed last."""
        return self.log_lines()[-lines:]

    def log_lines(self) -> list[str]:
        """Return all that this server printed, or the last megabyte of it, without colours."""
        with self.spec.log.open("rb") as log:
            log.seek(max(self.log_start, log.seek(0, 2) - (1 << 20)))
            text = log.read().decode("utf-8", "replace")
        return _COLOURS.sub("", text).splitlines()

    def stop(self) -> None:
        """End the server and all that it started."""
        self.process.stop()

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(frozen=True)
class RemoteServer:
    """A server that somebody else runs: it can be asked, and its log and process are unknown."""

    url: str
    model: str
    request_format: endpoint.RequestFormat = "chat_completions"

    def alive(self, timeout_s: float = _ALIVE_S) -> bool:
        """Return whether the server answers a real request."""
        try:
            endpoint.ask(self.url, self.model, self.request_format, timeout_s)
        except (*endpoint.SILENT, endpoint.RequestRefused):
            return False
        return True

    def died(self) -> Diagnosis | None:
        """Return None: the process of somebody else's server cannot be seen."""
        return None

    def log_tail(self, lines: int = _LOG_LINES) -> list[str]:
        """Return nothing: the log of somebody else's server cannot be seen."""
        return []


def start(spec: ServerSpec) -> LocalServer:
    """Start a server and wait until it answers a real request. Raises ServerFailed.

    Whatever interrupts the waiting, Ctrl-C included, nothing is left running.
    """
    # A port that was free a moment ago may be taken when the server gets to it.
    for _ in range(2):
        try:
            return _start(spec)
        except ServerFailed as error:
            if error.diagnosis.cause != "port_taken":
                raise
    return _start(spec)


def _start(spec: ServerSpec) -> LocalServer:
    with socket.create_server((_HOST, 0)) as free:
        port = int(free.getsockname()[1])
    began = time.monotonic()
    log_start = spec.log.stat().st_size if spec.log.exists() else 0
    argv = [word.replace("{port}", str(port)) for word in spec.argv]
    env = spec.env
    # With more than one rank each needs a list of its own: the study gives it in its environment.
    ranks = argv[argv.index(_RANKS) + 1] if _RANKS in argv else "1"
    if spec.engine_cpus and ranks == "1":
        threads = ",".join(str(cpu) for cpu in sorted(spec.engine_cpus))
        env = {"VLLM_CPU_OMP_THREADS_BIND": threads} | env
    try:
        process = Guarded.start(argv, env, spec.log, cpus=spec.cpus)
    except RunnerError as error:
        raise ServerFailed(Diagnosis("executable_missing", f"{error}."), []) from None
    server = LocalServer(process, spec, port, log_start)
    try:
        _wait_until_ready(server, began + spec.ready_timeout_s)
        if spec.engine_cpus and spec.api_cpus:
            _pin(process, spec.engine_cpus, spec.api_cpus)
    except BaseException:
        server.stop()
        raise
    server.ready_after_s = time.monotonic() - began
    return server


def _wait_until_ready(server: LocalServer, deadline: float) -> None:
    # Wait until the server answers ``/health``, then a real request. Raises ServerFailed.
    spec, healthy = server.spec, False
    while (died := server.died()) is None:
        try:
            if healthy:
                left = max(1.0, deadline - time.monotonic())
                endpoint.ask(server.url, spec.model, spec.request_format, left)
                return
            endpoint.fetch(f"{server.url}/health")
            healthy = server.process.listens_on(server.port)
            if not healthy:
                raise ConnectionError(f"somebody else answers on port {server.port}")
        except endpoint.RequestRefused as error:
            sentence = f"The server is up and refuses a request for {spec.model}: {error}"
            refused = Diagnosis("request_refused", sentence)
            raise ServerFailed(refused, server.log_tail()) from None
        except endpoint.SILENT:
            if time.monotonic() > deadline:
                complaint = diagnose(server.log_lines(), None)
                hint = "" if complaint.cause == "unknown" else f" Its log: {complaint.sentence}"
                sentence = (
                    f"The server answered no request within {spec.ready_timeout_s:g} s; raise "
                    f"limits.server_ready_s if it was still loading, or look into its log.{hint}"
                )
                late = Diagnosis("never_ready", sentence)
                raise ServerFailed(late, server.log_tail()) from None
            time.sleep(_PAUSE_S)
    raise ServerFailed(died, server.log_tail())


def _pin(server: Guarded, engine_cpus: frozenset[int], api_cpus: frozenset[int]) -> None:
    """Keep a running server's API process on ``api_cpus`` and everything below on ``engine_cpus``.
    Unpinned, an engine that spins on every core starves its API server and the load generator,
    and a baseline on a small machine becomes bimodal. Every thread is pinned that may run
    elsewhere, since a mask is a thread's, not a process's; one that OpenMP bound to one of the
    cores stays.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for process in server.tree():
        with contextlib.suppress(psutil.Error):
            title = "" if process.pid == server.pid else " ".join(process.cmdline())
            # vLLM names its processes; with several API servers they are children of the first.
            api = process.pid == server.pid or title.startswith("VLLM::APIServer")
            cpus = api_cpus if api else engine_cpus
            for thread in process.threads():
                with contextlib.suppress(ProcessLookupError):
                    if not os.sched_getaffinity(thread.id) <= cpus:
                        os.sched_setaffinity(thread.id, cpus)
