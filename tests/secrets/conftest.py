"""The fixtures of the tests of ingest: small samples, a place for files, the command."""

from tests.ingest.conftest import bench, report, run, write

__all__ = ["bench", "report", "run", "write"]
