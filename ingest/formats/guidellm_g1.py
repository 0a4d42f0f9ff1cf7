"""G1: GuideLLM 0.2 and 0.3; sampling parameters are not stored, the endpoint stands per request."""

from ingest.formats.guidellm_adapter import BEFORE_04, Adapter
from ingest.formats.guidellm_shape import Benchmark, Report


def _backend(_: Report, benchmark: Benchmark) -> dict[str, object]:
    return {"model": (benchmark.worker or {}).get("backend_model")}


ADAPTER = Adapter(
    generation="G1",
    matches=lambda report: report.benchmarks[0].run_stats is not None,
    definition=lambda _: BEFORE_04,
    backend=_backend,
    default_format="text_completions",
)
