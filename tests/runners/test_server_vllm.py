"""Real vLLM on a CPU: it starts, is watched, fails in the ways it can fail, and leaves nothing behind."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.measuring.guidellm import Sampler
from runners.serving import endpoint
from runners.serving.endpoint import empty_prefix_cache
from runners.serving.engines import VLLM as VLLM
from runners.serving.server import LocalServer, ServerFailed, ServerSpec, start
from runners.texts.generators import prompts

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
SMALL = ("--max-model-len", "256", "--max-num-seqs", "8", "--served-model-name", "tiny")
ENVIRONMENT = {
    **VLLM.always,
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
CORES = sorted(os.sched_getaffinity(0))
# A runner that can be killed: it starts a server from what it is given and waits.
RUNNER = """
import os, sys, time
from pathlib import Path
from runners.serving.server import ServerSpec, start
argv, env, log = eval(sys.argv[1]), eval(sys.argv[2]), Path(sys.argv[3])
server = start(ServerSpec(argv, env, "tiny", log, 600.0))
print(" ".join(str(process.pid) for process in server.process.tree()), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def models(vllm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny models, ``target`` and ``other``, of different vocabularies."""
    folder = tmp_path_factory.mktemp("models")
    script = Path(__file__).with_name("tiny_model.py")
    for name, vocabulary in (("target", "512"), ("other", "300")):
        python = vllm.with_name("python")
        subprocess.run([python, script, folder / name, vocabulary], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def spec(vllm: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """How vLLM is started on a model; ``draft`` is a speculative config, keywords replace fields."""

    def make(model: str = "target", draft: Any = None, **changes: Any) -> ServerSpec:
        path = model if model.startswith("/") else str(models / model)
        argv = [str(vllm), "serve", path, "--host", "127.0.0.1", "--port", "{port}", *SMALL]
        if draft:
            argv += ["--speculative-config", json.dumps(draft)]
        fields: dict[str, Any] = {
            "argv": (*argv, "--enforce-eager"),
            "env": ENVIRONMENT,
            "model": "tiny",
            "log": tmp_path_factory.mktemp("logs") / "server.log",
            "ready_timeout_s": 600.0,
        }
        return ServerSpec(**(fields | changes))

    return make


@pytest.fixture(scope="module")
def server(spec: Callable[..., ServerSpec], models: Path) -> Iterator[LocalServer]:
    """A server whose draft is the target itself, so that nearly everything drafted is accepted."""
    draft = {"method": "draft_model", "model": str(models / "target"), "num_speculative_tokens": 2}
    pinned = {"engine_cpus": frozenset(CORES[:1]), "api_cpus": frozenset(CORES[-1:])}
    with start(spec(draft=draft, **pinned)) as running:
        yield running


def _generate(server: LocalServer, tokens: int, prompt: str = "def main") -> None:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
    endpoint.send(server.url + "/v1/completions", {**body, "temperature": 0}, 120)


def _last(path: Path, name: str) -> float:
    texts = json.loads(path.read_text().splitlines()[-1])[1]
    return sum(float(text.rpartition(" ")[2]) for text in texts if text.startswith(name + "{"))


def _until(said: Callable[[], bool], seconds: float = 180) -> bool:
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.05)
    return said()


def _shared(tree: list[psutil.Process]) -> list[Path]:
    """Files of shared memory that a server's processes have open."""
    maps = {m.path for process in tree for m in process.memory_maps()}
    return [Path(path) for path in maps if path.startswith("/dev/shm/") and "deleted" not in path]


def _accepted(server: LocalServer) -> tuple[float, float]:
    """Tokens drafted and accepted for thirty prompts of code that the models were not trained on."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda prompt: _generate(server, 64, prompt), prompts("code")[:30]))
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
        lines = [line.partition("{") for line in answer.read().decode().splitlines()]
    drafted, accepted = (
        sum(float(rest.rpartition(" ")[2]) for name, _, rest in lines if name == f"vllm:{counter}")
        for counter in (
            "spec_decode_num_draft_tokens_total",
            "spec_decode_num_accepted_tokens_total",
        )
    )
    return drafted, accepted


def test_widened_models_have_the_acceptance_of_the_small_ones_within_counting_error(
    spec: Callable[..., ServerSpec], vllm: Path, tmp_path: Path
) -> None:
    small = ROOT / "studies" / "lab-models"
    wider = ("--hidden_size", "768", "--num_attention_heads", "12", "--num_key_value_heads", "4",
             "--intermediate_size", "1024", "--num_hidden_layers", "8", "--vocab_size", "3000")  # fmt: skip
    for name in ("target", "draft"):
        words = [
            str(vllm.with_name("python")),
            "-m",
            "runners.lab.widen",
            str(small / name),
            str(tmp_path / name),
        ]
        subprocess.run([*words, *wider], cwd=ROOT, check=True, capture_output=True)

    counts = []
    for folder in (small, tmp_path):
        draft = {
            "method": "draft_model",
            "model": str(folder / "draft"),
            "num_speculative_tokens": 3,
        }
        with start(
            spec(str(folder / "target"), draft, request_format="text_completions")
        ) as running:
            counts.append(_accepted(running))

    (drafted, accepted), (drafted_wide, accepted_wide) = counts
    share = (accepted + accepted_wide) / (drafted + drafted_wide)
    error = sqrt(share * (1 - share) * (1 / drafted + 1 / drafted_wide))
    assert drafted > 1000
    assert 0.3 < share < 0.9
    assert abs(accepted / drafted - accepted_wide / drafted_wide) < 2 * error


def test_it_is_ready_alive_and_its_log_is_kept(server: LocalServer) -> None:
    assert server.alive()
    assert server.died() is None
    assert "Application startup complete" in "\n".join(server.log_tail(50))


def test_its_counters_are_sampled(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "metrics-samples.jsonl"
    with Sampler(server.url, path, every_s=0.2) as sampler:
        _generate(server, 100)

    drafted = _last(path, "vllm:spec_decode_num_draft_tokens_total")
    accepted = _last(path, "vllm:spec_decode_num_accepted_tokens_total")
    by_position = _last(path, "vllm:spec_decode_num_accepted_tokens_per_pos_total")
    assert drafted >= 60
    assert 0.9 * drafted <= accepted <= drafted
    assert by_position == accepted
    assert {"running", "waiting", "tokens_per_s"} <= set(sampler.latest)


def test_its_prefix_cache_can_be_emptied(server: LocalServer) -> None:
    _generate(server, 5)
    assert empty_prefix_cache(server.url, "reset") == "reset"


@pytest.mark.skipif(len(CORES) < 2, reason="pinning needs two cores")
def test_its_engine_computes_on_the_engines_cores_only(server: LocalServer) -> None:
    _generate(server, 5)
    masks = {
        process.pid: {frozenset(os.sched_getaffinity(t.id)) for t in process.threads()}
        for process in server.process.tree()
    }
    assert masks.pop(server.process.pid) == {server.spec.api_cpus}
    assert len(masks) >= 1
    assert set.union(*masks.values()) == {server.spec.engine_cpus}


def test_all_its_processes_carry_the_mark_of_their_guard(server: LocalServer) -> None:
    tree = server.process.tree()
    assert len(tree) >= 2
    assert len({process.environ()["DRAFTBOARD_GUARD"] for process in tree}) == 1


def test_an_engine_that_is_killed_takes_the_server_down_and_leaves_nothing(
    server: LocalServer,
) -> None:
    """Last of this server's tests."""
    tree = server.process.tree()
    shared = _shared(tree)
    engine = next(p for p in tree if "EngineCore" in " ".join(p.cmdline()))
    engine.kill()

    assert _until(lambda: not server.alive(timeout_s=2))
    server.stop()
    assert server.died() is not None
    assert not [p for p in tree if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not [path for path in shared if path.exists()]


def test_nothing_of_it_outlives_a_runner_that_is_killed(spec: Callable[..., ServerSpec]) -> None:
    asked = spec()
    said = [repr(asked.argv), repr(asked.env), str(asked.log)]
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, *said], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        tree = [psutil.Process(int(pid)) for pid in runner.stdout.readline().split()]
        assert len(tree) >= 2
        shared = _shared(tree)
        runner.kill()

    assert _until(lambda: not [process for process in tree if process.is_running()])
    assert not [path for path in shared if path.exists()]


def _cause(spec: ServerSpec) -> tuple[str, str]:
    with pytest.raises(ServerFailed) as caught:
        start(spec)
    return caught.value.diagnosis.cause, caught.value.diagnosis.sentence


def test_a_missing_model_is_named(spec: Callable[..., ServerSpec]) -> None:
    cause, sentence = _cause(spec(model="/nowhere/target"))
    assert cause == "model_missing"
    assert "/nowhere/target" in sentence


@pytest.mark.long
def test_a_hub_that_cannot_be_reached_is_said(spec: Callable[..., ServerSpec]) -> None:
    asked = spec()
    argv = ("org/target" if word.endswith("/target") else word for word in asked.argv)
    away = {**ENVIRONMENT, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert _cause(spec(argv=tuple(argv), env=away))[0] == "hub_unreachable"


@pytest.mark.long
def test_a_draft_of_another_vocabulary_is_said(
    spec: Callable[..., ServerSpec], models: Path
) -> None:
    draft = {"method": "draft_model", "model": str(models / "other"), "num_speculative_tokens": 2}
    cause, sentence = _cause(spec(draft=draft))
    assert cause == "vocabulary_mismatch"
    assert "300" in sentence


@pytest.mark.long
def test_a_method_that_vllm_does_not_know_is_said(spec: Callable[..., ServerSpec]) -> None:
    cause, sentence = _cause(spec(draft={"method": "telepathy", "num_speculative_tokens": 2}))
    assert cause == "unknown_method"
    assert "ngram" in sentence
