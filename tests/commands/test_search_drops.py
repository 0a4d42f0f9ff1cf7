"""What a search sees of drops that were set aside, or measured again."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from commands.running.search_study import _ingest
from tests.conftest import RECORDED
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader


@pytest.fixture
def drops(tmp_path: Path) -> Path:
    """Two drops of a study, of three loads each."""
    place = tmp_path / "results" / "mine"
    for name, drop in zip(
        ("first", "second"), sorted((RECORDED / "baseline").iterdir()), strict=True
    ):
        shutil.copytree(drop, place / name)
    return place


def seen(warehouse: Path) -> Counter[str]:
    """How many cells of each drop a warehouse holds."""
    with Reader(warehouse) as reader:
        cells = queries.cells(reader, Filters()).to_pylist()
    return Counter(Path(cell["path"]).name for cell in cells)


def test_a_drop_that_was_set_aside_counts_no_more(drops: Path, tmp_path: Path) -> None:
    _ingest(drops, tmp_path / "w")
    assert seen(tmp_path / "w") == {"first": 3, "second": 3}

    (drops / "first").rename(tmp_path / "aside")
    _ingest(drops, tmp_path / "w")

    assert seen(tmp_path / "w") == {"second": 3}


def test_a_cell_that_was_measured_again_counts_once(drops: Path, tmp_path: Path) -> None:
    _ingest(drops, tmp_path / "w")
    record = drops / "first" / "record.json"
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {"attempt": 2}))

    for _ in range(2):
        _ingest(drops, tmp_path / "w")

    assert seen(tmp_path / "w") == {"first": 3, "second": 3}
