"""Every page says which runs its answer leaves out, in one place of the frame."""

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from answers.runs import read
from dashboard.shelf import ask, open_shelf
from warehouse.annotations import add, annotation
from warehouse.filters import Filters

APP = Path(__file__).parents[2] / "dashboard" / "frame.py"


@pytest.fixture
def own(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the filled warehouse, to write on, as the one that the dashboard opens."""
    root = tmp_path / "own"
    shutil.copytree(filled, root)
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(root))
    return root


def _exclude(root: Path, count: int) -> None:
    for run in ask(open_shelf(), read.runs, Filters()).runs[:count]:
        add(root, annotation("exclude", run.target, "GPU throttled **x**", "Ann"))


def _captions(page: AppTest) -> str:
    assert not page.exception, page.exception
    return "\n".join(element.value for element in page.caption)


def test_the_frame_says_how_many_runs_are_left_out_and_why(own: Path) -> None:
    page = AppTest.from_file(APP, default_timeout=60).run()
    assert "excluded by name" not in _captions(page)

    _exclude(own, 2)
    page.run()

    assert r"2 runs are excluded by name\: GPU throttled \*\*x\*\* \(" in _captions(page)
    page.multiselect(key="gpu").set_value(["H200"])
    page.run()
    assert "1 run is excluded by name" in _captions(page)


def test_a_warehouse_whose_runs_are_all_excluded_is_not_called_empty(own: Path) -> None:
    _exclude(own, 99)

    page = AppTest.from_file(APP, default_timeout=60).run()

    assert "take one back on the page Data" in page.info[0].value
