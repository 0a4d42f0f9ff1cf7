"""Launches as jobs of a real Slurm: two nodes with fake GPUs, one of which is killed."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from commands.running.cluster import cluster
from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.executors.settings import SlurmSettings
from runners.executors.slurm import Slurm, SlurmQueue
from runners.planning.plan import Plan, make_plan
from runners.planning.study_file import Study
from runners.surroundings.layout import Layout
from tests.runners.slurm_cluster import Cluster, missing_tools, running_cluster
from tests.runners.small_study import PATIENCE_S, small_study
from warehouse.errors import RunnerError

FAKE_RUN = Path(__file__).with_name("fake_run.py")
SETTINGS = SlurmSettings(poll_s=0.3)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"no Slurm here: {', '.join(missing_tools())} not found"
    ),
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    """Two nodes, six GPUs."""
    with running_cluster() as cluster:
        yield cluster


@dataclass
class Case:
    """A study, its results folder, and what an executor said of it."""

    plan: Plan
    study: Path
    results: Path
    cluster: Cluster
    updates: list[Update] = field(default_factory=list)

    @property
    def book(self) -> SlurmQueue:
        return SlurmQueue(Layout(self.results, self.plan.study.name))

    def job(self) -> ExecutorJob:
        program = (sys.executable, str(FAKE_RUN))
        return ExecutorJob(
            study=self.study, results=self.results, launches=self.plan.launches,
            report=self.updates.append, program=program,
        )  # fmt: skip

    def run(self, settings: SlurmSettings = SETTINGS, wait: bool = True) -> ExecutorOutcome:
        return Slurm(settings, wait=wait).run(self.plan, self.job())

    def measured(self) -> list[dict[str, Any]]:
        path = self.results / self.plan.study.name / "measured.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def log(self, launch_id: str) -> str:
        path = self.book.layout.log(launch_id, "slurm")
        return path.read_text() if path.exists() else ""

    def queue(self) -> list[str]:
        return self.cluster.call("squeue", "--noheader", "--format=%j").splitlines()


@pytest.fixture
def case_of(
    slurm: Cluster,
    study_of: Callable[..., Study],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Case]]:
    """A case on an idle cluster; keyword arguments replace parts of the study."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    slurm.wait_until(lambda: slurm.call("squeue", "--noheader") == "")

    def make(**changes: object) -> Case:
        plan = make_plan(study_of(**changes))
        return Case(plan, tmp_path / "study.yaml", tmp_path / "results", slurm)

    yield make
    slurm.call("scancel", "--me")


def test_launches_share_the_gpus_and_none_is_given_twice(case_of, monkeypatch) -> None:
    case = case_of(tensor_parallel_sizes=[2], repeats=2)
    monkeypatch.setenv("FAKE_CELL_S", "0.5")

    outcome = case.run()

    assert set(outcome.done) == {launch.launch_id for launch in case.plan.launches}
    assert outcome.failed == ()
    spans: dict[str, list[tuple[str, set[str], float]]] = {}
    for line in case.measured():
        spans.setdefault(line["job"], []).append(
            (line["node"], set(line["gpus"].split(",")), line["at"])
        )
    assert len(spans) == 6
    jobs = [(s[0][0], s[0][1], s[0][2] - 0.5, s[-1][2]) for s in spans.values()]
    assert all(len(gpus) == 2 for _, gpus, _, _ in jobs)
    for i, (node, gpus, start, end) in enumerate(jobs):
        beside = [o for o in jobs[:i] + jobs[i + 1 :] if o[2] < end and start < o[3]]
        assert len(beside) <= 4
        assert not [o for o in beside if o[0] == node and o[1] & gpus]


def test_an_impossible_request_is_refused_in_slurms_words_and_leaves_nothing(case_of) -> None:
    case = case_of(tensor_parallel_sizes=[1, 8])

    with pytest.raises(RunnerError, match="Requested node configuration is not available"):
        case.run()

    # Slurm lists a job that was cancelled until its node has heard of it.
    ends = time.monotonic() + PATIENCE_S
    while case.queue() and time.monotonic() < ends:
        time.sleep(0.2)
    assert case.queue() == []
    assert not case.book.path.exists()


