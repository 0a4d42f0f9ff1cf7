"""The lab's real server on this machine, and traffic of one kind to it, so many requests at once."""

import itertools
import json
import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from runners.serving.engines import VLLM
from runners.serving.server import ServerSpec, start
from runners.texts.generators import Kind, prompts

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "studies" / "lab-models"
#: As the lab's studies ask.
_TOKENS = 64
_CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def served(vllm: Path, target: Path, name: str, k: int, log: Path) -> Iterator[str]:
    """The address of the target with the lab's draft; ``k`` 0: without one."""
    argv = [
        str(vllm), "serve", str(target), "--host", "127.0.0.1", "--port", "{port}",
        "--served-model-name", name, "--max-model-len", "512", "--max-num-seqs", "32",
        "--enforce-eager", "--no-enable-prefix-caching",
    ]  # fmt: skip
    if k:
        draft = {
            "method": "draft_model",
            "model": str(MODELS / "draft"),
            "num_speculative_tokens": k,
        }
        argv += ["--speculative-config", json.dumps(draft)]
    env = {
        **VLLM.always, **os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip
    spec = ServerSpec(
        tuple(argv), env, name, log, 600.0,
        engine_cpus=frozenset(_CORES[:1]), api_cpus=frozenset(_CORES[-1:]),
        request_format="text_completions",
    )  # fmt: skip
    with start(spec) as server:
        yield server.url


@contextmanager
def traffic(url: str, name: str, kind: Kind, at_once: int, seed: int) -> Iterator[None]:
    """So many requests at once, as long as the block lasts: prompts that the models never saw."""
    texts = prompts(kind)
    Random(seed).shuffle(texts)
    endless, lock, over = itertools.cycle(texts), threading.Lock(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            with lock:
                prompt = next(endless)
            body = {"model": name, "prompt": prompt, "max_tokens": _TOKENS, "temperature": 0}
            request = urllib.request.Request(
                f"{url}/v1/completions", json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )  # fmt: skip
            with urllib.request.urlopen(request, timeout=120) as answer:
                answer.read()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
