"""A study of sessions as the runner leaves it: three turns that wait for the server's own answers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SESSIONS, TURNS, OUTPUT, AT_ONCE = 12, 3, 49, 4
#: Seconds to the first token of each turn, by arm (K); a step between tokens takes the same in all turns.
FIRST = {0: (0.10, 0.20, 0.30), 3: (0.10, 0.10, 0.10)}
PACE = {0: 0.020, 3: 0.010}


@dataclass(frozen=True)
class Talked:
    """A study of sessions. ``told``: whether the report says which turn a request is; ``sessions``: of each
    launch; ``turns``: of each session; ``hits``: share of looked-up prompt tokens that counters say were cached."""

    told: bool = True
    sessions: int = SESSIONS
    turns: int = TURNS
    launches: int = 3
    hits: float | None = 0.5


def body(session: int, turn: int, arm: int) -> dict[str, Any]:
    """What is sent: the server's own answers, another one for each arm, stand before the turn."""
    messages = [{"role": "system", "content": "Be brief."}]
    for before in range(turn):
        messages += [
            {"role": "user", "content": f"question {session}.{before}?"},
            {"role": "assistant", "content": f"answer of K={arm} to {session}.{before}"},
        ]
    return {"messages": [*messages, {"role": "user", "content": f"question {session}.{turn}?"}],
            "max_tokens": OUTPUT, "temperature": 0.0}  # fmt: skip


def requests(study: Talked, k: int, slow: float, started: float) -> list[dict[str, Any]]:
    rows = []
    for session in range(study.sessions):
        begin = started + session // AT_ONCE * 5 + 0.01 * (session % AT_ONCE)
        for turn in range(study.turns):
            first = begin + FIRST[k][turn] * slow
            last = first + (OUTPUT - 1) * PACE[k] * slow
            timings = {"request_start": begin, "first_token_iteration": first, "request_end": last,
                       "last_token_iteration": last, "token_iterations": OUTPUT}  # fmt: skip
            info: dict[str, Any] = {"status": "completed", "timings": timings}
            info |= {"turn_index": turn, "conversation_id": f"{session}"} if study.told else {}
            rows.append({
                "request_args": json.dumps({"body": body(session, turn, k if study.told else 0)}), "info": info,
                "prompt_tokens": 80 * (turn + 1), "output_tokens": OUTPUT,
            })  # fmt: skip
            begin = last + 0.01
    return rows


def report(rows: list[dict[str, Any]], started: float) -> dict[str, Any]:
    end = max(one["info"]["timings"]["request_end"] for one in rows)
    made = {"successful": len(rows), "errored": 0, "incomplete": 0, "total": len(rows)}
    benchmark = {
        "config": {"strategy": {"type_": "concurrent", "streams": AT_ONCE}, "backend": {"kind": "openai_http"}},
        "scheduler_metrics": {"measure_start_time": started, "measure_end_time": end, "requests_made": made},
        "metrics": {"request_totals": made},
        "requests": {"successful": rows, "errored": [], "incomplete": []},
        "start_time": started, "end_time": end, "duration": end - started,
    }  # fmt: skip
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {},
            "benchmarks": [benchmark], "conclusions": []}  # fmt: skip


def write(study: Talked, results: Path) -> None:
    scatter, started = np.random.default_rng(7), 1_700_000_000.0
    for launch in range(study.launches):
        for k in (0, 3):
            place = results / f"k{k}-r{launch}"
            place.mkdir(parents=True)
            slow = float(np.exp(scatter.normal(0, 0.01)))
            record = {
                "schema_version": 1, "study": "talked", "repeat": launch, "launch": f"r{launch}-k{k}",
                "arm": f"k{k}", "model": "acme/chat-8b", "gpu": "H100", "gpu_count": 1, "engine": "vllm",
                "tensor_parallel_size": 1, "engine_version": "0.32.0", "dataset": "talks",
                "evidence": "simulated", "concurrency": AT_ONCE, "load_profile": "concurrent",
                "spec_method": "none", "temperature": 0.0,
            }  # fmt: skip
            if k:
                record |= {
                    "spec_method": "draft_model",
                    "num_speculative_tokens": k,
                    "draft_model": "d",
                }
            (place / "record.json").write_text(json.dumps(record))
            rows = requests(study, k, slow, started)
            (place / "guidellm.json").write_text(json.dumps(report(rows, started)))
            if study.hits is not None:
                for name, looked in (("metrics-before.prom", 0), ("metrics-after.prom", 1000)):
                    said = {"queries": looked, "hits": round(looked * study.hits)}
                    (place / name).write_text("".join(
                        f'vllm:prefix_cache_{series}_total{{engine="0"}} {n}.0\n' for series, n in said.items()
                    ))  # fmt: skip
            started += 600
