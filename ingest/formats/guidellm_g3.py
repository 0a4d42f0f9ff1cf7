"""G3a (GuideLLM 0.6) and G3b (0.7): the backend has a block of its own."""

from typing import Any

from ingest.formats.guidellm_adapter import BEFORE_074, SINCE_074, Adapter, at, merged, version
from ingest.formats.guidellm_shape import Benchmark, Report


def _kwargs(report: Report, benchmark: Benchmark) -> dict[str, Any]:
    return merged(at(report.args, "backend_kwargs"), at(benchmark.config, "backend"))


def spec_backend(report: Report, benchmark: Benchmark) -> dict[str, Any]:
    """Return the backend of 0.7 and later: the resolved one of the level over the one asked for."""
    asked = at(report.config, "spec", "backend")
    return merged(asked, at(benchmark.config, "backend"))


def _six(report: Report) -> bool:
    known = report.metadata is not None and report.metadata.version == 1
    return known and isinstance(at(report.args, "backend_kwargs"), dict)


def _seven(report: Report) -> bool:
    known = report.metadata is not None and report.metadata.version == 2
    fits = version(report)[:2] == (0, 7) or not version(report)
    return known and fits and not len(memoryview(report.conclusions)) and report.config is not None


def _definition(report: Report) -> str:
    number = version(report)
    if not number:
        return "unknown"
    return SINCE_074 if number >= (0, 7, 4) else BEFORE_074


G3A = Adapter("G3a", _six, lambda _: BEFORE_074, _kwargs)
G3B = Adapter("G3b", _seven, _definition, spec_backend)
