"""G4: GuideLLM 0.8; adds conclusions, warnings and the server's per-request metrics."""

from ingest.formats.guidellm_adapter import SINCE_074, Adapter, version
from ingest.formats.guidellm_g3 import spec_backend
from ingest.formats.guidellm_shape import Report


def _eight(report: Report) -> bool:
    known = report.metadata is not None and report.metadata.version == 2
    fits = version(report)[:2] == (0, 8) or not version(report)
    return known and fits and len(memoryview(report.conclusions)) > 0


ADAPTER = Adapter("G4", _eight, lambda _: SINCE_074, spec_backend)
