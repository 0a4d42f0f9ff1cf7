"""Sessions on the lab, nothing faked: later turns find in the prefix cache what was said before, and wait less for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runners.conftest import ROOT, lab_executable, told
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = pytest.mark.long
STUDY = ROOT / "studies" / "lab-sessions.yaml"
NAMES = ("ttft_first_turn", "ttft_later_turns", "prefix_cache_hit_rate")


def test_later_turns_find_what_was_said_before_in_the_prefix_cache(tmp_path: Path) -> None:
    for name, environment in (("vllm", "vllm"), ("guidellm", "guidellm-0.8.1")):
        lab_executable(name, environment)
    warehouse, results = tmp_path / "warehouse", tmp_path / "results"
    told(warehouse, "run", str(STUDY), "--results", str(results))
    told(warehouse, "ingest", str(results))

    with Reader(warehouse) as reader:
        cells = queries.cells(reader, Filters()).to_pandas().set_index("cell_id")
        found = queries.measurements(reader, Filters(), NAMES, ("mean",)).to_pandas()
        requests = [queries.requests(reader, cell).to_pandas() for cell in cells.index]
    assert len(cells) == 16
    assert {tuple(sorted(one["turn"].value_counts().items())) for one in requests} == {
        ((1, 10), (2, 10), (3, 10)), ((1, 24), (2, 24), (3, 24)),
    }  # fmt: skip
    means = found.pivot(index="cell_id", columns="metric", values="value")
    known = means.join(cells[["prefix_caching", "arm_label", "concurrency"]])
    cached = known["prefix_caching"].astype(object) != False  # noqa: E712
    assert (known.loc[cached, "prefix_cache_hit_rate"] > 0.2).all()
    assert not (known.loc[~cached, "prefix_cache_hit_rate"] > 0).any()
    later = known.groupby([cached, "arm_label", "concurrency"])["ttft_later_turns"].mean()
    assert (later[True] < later[False]).all(), later

    answer: dict[str, Any] = json.loads(told(warehouse, "compare", "--by", "turn", "--json"))
    assert len(answer["settings"]) == 2
    for at in (at for setting in answer["settings"] for at in setting["loads"]):
        assert [one["kind"] for one in at["arms"]] == ["turn 1", "turn 2", "turn 3"]
        assert {one["itl"]["launches"] for one in at["arms"]} == {2}
        # The lab's draft was trained for this: it gains on structured text, whichever turn it is.
        assert all(one["itl"]["improvement"] > 0 for one in at["arms"])
