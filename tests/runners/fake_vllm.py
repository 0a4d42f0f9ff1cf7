#!/usr/bin/env python3
"""FAKE: a small engine that answers like vLLM but computes nothing; for scheduling, kills and resume.

It stands in as the ``vllm`` executable (``fake_vllm.py serve MODEL --port 8000 …``): vLLM's own
arguments are accepted and ignored, except ``--host``, ``--port``, ``--served-model-name`` and
``num_speculative_tokens`` of ``--speculative-config``. Its own switches begin with ``--fake-`` and
may also come from the environment variable ``FAKE_VLLM``, for servers whose command line a plan
writes. Nothing measured on it says anything about speculation.

Example: fake_vllm.py serve tiny --port 8000 --fake-acceptance 0.7 --fake-crash-after 20
"""

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import time
import uuid
import zlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = os.environ.get("FAKE_VLLM_VERSION", "0.32.0")
OUT_OF_MEMORY = (
    "(EngineCore pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 79.10 GiB of which 1.20 GiB is free."
)
# A worker that leaves its parent's group and session, as vLLM's may: only a subreaper finds it.
WORKER = "import os, time; os.setsid(); time.sleep(3600)"


def log(line: str) -> None:
    """A line where vLLM's log would be."""
    sys.stderr.write(f"{line}\n")


def options(argv: list[str]) -> argparse.Namespace:
    """What was asked for; everything that only the real vLLM knows is ignored."""
    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=False, description=__doc__)
    parser.add_argument("--version", "-v", action="version", version=VERSION)
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model", nargs="?", default="fake")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--speculative-config", type=json.loads, default={})
    add_switches(parser.add_argument_group("switches of the fake"))
    found, _ = parser.parse_known_args([*argv, *shlex.split(os.environ.get("FAKE_VLLM", ""))])
    if found.fake_k is None:
        found.fake_k = found.speculative_config.get("num_speculative_tokens", 0)
    return found


def add_switches(fake: argparse._ArgumentGroup) -> None:
    """What the fake does that no real server would want."""
    fake.add_argument("--fake-k", type=int, help="draft tokens; default: of the speculative config")
    fake.add_argument("--fake-acceptance", type=float, default=0.6, help="of each draft token")
    fake.add_argument(
        "--fake-drift", type=float, default=0.0, help="change of the acceptance an hour: -0.1"
    )
    fake.add_argument(
        "--fake-fresh-draws",
        action="store_true",
        help="a prompt that comes again is accepted otherwise: the noise of an hour of new texts",
    )
    fake.add_argument(
        "--fake-unchecked",
        action="store_true",
        help="with drafts it answers otherwise than without",
    )
    fake.add_argument("--fake-delay", type=float, default=0.002, help="seconds per engine step")
    fake.add_argument("--fake-output-tokens", type=int, default=32, help="natural stop")
    fake.add_argument("--fake-ready-after", type=float, default=0.0, help="seconds until /health")
    fake.add_argument("--fake-never-ready", action="store_true", help="/health stays 503")
    fake.add_argument("--fake-crash-after", type=int, help="dies within its n-th generation")
    fake.add_argument("--fake-hang-after", type=int, help="the n-th generation never ends")
    fake.add_argument("--fake-oom", action="store_true", help="dies at start, out of memory")
    fake.add_argument("--fake-die", help="prints this and dies at start with exit status 1")
    fake.add_argument("--fake-once", type=Path, help="misbehave only until this file exists")
    fake.add_argument("--fake-workers", type=int, default=0, help="children in their own sessions")
    fake.add_argument(
        "--fake-no-metrics", action="store_true", help="no /metrics, as others have it"
    )
    fake.add_argument("--fake-api-key", help="requests without it are answered with 401")
    fake.add_argument("--fake-config", type=json.loads, help="what /server_info says, as JSON")
    fake.add_argument("--fake-become", type=Path, help="serves another model once this file exists")
    fake.add_argument("--fake-note-start", type=Path, help="appends a line per server start")


