"""Files of load generators that hold too little: named, with what to give instead."""

import re
from collections.abc import Callable
from pathlib import Path

from ingest.formats import aiperf
from ingest.model import Context, FileContent, Parsed
from ingest.stated import head_of, starts_object
from warehouse.errors import InvalidInput

NAME, KIND = "not-read", ""

#: What AIPerf writes of several runs: the same numbers once more.
_SUMMARY = re.compile(r"profile_export_aiperf_(sweep|aggregate)\.(json|csv)")
_ONE_RUN = "profile_export_aiperf.json"
_GENAI_PERF = ("profile_export.json", "inputs.json", "profile_export_genai_perf.csv")


#: What a file is, what it lacks, what to give instead, and whether a head is that of one.
_KINDS: tuple[tuple[str, str, str, Callable[[bytes], bool]], ...] = (
    (
        "AIPerf's own summary of several runs", "it repeats what the report of each of them says",
        f"these ({_ONE_RUN} of each run), or the folder that holds them",
        aiperf.is_summary,
    ),
    (
        "the CSV of a GuideLLM run", "it holds no requests, and other columns in each release",
        "the JSON report (guidellm … --output kind=json, benchmarks.json)",
        lambda head: head.startswith((b"Run Info,", b'"Run Info",', b"Type,Run Id,")),
    ),
    (
        "the CSV of an AIPerf or GenAI-Perf run", "it does not say what was asked of the server",
        "the JSON beside it (profile_export_aiperf.json, profile_export_genai_perf.json)",
        lambda head: re.match(rb'"?Metric"?,"?avg"?,', head) is not None,
    ),
    (
        "the raw requests of Triton's perf analyzer", "its tokens are not counted",
        "the report that GenAI-Perf made of it (profile_export_genai_perf.json)",
        lambda head: starts_object(head, b"experiments", b"response_timestamps"),
    ),
    (
        "the raw exchanges of an AIPerf run", "its tokens are not counted",
        "its report (profile_export_aiperf.json) with profile_export.jsonl beside it",
        lambda head: starts_object(head, b"metadata", b"start_perf_ns")
        and not aiperf.is_line(head),
    ),
    (
        "the requests of an LLMPerf run", "it does not say what was asked of the server",
        "the …_summary.json beside it, which takes them in",
        lambda head: head[:1] == b"[" and b'"end_to_end_latency_s"' in head and b'"ttft_s"' in head,
    ),
    (
        "a vLLM result in the format of PyTorch's benchmarks", "it holds a part of the result",
        "the result itself (--save-result, --output-json)",
        lambda head: head[:1] == b"[" and b'"vLLM benchmark"' in head,
    ),
    (
        "a result of SGLang's bench_one_batch", "it measures one batch without a load",
        "the result of sglang.bench_serving",
        lambda head: starts_object(head, b"run_name", b"batch_size", b"prefill_latency")
        or starts_object(head, b"run_name", b"batch_size", b"last_ttft"),
    ),
    (
        "a result of SGLang's bench_offline_throughput", "it measures no latency and no load",
        "the result of sglang.bench_serving",
        lambda head: starts_object(head, b"successful_requests", b"total_latency", b"backend"),
    ),
)  # fmt: skip


def sniff(data: memoryview) -> bool:
    """Recognise any of the kinds of files that hold too little."""
    return bool(_kinds(data))


def is_by_product(path: Path) -> bool:
    """Return whether a file is a CSV whose report lies beside it, what GenAI-Perf made its report
    from, or the summary of runs that lie around it."""
    if is_summary(path):
        return next(path.parent.parent.rglob(_ONE_RUN), None) is not None
    if path.suffix == ".csv":
        return path.with_suffix(".json").is_file()
    return path.name in _GENAI_PERF and path.with_name("profile_export_genai_perf.json").is_file()


def is_summary(path: Path) -> bool:
    """Return whether a file repeats several results, by its name."""
    return _SUMMARY.fullmatch(path.name) is not None


def parse(content: FileContent, context: Context) -> Parsed:
    """Raise InvalidInput, which says what to give instead."""
    what, lacks, instead = _kinds(content.data)[0]
    raise InvalidInput(f"This is {what}: {lacks}; give {instead}.")


def _kinds(data: memoryview) -> list[tuple[str, str, str]]:
    head = head_of(data)
    return [(what, lacks, instead) for what, lacks, instead, is_one in _KINDS if is_one(head)]
