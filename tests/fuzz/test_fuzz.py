"""The fuzzer finds what breaks ingest, and what broke it once does so no more."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ingest.nursery import nursery
from tests.fuzz import sums
from tests.fuzz.mutate import mutated
from tests.fuzz.samples import SAMPLES, changed, unchanged
from tests.fuzz.tries import Tally, known, one_batch
from tests.secrets.others import OTHERS

ROOT = Path(__file__).parents[2]
CRASHERS = sorted(
    path for path in (Path(__file__).parent / "crashers").glob("*/*") if path.name != ".gitkeep"
)


@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_broke_ingest_once_is_one_answer(run: Any, path: Path) -> None:
    done = run(path, "--json")
    answer = done.json
    assert answer["accepted"] + len(answer["rejected"]) == 1
    assert all(refused["reason"].endswith(".") for refused in answer["rejected"])


def test_the_same_seed_makes_the_same_changes() -> None:
    sample = {"a": [1, 2.5, {"b": "text"}], "c": None}
    first, second = (
        [mutated(sample, random.Random(seed)) for seed in range(200)] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) > 100
    assert sample == {"a": [1, 2.5, {"b": "text"}], "c": None}


def test_of_a_result_of_many_files_and_lines_one_value_is_changed(tmp_path: Path) -> None:
    source, sample = random.Random(5), OTHERS["aiperf"]
    sample.write(tmp_path / "whole", unchanged)
    touched = set()
    for number in range(40):
        sample.write(tmp_path / str(number), changed(source, sample.parts))
        for name in sample.files:
            pairs = zip(
                (tmp_path / "whole" / name).read_bytes().split(b"\n"),
                (tmp_path / str(number) / name).read_bytes().split(b"\n"),
                strict=False,
            )
            touched |= {(number, name) for whole, other in pairs if whole != other}
    assert {name for _, name in touched} == set(sample.files)
    assert len(touched) == len({number for number, _ in touched}) > 30


def test_a_run_adds_to_what_all_runs_came_to(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    empty = "<!-- fuzzed: make fuzz adds to it -->\n<!-- end of what make fuzz adds to -->"
    document.write_text(f"before\n{empty}\nafter\n", "utf-8")
    for _ in range(2):
        sums.add(document, {"a b": Tally(1000, 600, 400, ["x"], ["y", "z"], 1.6)})
    said = document.read_text("utf-8")
    assert said.startswith("before\n")
    assert said.endswith("\nafter\n")
    assert "| a b | 2,000 | 1,200 | 800 | 4 | 2 | 4 |" in said
    assert "| all | 2,000 | 1,200 | 800 | 4 | 2 | 4 |" in said


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_read_before_it_is_changed(name: str) -> None:
    assert known(name).numbers


#: FAKE: a mistake planted in the process that reads, which is one of its own.
CARELESS = """
import os, sys
if "ingest.nursery" in " ".join(sys.orig_argv):
    sys.path.insert(0, {root!r})
    from ingest.formats import vllm_bench

    def careless(bench):
        if bench.duration <= 0 or bench.completed <= 0:
            os.abort()

    vllm_bench._check = careless
"""


def test_a_reader_that_breaks_is_found_and_what_broke_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = known("vllm bench")
    (tmp_path / "sitecustomize.py").write_text(CARELESS.format(root=str(ROOT)), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    nursery().close()
    source, found = random.Random(1), []
    for _ in range(8):
        found += one_batch("vllm bench", source, tmp_path, usual).crashes
    nursery().close()
    assert found
    assert all("its reader ended" in told for told in found)
    kept = list((tmp_path / "crashers" / "vllm-bench").iterdir())
    assert kept
    assert json.loads(kept[0].read_bytes()) is not None
