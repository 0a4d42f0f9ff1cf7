"""What the tests of commands share."""

import pytest

from tests.commands.asking import run
from tests.conftest import RECORDED


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """--warehouse and the folder into which the first recorded lab run was ingested."""
    path = tmp_path_factory.mktemp("recorded") / "warehouse"
    result = run("ingest", str(RECORDED), "--warehouse", str(path))
    assert result.exit_code == 0, result.output
    return "--warehouse", str(path)
