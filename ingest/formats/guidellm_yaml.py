"""A GuideLLM report in YAML: the same report as in JSON, but slower to read."""

from dataclasses import replace
from pathlib import Path

import msgspec

from ingest.formats import guidellm
from ingest.model import Context, FileContent, Parsed
from ingest.stated import cut_off, head_of, load_report
from warehouse.errors import InvalidInput

NAME, KIND = "guidellm-yaml", "a GuideLLM report in YAML"


def sniff(data: memoryview) -> bool:
    """Recognise a mapping with ``benchmarks`` and what a report has in or beside them: its keys are
    sorted."""
    head = b"\n" + head_of(data, 1 << 20)
    marks = (b"\nargs:", b"\nconfig:", b"\nmetadata:", b"inter_token_latency_ms:")
    beside = any(mark in head for mark in marks)
    return head[1:2] != b"{" and b"\nbenchmarks:" in head and beside


def is_by_product(path: Path) -> bool:
    """Return whether the same report lies beside the file in JSON."""
    return path.suffix in (".yaml", ".yml") and path.with_suffix(".json").is_file()


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a report. Raises InvalidInput."""
    said = load_report(content.data, KIND)
    benchmarks, named = said.get("benchmarks"), "metadata" in said or "args" in said
    # Every release writes these: with its keys sorted or as they are, a benchmark ends after one of
    # them, and a report of 0.4 or later names itself beside them.
    if isinstance(benchmarks, list) and any(
        isinstance(one, dict)
        and not ({"type_", "duration"} <= one.keys() and (named or "args" in one))
        for one in benchmarks
    ):
        raise cut_off(KIND)
    try:
        data = msgspec.json.encode(said)
    except TypeError as error:
        raise InvalidInput(
            f"This GuideLLM report in YAML holds what no report holds ({error}): export it as JSON."
        ) from None
    return replace(guidellm.parse(replace(content, data=memoryview(data)), context), format=NAME)