def test_a_request_that_would_wait_for_ever_is_failed_with_slurms_reason(case_of) -> None:
    case = case_of(arms=[{"name": "baseline"}])

    outcome = case.run(SlurmSettings(poll_s=0.3, partition="short", time="01:00:00"))

    assert [launch for launch, _ in outcome.failed] == ["r0-baseline-tp1"]
    assert "PartitionTimeLimit" in outcome.failed[0][1]
    assert case.queue() == []


def test_a_failed_launch_is_named_with_its_last_line_and_the_others_go_on(
    case_of, monkeypatch
) -> None:
    case = case_of()
    monkeypatch.setenv("FAKE_FAIL", "r0-ngram-k2-tp1")

    outcome = case.run()

    assert sorted(outcome.done) == ["r0-baseline-tp1", "r0-ngram-k3-tp1"]
    (launch, reason), = outcome.failed  # fmt: skip
    assert launch == "r0-ngram-k2-tp1"
    assert "1 of 2 cells missing" in reason
    assert reason.endswith("the fake launch was told to fail")

    monkeypatch.delenv("FAKE_FAIL")
    again = case.run()

    assert "r0-ngram-k2-tp1" in again.done
    assert set(Counter(line["cell"] for line in case.measured()).values()) == {1}


def test_a_second_command_waits_for_the_jobs_of_the_first(case_of, monkeypatch) -> None:
    case = case_of()
    monkeypatch.setenv("FAKE_CELL_S", "1")

    first = case.run(wait=False)
    numbers = case.book.numbers()
    second = case.run()

    assert set(first.handed_over) == set(numbers) == set(second.done)
    assert case.book.numbers() == numbers
    assert len(case.measured()) == len(case.plan.cells)


def test_ctrl_c_ends_the_waiting_and_not_the_jobs(case_of, monkeypatch) -> None:
    case = case_of(arms=[{"name": "baseline"}])
    monkeypatch.setenv("FAKE_CELL_S", "30")
    pressed: list[Update] = []

    def ctrl_c(update: Update) -> None:
        if not pressed:
            pressed.append(update)
            raise KeyboardInterrupt

    outcome = Slurm(SETTINGS).run(case.plan, replace(case.job(), report=ctrl_c))

    assert outcome.handed_over == ("r0-baseline-tp1",)
    assert case.queue() == ["tiny:r0-baseline-tp1"]


def test_a_controller_that_is_away_for_a_while_is_waited_for(case_of, monkeypatch) -> None:
    case = case_of(arms=[{"name": "baseline"}])
    monkeypatch.setenv("FAKE_CELL_S", "2")
    outcomes: list[ExecutorOutcome] = []
    thread = Thread(target=lambda: outcomes.append(case.run()))
    thread.start()
    case.cluster.wait_until(lambda: "fake launch" in case.log("r0-baseline-tp1"))

    case.cluster.pause_controller()
    case.cluster.wait_until(lambda: any("squeue did not answer" in u.detail for u in case.updates))
    case.cluster.resume_controller()
    thread.join()

    assert outcomes[0].done == ("r0-baseline-tp1",)


def test_a_number_that_was_given_again_is_nobodys_job_of_ours(case_of, monkeypatch) -> None:
    case = case_of(arms=[{"name": "baseline"}])
    monkeypatch.setenv("FAKE_CELL_S", "30")
    case.run(wait=False)
    number = case.book.numbers()["r0-baseline-tp1"]
    case.cluster.call("scontrol", "update", f"jobid={number}", "jobname=somebody-elses")

    where = [str(case.study), "--results", str(case.results)]
    ended = CliRunner().invoke(cluster, ["cancel", *where])

    assert "Nothing of this study" in ended.output
    assert case.queue() == ["somebody-elses"]


