"""Several kinds of prompts in one run, nothing faked: each is accepted as in a run of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runners.texts import generators
from tests.runners.conftest import lab_executable, told
from tests.runners.test_run_vllm import study
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = pytest.mark.long

KINDS, EACH = ("code", "structured", "prose"), 24


def mixed(folder: Path) -> Path:
    """The prompts of three kinds as one dataset with their kinds, and the same prompts kind by kind."""
    rows = [
        {"question_id": f"{kind}-{number}", "category": kind, "turns": [text]}
        for kind in KINDS
        for number, text in enumerate(list(generators.prompts(kind, 150, 320))[:EACH])
    ]
    (folder / "kinds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = yaml.safe_load(study(folder).read_text())
    of_rows = {"file": "kinds.jsonl", "field": "turns.0"}
    said["arms"] = [{"name": "baseline"}, *said["arms"]]
    said["datasets"] = [
        {
            "name": "mixed",
            "category": "category",
            "prompts_per_level": EACH * len(KINDS),
            **of_rows,
        },
        {"name": "own", "categories": list(KINDS), "prompts_per_level": EACH, **of_rows},
    ]
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(said))
    return path


def test_a_mixed_run_accepts_of_each_kind_what_a_run_of_that_kind_does(tmp_path: Path) -> None:
    for name, environment in (("vllm", "vllm"), ("guidellm", "guidellm-0.8.1")):
        lab_executable(name, environment)
    warehouse, results = tmp_path / "warehouse", tmp_path / "results"
    told(warehouse, "run", str(mixed(tmp_path)), "--results", str(results))
    told(warehouse, "ingest", str(results))

    answer: dict[str, Any] = json.loads(told(warehouse, "compare", "--by", "category", "--json"))
    (setting,) = answer["settings"]
    assert setting["dataset"] == "mixed"
    (at,) = setting["loads"]
    by_kind = {one["kind"]: one for one in at["arms"]}
    assert sorted(by_kind) == sorted(KINDS)
    with Reader(warehouse) as reader:
        cells = queries.cells(reader, Filters()).to_pandas().set_index("cell_id")
        accepted = queries.acceptance(reader, Filters()).to_pandas()
    own = accepted[accepted["source"] == "counters"].set_index("cell_id").join(cells["dataset"])
    for kind in KINDS:
        (alone,) = own.loc[own["dataset"] == f"own-{kind}", "mean_length"]
        found = by_kind[kind]
        assert found["length_low"] <= alone <= found["length_high"], (kind, alone, found)
        assert (found["requests"], found["prompts"]) == (EACH, EACH)
        # One launch tells what was gained, and nothing of how sure that is.
        assert found["itl"]["launches"] == 1
        assert found["itl"]["low"] is None
    # The lab's draft was trained for this: logs and records are easier than prose, beyond counting.
    assert by_kind["structured"]["length_low"] > by_kind["prose"]["length_high"]
    assert sum(one["share"] for one in at["shares"]) == pytest.approx(1.0)
    assert at["one"]["answer"] == "unknown"
