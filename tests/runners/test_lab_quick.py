"""`make lab LAB=quick`, nothing faked: the study is run, ingested without a rejection, and answers."""

import json
import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from runners.executors import PROGRAM
from tests.runners.conftest import ROOT, lab_executable
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not {0, 1} <= os.sched_getaffinity(0), reason="the lab's studies pin to cores 0 and 1"
    ),
]
STUDY = ROOT / "studies" / "laptop-lab-quick.yaml"


def draftboard(*words: str, warehouse: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | {"DRAFTBOARD_WAREHOUSE": str(warehouse)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick study, measured and taken in."""
    for name, environment in (("vllm", "vllm"), ("guidellm", "guidellm-0.8.1")):
        lab_executable(name, environment)
    folder = tmp_path_factory.mktemp("lab")
    results, place = folder / "results", folder / "warehouse"

    ran = draftboard("run", str(STUDY), "--results", str(results), warehouse=place)
    assert ran.returncode == 0, ran.stderr[-3000:]
    taken = draftboard("ingest", str(results), "--json", warehouse=place)
    assert taken.returncode == 0, taken.stderr[-3000:]
    counts = json.loads(taken.stdout)
    # A cell that GuideLLM did not finish was measured again; both attempts are kept.
    assert counts["accepted"] >= 12
    assert counts["rejected"] == []
    return place


def good(warehouse: Path) -> pd.DataFrame:
    """The good cells by their ids."""
    with Reader(warehouse) as reader:
        cells = queries.cells(reader, Filters()).to_pandas().set_index("cell_id")
    return cells[cells["status"] == "good"]


def test_every_cell_is_good_and_every_speculative_one_has_its_baseline(warehouse: Path) -> None:
    compared = draftboard("compare", "--json", warehouse=warehouse)
    assert compared.returncode == 0, compared.stderr
    said = json.loads(compared.stdout)
    cells = good(warehouse)
    assert len(cells) == 12
    assert all("this cell failed" in one["reason"] for one in said["unmatched"])
    assert set(cells["evidence"]) == {"cpu"}
    assert (cells["completed"] > 0).all()


def test_acceptance_is_real_and_its_sources_agree(warehouse: Path) -> None:
    with Reader(warehouse) as reader:
        known = queries.acceptance(reader, Filters()).to_pandas()
        places = queries.acceptance_by_position(reader, Filters()).to_pandas()
    cells = good(warehouse)
    known = known[known["cell_id"].isin(cells.index)]
    rates = known.pivot_table(index="cell_id", columns="source", values="rate")
    speculative = cells[cells["spec_method"] != "none"].index
    assert set(rates.index) == set(speculative)
    assert (abs(rates["counters"] / rates["requests"] - 1) <= 0.02).all()

    drafts = cells[cells["spec_method"] == "draft_model"]
    mean = rates["counters"].groupby(drafts["dataset"].reindex(rates.index)).mean()
    assert 0.2 < mean["prose"] < mean["structured"] < 1
    mine = places[(places["source"] == "counters") & places["cell_id"].isin(drafts.index)]
    by_place = mine.pivot_table(index="cell_id", columns="position", values="rate")
    assert (by_place.diff(axis=1).iloc[:, 1:] <= 0).all().all()


def test_the_run_can_be_asked_again_and_measures_nothing(warehouse: Path) -> None:
    results = warehouse.parent / "results"
    again = draftboard("run", str(STUDY), "--results", str(results), warehouse=warehouse)
    assert again.returncode == 0
    assert "12 good already, 0 to run" in again.stderr
