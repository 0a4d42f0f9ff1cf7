"""The small report of the tests of ingest, and the nights of the tests of commands."""

from tests.commands.conftest import place
from tests.ingest.conftest import report

__all__ = ["place", "report"]
