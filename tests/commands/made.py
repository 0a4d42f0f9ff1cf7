"""Cells that nobody measured, as the runner leaves them: a record, and a report of GuideLLM 0.8 with one level."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def record(study: str, dataset: str, k: int, load: int, launch: int) -> dict[str, Any]:
    """What is known of a cell with K draft tokens, at so many requests at once."""
    said = {
        "schema_version": 1, "study": study, "repeat": launch, "launch": f"r{launch}-k{k}",
        "arm": f"k{k}", "model": "acme/chat-8b", "gpu": "H100", "gpu_count": 1, "tensor_parallel_size": 1,
        "engine": "vllm", "engine_version": "0.32.0", "dataset": dataset, "evidence": "simulated",
        "concurrency": load, "load_profile": "concurrent", "spec_method": "none", "temperature": 0.0,
    }  # fmt: skip
    drafted = {"spec_method": "draft_model", "num_speculative_tokens": k, "draft_model": "acme/draft"}  # fmt: skip
    return said | (drafted if k else {})


def request(
    messages: str | Sequence[Mapping[str, str]], times: tuple[float, float, float], prompt: int, output: int,
    **told: Any,
) -> dict[str, Any]:  # fmt: skip
    """A completed request. ``messages``: a chat, or its one prompt; ``times``: when it began, and its first and
    last token came; ``told``: what else its ``info`` says."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body = {"messages": messages, "max_tokens": output, "temperature": 0.0}
    begin, first, last = times
    timings = {"request_start": begin, "first_token_iteration": first, "last_token_iteration": last,
               "token_iterations": output, "request_end": last}  # fmt: skip
    return {
        "request_args": json.dumps({"body": body}), "info": {"status": "completed", "timings": timings} | told,
        "prompt_tokens": prompt, "output_tokens": output,
    }  # fmt: skip


def write(
    place: Path, said: Mapping[str, Any], requests: Sequence[dict[str, Any]], started: float
) -> None:
    """Leave a cell as a drop. ``said``: its record."""
    end = max(one["info"]["timings"]["request_end"] for one in requests)
    made = {"successful": len(requests), "errored": 0, "incomplete": 0, "total": len(requests)}
    strategy = {"type_": "concurrent", "streams": said["concurrency"]}
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": strategy, "backend": {"kind": "openai_http"}},
        "scheduler_metrics": {"measure_start_time": started, "measure_end_time": end, "requests_made": made},
        "metrics": {"request_totals": made},
        "requests": {"successful": requests, "errored": [], "incomplete": [], "total": None},
        "start_time": started, "end_time": end, "duration": end - started,
    }  # fmt: skip
    report = {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {},
              "benchmarks": [benchmark], "conclusions": []}  # fmt: skip
    place.mkdir(parents=True)
    (place / "record.json").write_text(json.dumps(said))
    (place / "guidellm.json").write_text(json.dumps(report))