@dataclass
class Engine:
    """The counters of one server; ``/metrics`` prints them."""

    asked: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: int = 0
    running: int = 0
    prompt_tokens: int = 0
    generated: int = 0
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """One counter for each draft position."""
        self.accepted = [0] * self.asked.fake_k

    @property
    def name(self) -> str:
        if self.asked.fake_become is not None and self.asked.fake_become.exists():
            return "another"
        return self.asked.served_model_name or self.asked.model

    def ready(self) -> bool:
        late = time.monotonic() - self.started >= self.asked.fake_ready_after
        return late and not self.asked.fake_never_ready

    def begin(self) -> None:
        """Count a generation; crash or hang if this is the one."""
        with self.lock:
            self.requests += 1
            self.running += 1
            number = self.requests
        if number == self.asked.fake_hang_after and misbehaves(self.asked):
            time.sleep(3600)
        if number == self.asked.fake_crash_after and misbehaves(self.asked):
            time.sleep(self.asked.fake_delay)
            log("(EngineCore pid=1) RuntimeError: the fake engine was told to die")
            os._exit(1)

    def acceptance(self) -> float:
        """Of each draft token by now: the drift is that of compound interest."""
        hours = (time.monotonic() - self.started) / 3600
        rate: float = self.asked.fake_acceptance * (1 + self.asked.fake_drift) ** hours
        return rate

    def step(self, rng: random.Random) -> int:
        """One verification step: how many tokens it yields, the bonus token included."""
        time.sleep(self.asked.fake_delay)
        taken, rate = 0, self.acceptance()
        while taken < self.asked.fake_k and rng.random() < rate:
            taken += 1
        with self.lock:
            self.drafts += bool(self.asked.fake_k)
            for position in range(taken):
                self.accepted[position] += 1
        return taken + 1

    def word(self, prompt: str, place: int) -> str:
        """The same word whenever a prompt comes, as at temperature 0; one of its own if it drafts and
        was told to take drafts unchecked."""
        own = bool(self.asked.fake_k) and self.asked.fake_unchecked
        return f" word{zlib.crc32(f'{prompt} {place} {own}'.encode()) % 100}"

    def end(self, prompt: int, output: int) -> None:
        with self.lock:
            self.running -= 1
            self.prompt_tokens += prompt
            self.generated += output

    def metrics(self) -> str:
        """The few lines of vLLM's ``/metrics`` that the runners and ingest read."""
        label = f'engine="0",model_name="{self.name}"'
        caching = f'vllm:cache_config_info{{{label},enable_prefix_caching="True"}} 1.0'
        values = {
            "num_requests_running": self.running,
            "num_requests_waiting": 0,
            "kv_cache_usage_perc": min(1.0, self.running / 100),
            "prompt_tokens_total": self.prompt_tokens,
            "generation_tokens_total": self.generated,
        }
        if self.asked.fake_k:
            values["spec_decode_num_drafts_total"] = self.drafts
            values["spec_decode_num_draft_tokens_total"] = self.drafts * self.asked.fake_k
            values["spec_decode_num_accepted_tokens_total"] = sum(self.accepted)
        lines = [f"vllm:{name}{{{label}}} {float(value)}" for name, value in values.items()]
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines += [
            f'{name}{{{label},position="{position}"}} {float(count)}'
            for position, count in enumerate(self.accepted)
        ]
        return "\n".join([caching, *lines]) + "\n"