def test_a_cancelled_study_says_so_and_keeps_what_was_measured(case_of, monkeypatch) -> None:
    case = case_of()
    monkeypatch.setenv("FAKE_CELL_S", "30")
    outcomes: list[ExecutorOutcome] = []
    thread = Thread(target=lambda: outcomes.append(case.run()))
    thread.start()
    case.cluster.wait_until(lambda: "fake launch" in case.log("r0-baseline-tp1"))

    where = [str(case.study), "--results", str(case.results)]
    shown = CliRunner().invoke(cluster, ["status", *where, "--json"])
    printed = CliRunner().invoke(cluster, ["logs", *where])
    ended = CliRunner().invoke(cluster, ["cancel", *where])
    thread.join()

    states = [line["state"] for line in json.loads(shown.output)["launches"]]
    assert set(states) <= {"running", "pending", "configuring"}
    assert "fake launch r0-baseline-tp1" in printed.output
    assert ended.output.count("cancelled") == 3
    assert len(outcomes[0].failed) == 3
    assert all("was cancelled" in reason for _, reason in outcomes[0].failed)


@pytest.mark.long
def test_a_killed_node_costs_its_cell_and_nothing_else(case_of, monkeypatch) -> None:
    case = case_of(arms=[{"name": "baseline"}], concurrency=[1, 2, 4])
    case.cluster.call("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    monkeypatch.setenv("FAKE_CELL_S", "3")
    outcomes: list[ExecutorOutcome] = []
    thread = Thread(target=lambda: outcomes.append(case.run()))
    thread.start()
    layout = case.book.layout
    case.cluster.wait_until(lambda: layout.cell(case.plan.cells[0].key).exists())
    number = case.book.numbers()["r0-baseline-tp1"]

    case.cluster.kill_node("n2")
    case.cluster.call("scontrol", "update", "nodename=n1", "state=resume")
    case.cluster.let_requeued_start(number)
    thread.join()
    case.cluster.start_node("n2")

    assert outcomes[0].done == ("r0-baseline-tp1",)
    measured = case.measured()
    assert [line["cell"] for line in measured] == [cell.key for cell in case.plan.cells]
    # One cell or two before the node's end: that takes its time on a busy machine.
    assert [line["node"] for line in measured] in (["n2", "n1", "n1"], ["n2", "n2", "n1"])
    assert measured[-1]["restarts"] == "1"


@pytest.mark.long
def test_the_real_command_goes_on_after_its_node_was_killed(
    slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: ``draftboard run --on slurm``, the FAKE engine, the real GuideLLM."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    study = small_study(
        tmp_path, arms=[{"name": "baseline"}], concurrency=[1, 2, 3],
        evidence="dummy_weights",
    )  # fmt: skip
    options = tmp_path / "cluster.yaml"
    options.write_text("slurm: {poll_s: 0.5, gres: gpu:h100}")
    slurm.call("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    first, *others = study.plan.cells

    with study.start("--on", "slurm", "--cluster", str(options)) as process:
        slurm.wait_until(lambda: study.cell(first.key).exists(), 120)
        measured_at = study.cell(first.key).stat().st_mtime_ns
        slurm.kill_node("n2")
        slurm.call("scontrol", "update", "nodename=n1", "state=resume")
        slurm.let_requeued_start(SlurmQueue(study.layout).numbers()["r0-baseline-tp1"])
        _, said = process.communicate(timeout=PATIENCE_S)
    slurm.start_node("n2")

    assert process.returncode == 0, said
    assert "3 of 3 cells are good" in said
    assert "on n2" in said
    assert "on n1, 3 of 3 cells" in said or "on n1, 2 of 3 cells" in said
    assert study.cell(first.key).stat().st_mtime_ns == measured_at
    assert [study.record(study.cell(c.key))["attempt"] for c in others] == [1, 1]
    assert study.starts() == 2
    assert study.running() == []
