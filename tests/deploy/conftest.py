"""The small report of the tests of ingest."""

from tests.ingest.conftest import report

__all__ = ["report"]
