"""G2a (GuideLLM 0.4, no metadata) and G2b (0.5): request_args is a Python literal."""

from typing import Any

from ingest.formats.guidellm_adapter import BEFORE_074, Adapter, at, merged
from ingest.formats.guidellm_shape import Benchmark, Report


def _backend(report: Report, benchmark: Benchmark) -> dict[str, Any]:
    formatter = at(report.args, "data_request_formatter")
    named = {"request_format": formatter} if isinstance(formatter, str) else formatter
    own = {"model": at(report.args, "model")}
    found = merged(own, named, at(benchmark.config, "backend"))
    return {"request_format": found.get("request_type"), **found}


def _old(report: Report) -> bool:
    return report.metadata is None and report.args is not None


def _metadata_one(report: Report) -> bool:
    known = report.metadata is not None and report.metadata.version == 1
    return known and "target" in (report.args or {})


G2A = Adapter("G2a", _old, lambda _: BEFORE_074, _backend)
G2B = Adapter("G2b", _metadata_one, lambda _: BEFORE_074, _backend)
