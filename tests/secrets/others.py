"""A small sample of each format of other load generators, and how its files lie in a folder."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.ingest.readers import (
    test_aiperf,
    test_genai_perf,
    test_inference_perf,
    test_inferencex,
    test_llmd,
    test_llmperf,
    test_sglang,
    test_vllm_files,
)
from tests.secrets.planted import bench, report

#: One value of a file as its bytes.
Encode = Callable[[Any], bytes]
#: libyaml writes a report five times as fast, and the same.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Other:
    """Files by their names, the result first: what each holds; ``.jsonl`` and ``lines`` hold one
    value a line."""

    files: dict[str, Any]
    lines: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[int, ...]:
        """How many values each of its files holds."""
        return tuple(
            len(value) if self._is_lines(name) else 1 for name, value in self.files.items()
        )

    def write(self, folder: Path, encode: Encode) -> None:
        """Write the files into a folder, each value as ``encode`` makes it."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in self.files.items():
            (folder / name).write_bytes(self._encoded(name, value, encode))

    def _encoded(self, name: str, value: Any, encode: Encode) -> bytes:
        if self._is_lines(name):
            return b"\n".join(encode(one) for one in value)
        data = encode(value)
        return _as_yaml(data) if name.endswith((".yaml", ".yml")) else data

    def _is_lines(self, name: str) -> bool:
        return name in self.lines or name.endswith(".jsonl")


def _as_yaml(data: bytes) -> bytes:
    """The same in YAML; what is no JSON as it is."""
    try:
        said: str = yaml.dump(json.loads(data), Dumper=_DUMPER, sort_keys=False)
    except (ValueError, RecursionError):
        return data
    return said.encode("utf-8", "replace")


def _aiperf() -> Other:
    return Other(
        {test_aiperf.SUMMARY: test_aiperf.said(), test_aiperf.REQUESTS: test_aiperf.rows()}
    )


def _inference_perf() -> Other:
    stages = test_inference_perf.STAGES
    told = test_inference_perf.stage(stages[0], requested_rate=9.0, concurrency=1)
    return Other(
        {
            "stage_0_lifecycle_metrics.json": told,
            "per_request_lifecycle_metrics.json": stages[0],
            "config.yaml": test_inference_perf.CONFIG,
        }
    )


def _one_level(report: dict[str, Any]) -> dict[str, Any]:
    """A report of its first level alone: the same report in JSON is read by the same code, and YAML
    takes its time."""
    return report | {"benchmarks": report["benchmarks"][:1]}


def _whole(name: str, value: Any) -> Other:
    return Other({name: value})


OTHERS: dict[str, Other] = {
    "sglang": _whole("s.jsonl", [json.loads(json.dumps(test_sglang.line(request_rate=4.0)))]),
    "sglang detailed": _whole(
        "s.jsonl",
        [json.loads(json.dumps(test_sglang.line(True, request_rate=4.0, server_info=test_sglang.SERVER)))],
    ),
    "aiperf": _aiperf(),
    "inference-perf": _inference_perf(),
    "inferencex": _whole("agg_x.json", [test_inferencex.ROW, test_inferencex.PUBLIC]),
    "llm-d 0.1": _whole("report.json", test_llmd.ONE),
    "llm-d 0.2": _whole(
        "report.yaml", json.loads(json.dumps(test_llmd.TWO).replace("Infinity", "12"))
    ),
    "llmperf": Other(
        {
            "x_summary.json": test_llmperf.summary(),
            "x_individual_responses.json": test_llmperf.RESPONSES,
        }
    ),
    "genai-perf": _whole("profile_export_genai_perf.json", test_genai_perf.report(concurrency=3)),
    "vllm append": Other({"a.json": [bench(False), bench(True)]}, ("a.json",)),
    "vllm throughput": _whole("t.json", test_vllm_files.THROUGHPUT),
    "vllm latency": _whole("l.json", test_vllm_files.LATENCY),
    "guidellm yaml": _whole("r.yaml", _one_level(report("g4-0.8.1.json.zst", kept=2))),
}  # fmt: skip
