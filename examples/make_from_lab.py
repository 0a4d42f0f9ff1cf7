"""Makes ``examples/lab-first/`` from the laptop lab's recordings: ``python examples/make_from_lab.py SAMPLES``.

SAMPLES holds one folder for each arm and dataset (base-code, k3-code, …), each with GuideLLM's
``benchmarks.json`` and ``metrics-samples.jsonl``. Texts become hashes; nothing else of a report changes.
"""

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import zstandard

from ingest.redact import redact
from warehouse.contract import Record

STUDY = "lab-first"
TARGET = Path(__file__).parent / STUDY
DATASETS = ("code", "structured")
ARMS: dict[str, dict[str, Any]] = {
    "base": {"arm": "baseline", "spec_method": "none"},
    "k3": {
        "arm": "draft-model-k3",
        "spec_method": "draft_model",
        "num_speculative_tokens": 3,
        "draft_model": "draftboard-lab draft (0.45M Llama)",
    },
}
COMMON: dict[str, Any] = {
    "schema_version": 1,
    "study": STUDY,
    "repeat": 0,
    "model": "draftboard-lab target (4.7M Llama)",
    "precision": "bf16",
    "engine": "vllm",
    "engine_version": "0.32.0",
    "gpu": "CPU (2 cores)",
    "gpu_count": 1,
    "tensor_parallel_size": 1,
    "prefix_caching": False,
    "server_args": {"max_model_len": 512, "max_num_seqs": 32, "enforce_eager": True},
    "evidence": "cpu",
    "report": "guidellm.json.zst",
    "provenance": (
        "Recorded from vLLM 0.32.0 serving a target and a draft trained from nothing in minutes on "
        "two CPU cores: acceptance is real, latencies and throughputs mean nothing for GPUs. "
        "Texts were replaced by hashes."
    ),
}


def moment(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def record(report: dict[str, Any], arm: str, dataset: str) -> str:
    """The text of ``record.json``, checked against the contract."""
    levels = [level["scheduler_metrics"] for level in report["benchmarks"]]
    facts = COMMON | ARMS[arm] | {
        "dataset": dataset,
        "run_id": f"{STUDY}/{ARMS[arm]['arm']}/{dataset}",
        "started_at": moment(levels[0]["start_time"]),
        "ended_at": moment(levels[-1]["end_time"]),
        "environment": {"load_generator": report["metadata"]},
    }  # fmt: skip
    Record.model_validate(facts)
    return json.dumps(facts, indent=2) + "\n"


def thinned(lines: list[str]) -> list[str]:
    """Of every stretch in which no counter moved, only its two ends."""
    counters = [json.loads(line)[1] for line in lines]
    moved = [False, *(a != b for a, b in pairwise(counters)), False]
    edge = {0, len(lines) - 1}
    return [x for i, x in enumerate(lines) if i in edge or moved[i] or moved[i + 1]]


def write_drop(source: Path, arm: str, dataset: str) -> Path:
    """One drop: record, redacted report, counter samples."""
    folder = TARGET / ARMS[arm]["arm"] / dataset
    folder.mkdir(parents=True, exist_ok=True)
    report = (source / "benchmarks.json").read_bytes()
    compressed = zstandard.ZstdCompressor(level=19).compress(redact(report))
    (folder / "guidellm.json.zst").write_bytes(compressed)
    lines = (source / "metrics-samples.jsonl").read_text(encoding="utf-8").splitlines()
    samples = "\n".join(thinned(lines)) + "\n"
    (folder / "metrics-samples.jsonl").write_text(samples, encoding="utf-8")
    text = record(json.loads(report), arm, dataset)
    (folder / "record.json").write_text(text, encoding="utf-8")
    return folder


@click.command()
@click.argument("samples", type=click.Path(exists=True, file_okay=False, path_type=Path))
def make(samples: Path) -> None:
    """Write the drops below examples/ from the recordings in SAMPLES."""
    for arm in ARMS:
        for dataset in DATASETS:
            click.echo(write_drop(samples / f"{arm}-{dataset}", arm, dataset))


if __name__ == "__main__":
    make()
