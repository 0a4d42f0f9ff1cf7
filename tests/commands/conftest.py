"""What the tests of commands share."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from warehouse.rows import Measurement
from warehouse.store import open_writer

FIRST = datetime(2026, 1, 2, 20, tzinfo=UTC)
#: Tokens per second of both arms; eagle3 becomes slower on the 6th.
NIGHTS = {"none": [1000.0] * 6, "eagle3": [1500.0, 1501.0, 1499.0, 1500.0, 1200.0, 1201.0]}


@pytest.fixture(scope="session")
def recorded(first_lab: Path) -> tuple[str, str]:
    """--warehouse and the folder into which the first recorded lab run was ingested."""
    return "--warehouse", str(first_lab)


@pytest.fixture
def place(tmp_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]) -> Path:
    """Six nights of two arms in one study."""
    with open_writer(tmp_path) as writer:
        for method, speeds in NIGHTS.items():
            for night, speed in enumerate(speeds):
                facts = {"spec_method": method, "num_speculative_tokens": 3, "study": "lab"}
                cell = make_cell(
                    source := make_source(f"{method}-{night}"), 0, 1.0, facts,
                    started_at=FIRST + timedelta(days=night),
                    measurements=(Measurement("canonical", "output_throughput", "mean", speed),),
                )  # fmt: skip
                writer.add(source, iter([cell]))
        writer.commit()
    return tmp_path
