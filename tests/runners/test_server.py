"""A server is up when it answers a real request, says why when it is not, and leaves nothing behind.

Here with the fake engine; ``test_server_vllm.py`` starts the real one.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.serving import endpoint
from runners.serving.endpoint import empty_prefix_cache
from runners.serving.engines import VLLM as VLLM
from runners.serving.server import LocalServer, RemoteServer, ServerFailed, ServerSpec, start

pytestmark = pytest.mark.slow
FAKE = (sys.executable, str(Path(__file__).with_name("fake_vllm.py")), "serve", "tiny")
PORT = ("--port", "{port}")
#: Generous, because the machine may be busy; no test waits for it to pass.
PATIENCE_S = 120.0

Spec = Callable[..., ServerSpec]


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """How a fake server is started; words are its switches, keywords replace fields."""

    def make(*switches: str, **changes: Any) -> ServerSpec:
        fields: dict[str, Any] = {
            "argv": (*FAKE, *PORT, *switches),
            "env": dict(os.environ),
            "model": "tiny",
            "log": tmp_path / "server.log",
            "ready_timeout_s": PATIENCE_S,
        }
        return ServerSpec(**(fields | changes))

    return make


def _failure(spec: ServerSpec) -> ServerFailed:
    """What starting it raises; and nothing of it is left."""
    with pytest.raises(ServerFailed) as caught:
        start(spec)
    assert not [pid for pid in _pids(spec.log) if psutil.pid_exists(pid)]
    return caught.value


def _pids(log: Path) -> list[int]:
    """The fake servers that wrote into a log."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [int(line.rpartition(" ")[2]) for line in lines if "(fake), pid" in line]


def _until(said: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.02)
    return said()


@pytest.mark.parametrize("form", ["chat_completions", "text_completions"])
def test_a_server_is_ready_once_it_answers_a_real_request(spec: Spec, form: str) -> None:
    with start(spec("--fake-ready-after", "0.5", request_format=form)) as server:
        assert 'generation_tokens_total{engine="0",model_name="tiny"} 1.0' in endpoint.fetch(
            server.url + "/metrics"
        )
        assert server.alive()
        assert server.died() is None
        assert server.ready_after_s >= 0.5
        assert server.log_tail(1) == [f"INFO Application startup complete on port {server.port}"]


def test_a_stopped_server_leaves_neither_processes_nor_its_port(spec: Spec) -> None:
    server = start(spec("--fake-workers", "2"))
    assert _until(lambda: len(server.process.tree()) == 3)
    tree = server.process.tree()

    server.stop()

    assert not [process for process in tree if process.is_running()]
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    assert not server.alive()


def test_servers_side_by_side_get_ports_of_their_own(spec: Spec, tmp_path: Path) -> None:
    with start(spec()) as one, start(spec(log=tmp_path / "other.log")) as other:
        assert one.port != other.port
        assert one.alive()
        assert other.alive()


def test_another_port_is_taken_if_the_first_is_lost_in_a_race(spec: Spec, tmp_path: Path) -> None:
    lost = ["--fake-die", "OSError: [Errno 98] Address already in use"]
    with start(spec(*lost, "--fake-once", str(tmp_path / "once"))) as server:
        assert server.alive()
        assert "Errno 98" not in "\n".join(server.log_tail(9)), "that was the first one's log"
    assert "Errno 98" in (tmp_path / "server.log").read_text()


def test_a_port_that_somebody_else_takes_during_the_start_is_not_mistaken_for_ours(
    spec: Spec, tmp_path: Path
) -> None:
    ports = tmp_path / "ports"
    late = f"echo {{port}} >> {ports}; sleep 2; exec {shlex.join(FAKE)} --port {{port}}"
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(start, spec(argv=("sh", "-c", late)))
        assert _until(lambda: ports.exists() and ports.read_text().endswith("\n"))
        port = int(ports.read_text().split()[0])
        quick = subprocess.Popen([*FAKE, "--port", str(port)], stdout=subprocess.DEVNULL)
        try:
            with starting.result(timeout=PATIENCE_S) as server:
                assert server.port != port
                assert server.alive()
            assert quick.poll() is None, "what answered on the first port was somebody else's"
        finally:
            quick.kill()
            quick.wait()


def test_a_server_that_runs_out_of_memory_is_diagnosed_from_its_log(spec: Spec) -> None:
    failure = _failure(spec("--fake-oom"))

    assert failure.diagnosis.cause == "out_of_memory"
    assert "CUDA out of memory" in failure.log_tail[-1]


