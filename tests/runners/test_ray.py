"""Launches as tasks of a real Ray: two nodes with fake GPUs on this machine, one of which is killed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.executors.ray import RayTasks
from runners.executors.settings import RaySettings
from runners.planning.plan import Plan, make_plan
from runners.planning.study_file import Study
from tests.runners.small_study import small_study
from warehouse.errors import RunnerError

FAKE_RUN = Path(__file__).with_name("fake_run.py")
ROOT = Path(__file__).parents[2]
SETTINGS = RaySettings(cpus=0.5)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="Ray is not installed here: the extra `ray` has it"
    ),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of a head without GPUs and a node with four."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "num_gpus": 0, "include_dashboard": False},
        )
        cluster.add_node(num_cpus=4, num_gpus=4)
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@dataclass
class Case:
    """A study, its results folder, and what the executor said of it."""

    plan: Plan
    folder: Path
    updates: list[Update] = field(default_factory=list)
    switches: tuple[str, ...] = ()

    def job(self) -> ExecutorJob:
        return ExecutorJob(
            study=self.folder / "study.yaml", results=self.folder / "results",
            launches=self.plan.launches, report=self.updates.append,
            program=("env", *self.switches, sys.executable, str(FAKE_RUN)),
        )  # fmt: skip

    def run(self, settings: RaySettings = SETTINGS) -> ExecutorOutcome:
        return RayTasks(settings).run(self.plan, self.job())

    def measured(self) -> list[dict[str, Any]]:
        path = self.folder / "results" / self.plan.study.name / "measured.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def case_of(nodes: Any, study_of: Callable[..., Study], tmp_path: Path) -> Callable[..., Case]:
    def make(**changes: object) -> Case:
        return Case(make_plan(study_of(**changes)), tmp_path)

    return make


def test_launches_get_gpus_of_their_own(case_of) -> None:
    case = case_of(tensor_parallel_sizes=[2])
    case.switches = ("FAKE_CELL_S=0.7",)

    outcome = case.run()

    assert set(outcome.done) == {launch.launch_id for launch in case.plan.launches}
    lines = case.measured()
    assert len(lines) == len(case.plan.cells)
    assert {line["executor"] for line in lines} == {"ray"}
    assert {len(line["gpus"].split(",")) for line in lines} == {2}
    for one in lines:
        beside = [o for o in lines if o["pid"] != one["pid"] and abs(o["at"] - one["at"]) < 0.5]
        assert not [o for o in beside if o["gpus"] == one["gpus"]]


def test_what_fits_on_no_node_is_an_error_and_not_an_endless_wait(case_of) -> None:
    case = case_of(tensor_parallel_sizes=[1, 8])

    with pytest.raises(RunnerError, match=r"r0-baseline-tp8: it takes 8 GPUs.*largest has 4 GPUs"):
        case.run()

    assert case.updates == []


def test_a_failed_launch_is_named_with_its_last_line_and_the_others_go_on(case_of) -> None:
    case = case_of()
    case.switches = ("FAKE_FAIL=r0-ngram-k2-tp1",)

    outcome = case.run()

    assert sorted(outcome.done) == ["r0-baseline-tp1", "r0-ngram-k3-tp1"]
    assert [launch for launch, _ in outcome.failed] == ["r0-ngram-k2-tp1"]
    assert outcome.failed[0][1].endswith("the fake launch was told to fail")


@pytest.mark.long
def test_a_killed_node_costs_its_cell_and_nothing_else(nodes: Any, case_of) -> None:
    case = case_of(arms=[{"name": "baseline"}], concurrency=[1, 2, 4], tensor_parallel_sizes=[6])
    case.switches = ("FAKE_CELL_S=2",)
    first = nodes.add_node(num_cpus=2, num_gpus=6)
    outcomes: list[ExecutorOutcome] = []
    thread = Thread(target=lambda: outcomes.append(case.run()))
    thread.start()
    wait_until(lambda: (case.folder / "results/tiny" / case.plan.cells[0].key).exists())

    nodes.remove_node(first, allow_graceful=False)
    second = nodes.add_node(num_cpus=2, num_gpus=6)
    thread.join()
    nodes.remove_node(second)

    assert outcomes[0].done == ("r0-baseline-tp6",)
    measured = case.measured()
    assert [line["cell"] for line in measured] == [cell.key for cell in case.plan.cells]
    assert len({line["pid"] for line in measured}) == 2


def test_ctrl_c_ends_what_runs(case_of) -> None:
    case = case_of()
    case.switches = ("FAKE_FAIL=r0-baseline-tp1", "FAKE_CELL_S=3")

    def ctrl_c(update: Update) -> None:
        if update.state == "failed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RayTasks(SETTINGS).run(case.plan, replace(case.job(), report=ctrl_c))

    assert not [p for p in psutil.process_iter() if str(case.folder) in " ".join(words(p))]


def test_the_real_command_runs_a_launch_on_a_node(nodes: Any, tmp_path: Path) -> None:
    """The whole way: ``draftboard run --on ray``, the FAKE engine, the real GuideLLM."""
    study = small_study(tmp_path, arms=[{"name": "baseline"}], evidence="dummy_weights")

    done = study.run("--on", "ray", "--address", nodes.address)

    assert done.returncode == 0, done.stderr
    assert "r0-baseline-tp1: done" in done.stderr
    assert "1 of 1 cells are good" in done.stderr
    record = study.record(study.cell(study.plan.cells[0].key))
    assert record["environment"]["placement"] == {"executor": "ray"}
    assert study.running() == []


def test_where_no_cluster_listens_one_sentence_says_so() -> None:
    code = (
        "from runners.executors.ray import _cluster\n"
        "from runners.executors.settings import RaySettings\n"
        "from warehouse.errors import RunnerError\n"
        "try:\n"
        "  with _cluster(RaySettings(address='127.0.0.1:9')): pass\n"
        "except RunnerError as error: print('SAID', error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
    )  # fmt: skip

    assert "SAID No Ray cluster can be used at 127.0.0.1:9" in done.stdout, done.stderr[-2000:]


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def wait_until(ready: Callable[[], bool], timeout_s: float = 180.0) -> None:
    until = time.monotonic() + timeout_s
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.1)
