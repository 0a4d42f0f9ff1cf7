"""Launches side by side on this machine, each on GPUs of its own (which nobody opens here)."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.executors.local import Local
from runners.executors.settings import LocalSettings
from runners.planning.plan import Plan, gpus_needed, make_plan
from runners.planning.study_file import Study
from warehouse.errors import RunnerError

FAKE_RUN = Path(__file__).with_name("fake_run.py")
ROOT = Path(__file__).parents[2]
GPUS = ("0", "1", "2", "3")


@dataclass
class Case:
    """A study, its results folder, and what the executor said of it."""

    plan: Plan
    folder: Path
    updates: list[Update] = field(default_factory=list)
    cells: list[tuple[str, float]] = field(default_factory=list)

    def run(self, parallel: int, gpus: tuple[str, ...] | None = GPUS) -> ExecutorOutcome:
        job = ExecutorJob(
            study=self.folder / "study.yaml", results=self.folder / "results",
            launches=self.plan.launches, report=self.updates.append,
            program=(sys.executable, str(FAKE_RUN)),
            measured=lambda cell, seconds: self.cells.append((cell.key, seconds)),
        )  # fmt: skip
        return Local(LocalSettings(parallel=parallel, gpus=gpus)).run(self.plan, job)

    def measured(self) -> list[dict[str, Any]]:
        path = self.folder / "results" / self.plan.study.name / "measured.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def case_of(
    study_of: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Case]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda **changes: Case(make_plan(study_of(**changes)), tmp_path)


@pytest.mark.slow
def test_each_launch_has_gpus_of_its_own_and_the_record_can_tell(case_of, monkeypatch) -> None:
    case = case_of(tensor_parallel_sizes=[2])
    monkeypatch.setenv("FAKE_CELL_S", "0.8")

    outcome = case.run(parallel=4)

    assert set(outcome.done) == {launch.launch_id for launch in case.plan.launches}
    given = gpus_given(case.updates)
    # Two start at once; which of them ends first, and leaves its pair to the third, is chance.
    assert set(given.values()) == {"0,1", "2,3"}
    by_process: dict[int, set[str]] = {}
    for line in case.measured():
        assert (line["executor"], line["launches_side_by_side"]) == ("local", 4)
        by_process.setdefault(line["pid"], set()).add(line["gpus"])
    assert sorted(by_process.values(), key=str) == sorted(({g} for g in given.values()), key=str)


@pytest.mark.slow
def test_each_good_cell_is_told_once_with_its_time(case_of) -> None:
    case = case_of()

    case.run(parallel=2)

    assert sorted(key for key, _ in case.cells) == sorted(cell.key for cell in case.plan.cells)
    assert {seconds for _, seconds in case.cells} == {7.5}


@pytest.mark.slow
def test_a_gpu_that_is_gone_takes_no_further_launch(case_of, fake_driver, tmp_path) -> None:
    case = case_of()
    program = (
        "import sys; from pathlib import Path; from tests.runners.test_local import Case\n"
        "from runners.planning.plan import make_plan; from runners.planning.study_file import read_study\n"
        "folder = Path(sys.argv[1])\n"
        "found = Case(make_plan(read_study(folder / 'study.yaml')), folder).run(1, ('1',))\n"
        "print(found.done, *found.failed, sep='\\n')\n"
    )
    (tmp_path / "gone").touch()
    env = {**fake_driver, "FAKE_GONE": str(tmp_path / "gone"), "FAKE_FAIL": "r0-baseline-tp1"}
    command = [sys.executable, "-c", program, str(case.folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)

    nothing, first, *others = done.stdout.splitlines()
    assert nothing == "()"
    assert "the fake launch was told to fail" in first
    assert len(others) == 2
    assert all("needs 1 GPUs, and 0 are left that answer their driver" in line for line in others)


def gpus_given(updates: list[Update]) -> dict[str, str]:
    """The GPUs of each launch, as the executor told them; it never told of two on the same ones."""
    given: dict[str, str] = {}
    busy: dict[str, set[str]] = {}
    for update in updates:
        if update.state == "running":
            gpus = update.detail.removeprefix("on GPU ").split(", ")
            assert set(gpus).isdisjoint(set().union(*busy.values()))
            busy[update.launch_id] = set(gpus)
            given[update.launch_id] = ",".join(gpus)
        else:
            del busy[update.launch_id]
    return given


def test_a_launch_that_needs_more_gpus_than_there_are_is_refused(case_of) -> None:
    case = case_of(tensor_parallel_sizes=[1, 8])

    with pytest.raises(RunnerError, match="needs 8 GPUs and this machine offers 4"):
        case.run(parallel=2)

    assert case.updates == []


@pytest.mark.slow
def test_a_failed_launch_is_named_and_the_others_go_on(case_of, monkeypatch) -> None:
    case = case_of()
    monkeypatch.setenv("FAKE_FAIL", "r0-baseline-tp1")

    outcome = case.run(parallel=2)

    assert sorted(outcome.done) == ["r0-ngram-k2-tp1", "r0-ngram-k3-tp1"]
    assert outcome.failed[0][0] == "r0-baseline-tp1"
    assert "the fake launch was told to fail" in outcome.failed[0][1]


def test_a_study_that_pins_cores_is_not_run_side_by_side(case_of) -> None:
    case = case_of(cpus={"engine": [0], "client": [1]})

    with pytest.raises(RunnerError, match="pins its servers to the same cores"):
        case.run(parallel=2)


@pytest.mark.slow
def test_nothing_is_left_when_the_command_is_killed(case_of, monkeypatch) -> None:
    case = case_of()
    monkeypatch.setenv("FAKE_CELL_S", "60")
    program = (
        "import sys; from pathlib import Path; from tests.runners.test_local import Case\n"
        "from runners.planning.plan import make_plan; from runners.planning.study_file import read_study\n"
        "folder = Path(sys.argv[1])\n"
        "Case(make_plan(read_study(folder / 'study.yaml')), folder).run(parallel=2)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(case.folder)], cwd=ROOT) as process:
        try:
            wait_until(lambda: len(launches_of(case)) == 2)
        finally:
            process.kill()

    wait_until(lambda: not launches_of(case))


def launches_of(case: Case) -> list[int]:
    """Processes that measure a launch of this case, their guards aside."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words[1:3] == [str(FAKE_RUN), "run"] and str(case.folder) in " ".join(words):
            found.append(process.pid)
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tensor_parallel_sizes": [4]}, 4),
        ({"target": {"model": "m", "engine_args": {"pipeline_parallel_size": 2}}}, 2),
        ({"target": {"model": "m", "engine_args": {"data-parallel-size": 3}}}, 3),
        # The engine refuses it in its own words.
        ({"target": {"model": "m", "engine_args": {"data-parallel-size": "three"}}}, 1),
        ({"evidence": "cpu"}, 0),
        ({"cpus": {"engine": [0], "client": [1]}}, 0),
    ],
)
def test_gpus_of_a_launch(study_of, changes: dict[str, Any], expected: int) -> None:
    plan = make_plan(study_of(**changes))

    assert {gpus_needed(plan.study, launch) for launch in plan.launches} == {expected}


def wait_until(ready: Callable[[], bool], timeout_s: float = 180.0) -> None:
    until = time.monotonic() + timeout_s
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.1)
