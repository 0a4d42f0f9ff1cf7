"""One cell with nothing faked: real vLLM on the CPU, real GuideLLM, the lab's trained models."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.formats.drop import open_drop
from runners.executors import PROGRAM
from tests.runners.conftest import ROOT, lab_executable

pytestmark = [pytest.mark.slow, pytest.mark.alone]

MODELS = ROOT / "studies" / "lab-models"
K = 3


def study(folder: Path) -> Path:
    said: dict[str, Any] = {
        "name": "real",
        "target": {
            "model": str(MODELS / "target"), "served_name": "lab-target", "precision": "bf16",
            "engine_args": {"max-model-len": 512, "max-num-seqs": 32, "enforce-eager": True},
        },
        "arms": [
            {"name": "draft", "num_speculative_tokens": K,
             "speculative_config": {"method": "draft_model", "model": str(MODELS / "draft")}},
        ],
        "datasets": [
            {"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 24},
        ],
        "concurrency": [4],
        "request": {"format": "text_completions", "temperature": 0.0, "max_tokens": 48},
        "window": {"warm_up_requests": 0},
        "executables": {
            "vllm": str(lab_executable("vllm", "vllm")),
            "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1")),
        },
        "environment": {
            "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOG_STATS_INTERVAL": "1",
        },
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(said))
    return path


def rate_of_requests(report: Path) -> float:
    """Accepted / drafted, added up over what vLLM says in each response."""
    requests = json.loads(report.read_text())["benchmarks"][0]["requests"]["successful"]
    said = [request["response_metrics"]["speculative_decoding"] for request in requests]
    drafted = sum(one["num_draft_tokens"] for one in said)
    return float(sum(one["num_accepted_draft_tokens"] for one in said) / drafted)


def rate_of_log(log: Path) -> float:
    """Accepted / drafted, added up over the lines that vLLM prints every second."""
    found = re.findall(r"Accepted: (\d+) tokens, Drafted: (\d+) tokens", log.read_text())
    return sum(int(accepted) for accepted, _ in found) / sum(int(drafted) for _, drafted in found)


def test_acceptance_is_the_same_by_counters_by_requests_and_by_the_log(tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = subprocess.run(
        [*PROGRAM, "run", str(study(tmp_path)), "--results", str(results)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    (cell,) = (results / "real/draft/tp1/code").glob("c4-r0@vllm0.32.0*-guidellm0.8.1")
    drop = open_drop(cell)
    assert drop.before is not None
    assert drop.after is not None
    before, after = drop.before.counters, drop.after.counters
    assert before is not None
    assert after is not None
    drafted = after.draft_tokens - before.draft_tokens
    counted = (after.accepted_tokens - before.accepted_tokens) / drafted

    assert drafted > 24 * K
    assert counted > 0.3  # the draft was trained for this target: acceptance is real
    assert rate_of_requests(cell / "guidellm.json") == pytest.approx(counted, rel=0.02)
    assert rate_of_log(results / "real/logs/r0-draft-tp1.log") == pytest.approx(counted, rel=0.02)
    assert drop.record.prefix_cache == "reset"
    assert drop.record.engine_version is not None
    assert drop.record.engine_version.startswith("0.32.0")
    assert drop.record.evidence == "cpu"
    assert drop.record.environment["resolved"] == {
        "dtype": "torch.bfloat16", "tensor_parallel_size": 1, "method": "draft_model",
        "draft_tokens": K, "rejection_sample_method": "standard", "draft_sample_method": "greedy",
        "parallel_drafting": False, "adaptive_verification": False,
        "disable_eagle_block_drop": False,
    }  # fmt: skip
    assert "stated" not in drop.record.environment
