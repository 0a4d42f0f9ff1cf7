"""A generation newer than those known: read by structure, and marked so."""

from typing import Any

from ingest.formats.guidellm_adapter import Adapter, at, merged
from ingest.formats.guidellm_g3 import spec_backend
from ingest.formats.guidellm_shape import Benchmark, Report
from warehouse.rows import Flag

FLAG = Flag(
    "unknown_report_version", "warning",
    "The report's version is not known; it was read by its structure and may mean something else.",
)  # fmt: skip


def _backend(report: Report, benchmark: Benchmark) -> dict[str, Any]:
    return merged(at(report.args, "backend_kwargs"), spec_backend(report, benchmark))


ADAPTER = Adapter("unknown", lambda _: True, lambda _: "unknown", _backend, default_format=None)