def test_a_server_that_never_gets_ready_is_given_up(spec: Spec) -> None:
    failure = _failure(spec("--fake-never-ready", "--fake-workers", "1", ready_timeout_s=1.0))

    assert failure.diagnosis.cause == "never_ready"
    assert "within 1 s" in failure.diagnosis.sentence


def test_health_alone_does_not_make_a_server_ready(spec: Spec) -> None:
    failure = _failure(spec("--fake-hang-after", "1", ready_timeout_s=1.5))

    assert failure.diagnosis.cause == "never_ready"


def test_a_server_that_dies_at_its_first_request_is_not_ready(spec: Spec) -> None:
    failure = _failure(spec("--fake-crash-after", "1"))

    assert failure.diagnosis.cause == "ended"
    assert "told to die" in failure.diagnosis.sentence


def test_a_server_that_refuses_the_request_is_quoted(spec: Spec) -> None:
    failure = _failure(spec(model="another"))

    assert failure.diagnosis.cause == "request_refused"
    assert failure.diagnosis.sentence.endswith("no model another")


def test_a_missing_vllm_is_its_own_cause(spec: Spec) -> None:
    failure = _failure(spec(argv=("/nowhere/vllm", "serve", "tiny", *PORT)))

    assert failure.diagnosis.cause == "executable_missing"
    assert "/nowhere/vllm" in failure.diagnosis.sentence


def test_interrupting_the_wait_leaves_nothing_behind(spec: Spec) -> None:
    waiting = spec("--fake-never-ready", "--fake-workers", "1")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted_once_it_stands() -> list[psutil.Process]:
        """Guard, server and worker; the signal comes when all are there, however long that takes."""
        try:
            assert _until(lambda: bool(_pids(waiting.log)))
            server = psutil.Process(_pids(waiting.log)[0])
            assert _until(lambda: len(server.children()) == 1)
            return [server.parent() or server, server, *server.children()]
        finally:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ThreadPoolExecutor(1) as pool:
            family = pool.submit(interrupted_once_it_stands)
            with pytest.raises(KeyboardInterrupt):
                start(waiting)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert len(family.result()) == 3
    assert not [process for process in family.result() if process.is_running()]


def test_a_server_killed_from_outside_says_so(spec: Spec) -> None:
    with start(spec("--fake-workers", "1")) as server:
        os.kill(server.process.pid, signal.SIGKILL)

        assert _until(lambda: server.died() is not None)
        died = server.died()
        assert died is not None
        assert died.cause == "killed"
        assert not server.alive()


def test_an_engine_that_hangs_is_not_alive_though_its_health_is_well(spec: Spec) -> None:
    with start(spec("--fake-hang-after", "2")) as server:
        assert not server.alive(timeout_s=1.0)
        assert endpoint.fetch(server.url + "/health") == ""
        assert server.died() is None


def test_a_log_tail_holds_only_what_this_server_printed(spec: Spec) -> None:
    with start(spec()) as first:
        assert len(first.log_tail(100)) == 2
    with start(spec()) as second:
        assert len(second.log_tail(100)) == 2
        assert second.log_tail(100) != first.log_tail(100)[:2]


def test_a_proxy_of_the_environment_does_not_come_between(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(spec()) as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert server.alive()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="pinning needs two cores")
def test_the_engine_and_its_clients_get_cores_of_their_own(spec: Spec) -> None:
    first, second = (frozenset({cpu}) for cpu in sorted(os.sched_getaffinity(0))[:2])
    with start(spec("--fake-workers", "1", engine_cpus=first, api_cpus=second)) as server:
        cores = {p.pid: set(p.cpu_affinity() or ()) for p in server.process.tree()}
        environ = psutil.Process(server.process.pid).environ()

    assert cores.pop(server.process.pid) == second
    assert list(cores.values()) == [first]
    assert environ["VLLM_CPU_OMP_THREADS_BIND"] == str(*first)


def test_a_server_of_somebody_else_can_be_asked_and_is_not_stopped(spec: Spec) -> None:
    with start(spec()) as server:
        remote = RemoteServer(server.url, "tiny")
        assert remote.alive()
        assert not RemoteServer(server.url, "another").alive()
        assert remote.died() is None
        assert remote.log_tail(5) == []
        assert server.alive()
    assert not remote.alive()


def test_the_prefix_cache_is_emptied_or_known_to_be_kept(spec: Spec) -> None:
    def cached(server: LocalServer, wish: Any) -> str:
        return empty_prefix_cache(server.url, wish)

    with start(spec(env=os.environ | VLLM.always)) as server:
        assert [cached(server, "reset"), cached(server, "keep")] == ["reset", "kept"]
    with start(spec(env={**os.environ, "VLLM_SERVER_DEV_MODE": "0"})) as server:
        assert cached(server, "reset") == "kept"
