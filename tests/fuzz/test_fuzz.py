"""The fuzzer finds what breaks ingest, and what broke it once does so no more."""

import copy
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from ingest.discovery import recognised
from ingest.formats import FORMATS
from ingest.model import open_content
from tests.fuzz import sums
from tests.fuzz.mutate import mutated
from tests.fuzz.samples import SAMPLES, changed, unchanged
from tests.fuzz.tries import OURS, Tally, known, one_batch
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
    for refused in answer["rejected"]:
        assert refused["reason"].endswith(".")
        assert not any(word in refused["reason"] for word in OURS)


def test_what_is_nested_too_deeply_is_said_so_in_every_format(run: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, sample in enumerate(SAMPLES.values()):
        sample.write(tmp_path / "in" / f"{number:03d}", _too_deep)
    refused = run(tmp_path / "in", "--json").json["rejected"]
    assert len(refused) > 25
    assert not [one for one in refused if any(word in one["reason"] for word in OURS)]


def _too_deep(value: Any) -> bytes:
    """The sample with a list nested 2,000 times in place of its first value."""
    whole, place = copy.deepcopy(value), "in place of the first value"
    holder = whole[0] if isinstance(whole, list) and isinstance(whole[0], dict) else whole
    holder[0 if isinstance(holder, list) else next(iter(holder))] = place
    return json.dumps(whole).replace(json.dumps(place), "[" * 2000 + "]" * 2000).encode()


def test_the_same_seed_makes_the_same_changes() -> None:
    sample = {"a": [1, 2.5, {"b": "text"}], "c": None}
    first, second = (
        [mutated(sample, random.Random(seed)) for seed in range(200)] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) > 100
    assert sample == {"a": [1, 2.5, {"b": "text"}], "c": None}


def test_what_was_made_deep_three_times_can_be_changed_again() -> None:
    deep: Any = 1
    for _ in range(1200):
        deep = [deep]
    made = {mutated(deep, random.Random(seed)) for seed in range(10)}
    assert len(made) > 5


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


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A document to which no run has added yet."""
    document = tmp_path / "performance.md"
    marks = "<!-- fuzzed: make fuzz adds to it -->\n<!-- end of what make fuzz adds to -->"
    document.write_text(f"before\n{marks}\nafter\n", "utf-8")
    return document


def test_a_run_adds_to_what_all_runs_came_to(empty: Path) -> None:
    for _ in range(2):
        sums.add(empty, "a b", Tally(1000, 600, 400, ["x"], ["y", "z"], 1.6))
    said = empty.read_text("utf-8")
    assert said.startswith("before\n")
    assert said.endswith("\nafter\n")
    assert "| a b | 2,000 | 1,200 | 800 | 4 | 2 | 3.2 |" in said
    assert "| all | 2,000 | 1,200 | 800 | 4 | 2 | 3.2 |" in said
    assert "| a | 3.2 | 1,200 | **no** |" in said
    assert list(empty.parent.iterdir()) == [empty]


def test_runs_that_add_at_once_lose_nothing(empty: Path) -> None:
    def add(number: int) -> None:
        sums.add(empty, f"sample {number % 3}", Tally(tried=1, cpu_s=0.5))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(120)))
    assert sums.seconds(empty) == {f"sample {number}": 20.0 for number in range(3)}


def test_a_run_that_is_killed_has_counted_what_it_tried(empty: Path) -> None:
    words = ["--seconds", "600", "--only", "vllm latency", "--add", empty, "--keep", empty.parent]
    run = subprocess.Popen([sys.executable, "-m", "tests.fuzz", *words], cwd=ROOT)
    try:
        while not sums.seconds(empty):
            assert run.poll() is None
            time.sleep(0.05)
    finally:
        run.kill()
        run.wait()
    assert sums.seconds(empty)["vllm latency"] > 0


def test_the_sample_whose_reader_is_furthest_from_its_goal_is_next() -> None:
    assert sums.furthest(["record", "aiperf"], {"record": 60, "aiperf": 30}) == "record"
    assert sums.furthest(["record", "aiperf"], {"record": 100, "aiperf": 30}) == "aiperf"
    two = {"vllm bench": 10, "vllm bench detailed": 9}
    assert sums.furthest(list(two), two) == "vllm bench detailed"
    assert sums.furthest([*two, "vllm sweep"], two) == "vllm sweep"


def test_every_reader_has_a_sample(tmp_path: Path) -> None:
    found = set()
    for name, sample in SAMPLES.items():
        sample.write(tmp_path / name, unchanged)
    for path in tmp_path.rglob("*.*"):
        known = recognised(open_content(path).data) if path.is_file() else None
        found |= {known.NAME} if known is not None else set()
    assert found >= {one.NAME for one in FORMATS if one.KIND}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_read_before_it_is_changed(name: str) -> None:
    assert known(name).numbers


#: FAKE: a mistake planted in the process that reads, which is one of its own.
CARELESS = """
import os, sys
if "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    sys.path.insert(0, {root!r})
    from ingest.formats import vllm_bench

    decode = vllm_bench._decode

    def careless(data):
        bench, members = decode(data)
        if bench.duration <= 0 or bench.completed <= 0:
            os.abort()
        return bench, members

    vllm_bench._decode = careless
"""


def test_a_reader_that_breaks_is_found_and_what_broke_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = known("vllm bench")
    (tmp_path / "sitecustomize.py").write_text(CARELESS.format(root=str(ROOT)), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    forkserver._forkserver._stop()
    source, found = random.Random(1), []
    for _ in range(8):
        found += one_batch("vllm bench", source, tmp_path, usual).crashes
    forkserver._forkserver._stop()
    assert found
    assert all("its reader ended" in told for told in found)
    kept = list((tmp_path / "crashers" / "vllm-bench").iterdir())
    assert kept
    assert json.loads(kept[0].read_bytes()) is not None