def misbehaves(asked: argparse.Namespace) -> bool:
    """Whether to do the harm that was asked for: always, or with ``--fake-once`` the first time."""
    if asked.fake_once is None:
        return True
    try:
        asked.fake_once.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Handler(BaseHTTPRequestHandler):
    """vLLM's routes."""

    protocol_version = "HTTP/1.1"
    # Chunks of a few bytes each: Nagle's algorithm would hold them back for 40 ms.
    disable_nagle_algorithm = True
    engine: Engine

    def log_message(self, format: str, *args: Any) -> None:  # the name is the base class's
        """vLLM logs each request too, but nobody reads that here."""

    def answer(self, status: int, body: str = "", kind: str = "application/json") -> None:
        payload = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def do_GET(self) -> None:  # the name is the base class's
        engine = self.engine
        if not engine.ready():
            self.answer(503)
        elif self.stranger() and self.path not in ("/health", "/ping"):
            self.answer(401, json.dumps({"error": "Unauthorized"}))
        elif self.path == "/metrics" and not engine.asked.fake_no_metrics:
            self.answer(200, engine.metrics(), "text/plain; version=0.0.4")
        elif self.path.startswith("/server_info") and engine.asked.fake_config:
            self.answer(200, json.dumps({"vllm_config": engine.asked.fake_config}))
        elif self.path == "/v1/models":
            model = {"id": engine.name, "object": "model", "owned_by": "vllm"}
            self.answer(200, json.dumps({"object": "list", "data": [model]}))
        elif self.path in ("/health", "/ping"):
            self.answer(200)
        elif self.path == "/version":
            self.answer(200, json.dumps({"version": VERSION}))
        else:
            self.answer(404, json.dumps({"detail": "Not Found"}))

    def do_POST(self) -> None:  # the name is the base class's
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/reset_prefix_cache"):
            known = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
            self.answer(200 if known else 404, json.dumps({"success": True} if known else {}))
        elif not self.engine.ready():
            self.answer(503)
        elif self.stranger():
            self.answer(401, json.dumps({"error": "Unauthorized"}))
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            self.generate(json.loads(asked), chat="chat" in self.path)
        else:
            self.answer(404, json.dumps({"detail": "Not Found"}))

    def stranger(self) -> bool:
        """Whether the request lacks the key that was asked for."""
        key = self.engine.asked.fake_api_key
        return key is not None and self.headers.get("Authorization") != f"Bearer {key}"

    def generate(self, body: dict[str, Any], chat: bool) -> None:
        """Steps of 1 to K + 1 tokens until the cap or the natural stop, one chunk a step."""
        if body.get("model") not in (None, "", self.engine.name):
            self.answer(404, json.dumps({"error": {"message": f"no model {body['model']}"}}))
            return
        prompt = json.dumps(body.get("messages") if chat else body.get("prompt"))
        reply = Reply(self, body, chat, prompt, prompt_tokens=max(1, len(prompt) // 4))
        self.engine.begin()
        try:
            again = self.engine.requests if self.engine.asked.fake_fresh_draws else 0
            reply.send(self.engine, random.Random(zlib.crc32(prompt.encode()) + again))
        except OSError:  # the client went away
            self.close_connection = True
        finally:
            reply.count(self.engine)


@dataclass
class Reply:
    """One answer, streamed or whole."""

    handler: Handler
    body: dict[str, Any]
    chat: bool
    prompt: str
    prompt_tokens: int
    output_tokens: int = 0
    is_counted: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def limit(self, natural: int) -> int:
        cap = self.body.get("max_tokens") or self.body.get("max_completion_tokens")
        if self.body.get("ignore_eos"):
            return int(cap or natural)
        return min(natural, cap or natural)

    def send(self, engine: Engine, rng: random.Random) -> None:
        limit, stream, text = (
            self.limit(engine.asked.fake_output_tokens),
            self.body.get("stream"),
            "",
        )
        if stream:
            self.handler.send_response(200)
            self.handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.handler.send_header("Transfer-Encoding", "chunked")
            self.handler.end_headers()
        while self.output_tokens < limit:
            count = min(engine.step(rng), limit - self.output_tokens)
            piece = "".join(engine.word(self.prompt, self.output_tokens + n) for n in range(count))
            self.output_tokens += count
            text += piece
            if stream:
                self.event(json.dumps(self.message(engine.name, piece, last=False)))
        # Whoever has the whole answer finds it counted.
        self.count(engine)
        if not stream:
            whole = {**self.message(engine.name, text, last=True), "usage": self.usage()}
            self.handler.answer(200, json.dumps(whole))
            return
        self.finish(engine.name)

    def count(self, engine: Engine) -> None:
        if not self.is_counted:
            self.is_counted = True
            engine.end(self.prompt_tokens, self.output_tokens)

    def finish(self, model: str) -> None:
        """The end of a stream: stop reason, usage if it was asked for, the end mark."""
        self.event(json.dumps(self.message(model, "", last=True)))
        if (self.body.get("stream_options") or {}).get("include_usage"):
            final = {**self.message(model, "", last=True), "choices": [], "usage": self.usage()}
            self.event(json.dumps(final))
        self.event("[DONE]")
        self.handler.wfile.write(b"0\r\n\r\n")

    def event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))
        self.handler.wfile.flush()

    def usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.output_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": total,
        }

    def message(self, model: str, text: str, last: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if last else None}
        if not self.chat:
            choice["text"] = text
        elif self.body.get("stream"):
            choice["delta"] = {"role": "assistant", "content": text}
        else:
            choice["message"] = {"role": "assistant", "content": text}
        kind = "chat.completion" if self.chat else "text_completion"
        head = {"id": f"cmpl-{self.id}", "object": kind, "created": int(time.time())}
        return {**head, "model": model, "choices": [choice]}


class Listener(ThreadingHTTPServer):
    """A thread per connection; 200 clients may knock at once."""

    request_queue_size = 1024
    daemon_threads = True


def main(argv: list[str]) -> None:
    asked = options(argv)
    if asked.fake_note_start:
        with asked.fake_note_start.open("a") as notes:
            notes.write(f"{os.getpid()} {shlex.join(argv)}\n")
    log(f"INFO vLLM API server version {VERSION} (fake), pid {os.getpid()}")
    if (asked.fake_oom or asked.fake_die) and misbehaves(asked):
        sys.exit(OUT_OF_MEMORY if asked.fake_oom else asked.fake_die)
    for _ in range(asked.fake_workers):
        subprocess.Popen([sys.executable, "-c", WORKER])
    handler = type("Bound", (Handler,), {"engine": Engine(asked)})
    with Listener((asked.host, asked.port), handler) as listener:
        log(f"INFO Application startup complete on port {asked.port}")
        listener.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
