"""The fuzzer finds what breaks ingest, and what broke it once does so no more."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import vllm_bench
from tests.fuzz.mutate import mutated
from tests.fuzz.samples import SAMPLES
from tests.fuzz.tries import known, one_batch

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


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_read_before_it_is_changed(name: str) -> None:
    assert known(name).numbers


def test_a_reader_that_breaks_is_found_and_what_broke_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = known("vllm bench")

    def careless(bench: Any) -> None:
        if bench.duration <= 0 or bench.completed <= 0:
            raise KeyboardInterrupt("a mistake of a reader")

    monkeypatch.setattr(vllm_bench, "_check", careless)
    source, found = random.Random(1), []
    for _ in range(8):
        found += one_batch("vllm bench", source, tmp_path, usual).crashes
    assert found
    kept = list((tmp_path / "crashers" / "vllm-bench").iterdir())
    assert kept
    assert json.loads(kept[0].read_bytes()) is not None
