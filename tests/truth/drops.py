"""Generated studies as the files that load generators and runners leave behind."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from tests.truth.frames import (
    AT_A_RATE,
    FACTS,
    MADE,
    OUTPUT,
    PROMPT,
    arm_facts,
    cell_rows,
    cells_of,
)
from tests.truth.studies import Drawn

#: A cell holds at least so many requests, and each stream at least two.
FEWEST, WAVES = 8, 2
#: Kinds of load that are a rate.
RATES = ("constant", "poisson")
#: Requests that a sampled report keeps.
KEPT = 1
_RECORDED = ("study", "model", "repeat", "launch")


@dataclass(frozen=True)
class One:
    """One cell: what its record says, and its seconds."""

    facts: dict[str, Any]
    arm: int
    asked: float
    started: float
    latency: float
    first: float
    throughput: float

    @property
    def itl(self) -> float:
        return (self.latency - self.first) / (OUTPUT - 1)


def write_studies(trials: Drawn, folder: Path) -> None:
    """Every cell of every study, as its kind is written."""
    for number, one in enumerate(_cells(trials)):
        if trials.family.kind == "vllm bench":
            name = f"{one.facts['study']}/arm-{one.arm}/{number}.json"
            _write(folder / name, _bench(one))
        else:
            write_drop(one, folder / str(one.facts["study"]) / f"{number}", trials.family.kind)


def write_drop(one: One, place: Path, kind: str = "closed") -> None:
    """A cell as the runner leaves it: its record, and GuideLLM's report."""
    _write(place / "record.json", {"schema_version": 1, **one.facts})
    _write(place / "guidellm.json", _report(one, kind))


def _cells(trials: Drawn) -> Iterator[One]:
    found, rows = cells_of(trials), cell_rows(trials, 0)
    for place, row in enumerate(rows.to_dict("records")):
        facts = {**FACTS, **{name: row[name] for name in _RECORDED if row[name] == row[name]}}
        arm = int(found.arm[place])
        stated = {
            k: v for k, v in arm_facts(arm, trials.family.methods).items() if k != "arm_label"
        }
        if stated:
            stated["speculative_config"] = json.loads(stated["speculative_config"])
        yield One(
            {**facts, "spec_method": "none", **stated}, arm, float(found.asked[place]),
            row["started_at"].timestamp(), float(found.latency[place]), float(found.first[place]),
            float(found.throughput[place]),
        )  # fmt: skip


def _write(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _starts(one: One, kind: str) -> list[float]:
    """Seconds after the cell's start: streams without a pause, or one request after the other."""
    if kind in RATES:
        return [number / one.asked for number in range(AT_A_RATE)]
    streams = int(one.asked)
    waves = max(WAVES, ceil(FEWEST / streams))
    return [wave * one.latency for wave in range(waves) for _ in range(streams)]


def _report(one: One, kind: str) -> dict[str, Any]:
    starts = [one.started + start for start in _starts(one, kind)]
    end = max(starts) + one.latency
    sampled = kind == "sampled"
    kept = starts[:KEPT] if sampled else starts
    made = {"successful": MADE if sampled else len(starts), "errored": 0, "incomplete": 0}
    made["total"] = made["successful"]
    strategy = {"type_": kind, "rate": one.asked} if kind in RATES else {
        "type_": "concurrent", "streams": int(one.asked)}  # fmt: skip
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": strategy, "backend": {"kind": "openai_http"}},
        "scheduler_metrics": {"measure_start_time": one.started, "measure_end_time": end,
                              "requests_made": made},
        "metrics": {"request_totals": made, **_reported(one, kind)},
        "requests": {"successful": [_request(one, n, start) for n, start in enumerate(kept)],
                     "errored": [], "incomplete": [], "total": None},
        "start_time": one.started, "end_time": end, "duration": end - one.started,
    }  # fmt: skip
    metadata = {"version": 2, "guidellm_version": "0.8.1"}
    return {"metadata": metadata, "config": {}, "benchmarks": [benchmark], "conclusions": []}


def _request(one: One, number: int, start: float) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": f"Question {number} at {one.asked:g}?"}],
            "max_tokens": OUTPUT, "temperature": 0.0, "ignore_eos": True}  # fmt: skip
    timings = {
        "request_start": start, "first_token_iteration": start + one.first,
        "last_token_iteration": start + one.latency, "token_iterations": OUTPUT,
        "request_end": start + one.latency,
    }  # fmt: skip
    return {
        "request_args": json.dumps({"body": body}),
        "info": {"status": "completed", "timings": timings},
        "input_metrics": {"text_tokens": PROMPT, "total_tokens": PROMPT},
        "output_metrics": {"text_tokens": OUTPUT, "total_tokens": OUTPUT},
        "prompt_tokens": PROMPT, "output_tokens": OUTPUT,
    }  # fmt: skip


def _reported(one: One, kind: str) -> dict[str, Any]:
    """What a report that keeps few requests says of all; the others are recomputed."""
    if kind != "sampled":
        return {}
    told = {
        "output_tokens_per_second": {"mean": one.throughput},
        "tokens_per_second": {"mean": one.throughput * (OUTPUT + PROMPT) / OUTPUT},
        "time_to_first_token_ms": {"percentiles": {"p95": one.first * 1e3}},
        "inter_token_latency_ms": {"percentiles": {"p95": one.itl * 1e3}},
        "time_per_output_token_ms": {"percentiles": {"p95": one.latency / OUTPUT * 1e3}},
        "request_latency": {"median": one.latency},
        "output_token_count": {"mean": float(OUTPUT)},
    }
    return {name: {"successful": summary} for name, summary in told.items()}


def _bench(one: One) -> dict[str, Any]:
    """A default file of ``vllm bench serve``: medians and P99, no requests, no server start."""
    requests = FEWEST * int(one.asked)
    duration = requests * OUTPUT / one.throughput
    latencies = {"ttft": one.first * 1e3, "tpot": one.itl * 1e3, "itl": one.itl * 1e3}
    ended = datetime.fromtimestamp(one.started + duration, UTC)
    return {
        "date": f"{ended:%Y%m%d-%H%M%S}", "endpoint_type": "openai-chat",
        "backend": "openai-chat", "label": None, "model_id": one.facts["model"],
        "tokenizer_id": "tokens", "num_prompts": requests, "request_rate": "inf",
        "burstiness": 1.0, "max_concurrency": int(one.asked), "duration": duration,
        "completed": requests, "failed": 0, "total_input_tokens": requests * PROMPT,
        "total_output_tokens": requests * OUTPUT, "request_throughput": requests / duration,
        "request_goodput": None, "output_throughput": one.throughput,
        "total_token_throughput": one.throughput * (OUTPUT + PROMPT) / OUTPUT,
        **{f"{which}_{name}_ms": value for name, value in latencies.items()
           for which in ("mean", "median", "p99")}, **_drafted(one.arm),
    }  # fmt: skip


def _drafted(k: int) -> dict[str, Any]:
    """What the bench adds where the server drafts: half of all tokens are accepted."""
    if not k:
        return {}
    drafts = 1000
    return {
        "spec_decode_num_drafts": drafts, "spec_decode_draft_tokens": drafts * k,
        "spec_decode_accepted_tokens": drafts * k // 2, "spec_decode_acceptance_rate": 50.0,
        "spec_decode_acceptance_length": 1 + k / 2,
        "spec_decode_per_position_acceptance_rates": [0.5] * k,
    }  # fmt: skip
