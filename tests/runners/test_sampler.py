"""The samples span the load, hold what is asked for, and survive a server that does not answer."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest.counters import read_series
from runners.measuring.guidellm import Sampler
from runners.measuring.run import keep_counters
from runners.serving import endpoint
from runners.serving.server import LocalServer, ServerSpec, start

pytestmark = pytest.mark.slow
FAKE = (sys.executable, str(Path(__file__).with_name("fake_vllm.py")), "serve", "tiny")
SPECULATING = ("--fake-k", "2", "--fake-acceptance", "0.5")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A fake engine that drafts two tokens."""
    argv = (*FAKE, "--port", "{port}", *SPECULATING)
    spec = ServerSpec(argv, dict(os.environ), "tiny", tmp_path / "server.log", 120.0)
    with start(spec) as running:
        yield running


def _generate(server: LocalServer, tokens: int) -> None:
    body = {"model": "tiny", "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True}
    endpoint.send(server.url + "/v1/completions", body, 120)


@contextmanager
def _generating(server: LocalServer) -> Iterator[None]:
    """One request after the other, until the block is left."""
    left = threading.Event()

    def generate() -> None:
        while not left.is_set():
            _generate(server, 200)

    with ThreadPoolExecutor(1) as pool:
        generated = pool.submit(generate)
        try:
            yield
        finally:
            left.set()
    generated.result()


def _latest_of_a_running_request(sampler: Sampler) -> dict[str, float]:
    seen: list[dict[str, float]] = []

    def running() -> bool:
        seen.append(dict(sampler.latest))
        return seen[-1].get("running") == 1

    _until(running)
    return seen[-1]


def _until(said: Callable[[], bool]) -> None:
    """Wait; the machine may be busy."""
    end = time.monotonic() + 120
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def _samples(path: Path) -> list[tuple[float, dict[str, float]]]:
    """Moment and values by name, labels left out where there is no position."""
    found = []
    for line in path.read_text().splitlines():
        at, texts = json.loads(line)
        pairs: Iterator[tuple[str, str, str]] = (text.rpartition(" ") for text in texts)
        found.append((at, {name.replace('engine="0",', ""): float(v) for name, _, v in pairs}))
    return found


def test_the_first_and_the_last_sample_enclose_the_load(
    server: LocalServer, tmp_path: Path
) -> None:
    path = tmp_path / "metrics-samples.jsonl"
    began = time.time()
    with Sampler(server.url, path, every_s=60):
        started = time.time()
        _generate(server, 20)
        ended = time.time()

    (first_at, first), (last_at, last) = _samples(path)
    name = 'vllm:generation_tokens_total{model_name="tiny"}'
    assert began <= first_at <= started
    assert ended <= last_at
    assert last[name] - first[name] == 20
    assert "vllm:spec_decode_num_accepted_tokens_per_pos_total" in str(last)


def test_samples_are_taken_again_and_again_and_ingest_reads_them(
    server: LocalServer, tmp_path: Path
) -> None:
    path = tmp_path / "metrics-samples.jsonl"
    with Sampler(server.url, path, every_s=0.05) as sampler, _generating(server):
        latest = _latest_of_a_running_request(sampler)
        _until(lambda: len(_samples(path)) >= 4)

    series = read_series(path.read_bytes())
    assert len(series.at) >= 4
    assert list(series.at) == sorted(series.at)
    assert series.snapshots[-1].counters is not None
    assert latest["running"] == 1
    assert latest["waiting"] == 0


def test_the_live_throughput_is_tokens_since_the_last_sample(
    server: LocalServer, tmp_path: Path
) -> None:
    with Sampler(server.url, tmp_path / "samples", every_s=60) as sampler:
        assert "tokens_per_s" not in sampler.latest
        _generate(server, 30)

    (first, _), (last, _) = _samples(tmp_path / "samples")
    assert sampler.latest["tokens_per_s"] == pytest.approx(30 / (last - first))


def test_a_server_that_ends_during_the_load_stops_the_samples_and_nothing_else(
    server: LocalServer, tmp_path: Path
) -> None:
    path = tmp_path / "metrics-samples.jsonl"
    with Sampler(server.url, path, every_s=0.05):
        server.stop()
        time.sleep(0.2)

    assert len(_samples(path)) >= 1
    with pytest.raises(OSError, match="refused"):
        keep_counters(server.url, tmp_path / "after.prom")


def test_a_snapshot_is_what_the_server_says_untouched(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "before.prom"
    text = keep_counters(server.url, path)
    assert text == path.read_text() == endpoint.fetch(server.url + "/metrics")


def test_a_server_without_metrics_has_no_samples(tmp_path: Path, server: LocalServer) -> None:
    path = tmp_path / "metrics-samples.jsonl"
    with Sampler(f"{server.url}/nowhere", path, every_s=60) as sampler:
        latest: dict[str, Any] = sampler.latest

    assert latest == {}
    assert not path.exists()
