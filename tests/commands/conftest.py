"""What the tests of commands share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recorded(first_lab: Path) -> tuple[str, str]:
    """--warehouse and the folder into which the first recorded lab run was ingested."""
    return "--warehouse", str(first_lab)
