"""Launches as Jobs: a real kubectl against a FAKE API server, which schedules nothing by itself."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from commands.running.cluster import cluster
from commands.running.run import run
from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.executors.kubernetes import Kubernetes
from runners.executors.settings import KubernetesSettings
from runners.planning.plan import Plan, make_plan
from runners.planning.study_file import read_study
from runners.surroundings.layout import Layout
from tests.runners.conftest import MINIMAL
from tests.runners.fake_kubernetes import FakeKubernetes, fake_kubernetes
from tests.runners.small_study import wait_for
from tests.runners.test_resume import put
from warehouse.errors import RunnerError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here"),
]
SETTINGS = KubernetesSettings(image="registry.example.com/draftboard:1", poll_s=0.2)
FIRST, SECOND = "r0-baseline-tp1", "r0-ngram-k2-tp1"


@dataclass
class Case:
    """A study, its results folder, and what an executor said of it."""

    fake: FakeKubernetes
    study: Path
    results: Path
    updates: list[Update] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return make_plan(read_study(self.study))

    def job(self, *launches: str) -> ExecutorJob:
        chosen = tuple(self.plan.launch(name) for name in launches or (FIRST, SECOND))
        return ExecutorJob(self.study, self.results, chosen, report=self.updates.append)

    def run(self, wait: bool = True, **settings: Any) -> ExecutorOutcome:
        executor = Kubernetes(SETTINGS.model_copy(update=settings), wait)
        return executor.run(self.plan, self.job())

    def started(self) -> Callable[[], ExecutorOutcome]:
        """Run in a thread; what is returned waits for the outcome."""
        found: list[ExecutorOutcome] = []
        thread = Thread(target=lambda: found.append(self.run()), daemon=True)
        thread.start()

        def ended() -> ExecutorOutcome:
            thread.join(120)
            return found[0]

        return ended

    def said(self, launch: str, state: str) -> list[str]:
        return [u.detail for u in self.updates if (u.launch_id, u.state) == (launch, state)]

    def ask(self, *words: str) -> str:
        more = [str(self.study), "--results", str(self.results)]
        done = CliRunner().invoke(cluster, [words[0], *more, *words[1:]], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    study = tmp_path / "study.yaml"
    study.write_text(json.dumps(MINIMAL))
    with fake_kubernetes(tmp_path) as (fake, config):
        monkeypatch.setenv("KUBECONFIG", str(config))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield Case(fake, study, tmp_path / "results")


def test_each_launch_is_a_job_and_the_command_waits_for_all_of_them(case: Case) -> None:
    ended = case.started()
    wait_for(lambda: len(case.fake.created) == 2, "two Jobs")
    case.fake.pod(FIRST, "Running", "server starting\nbaseline/tp1/code/c1-r0: 9 s\n")
    wait_for(lambda: bool(case.said(FIRST, "running")), "a running launch")
    case.fake.end(FIRST, "Complete", "2 of 2 cells are good\n")
    case.fake.end(SECOND, "Failed", "draftboard: 2 cells are not good\n", "PodFailurePolicy")
    outcome = ended()

    assert case.said(FIRST, "running") == ["on node07: baseline/tp1/code/c1-r0: 9 s"]
    assert outcome.done == (FIRST,)
    (failed,) = outcome.failed
    assert failed[0] == SECOND
    assert "its last line: draftboard: 2 cells are not good" in failed[1]
    assert outcome.results_at == "the claim draftboard-results, below /data/results"
    kept = case.results / "tiny" / "logs" / f"{FIRST}.kubernetes.log"
    assert kept.read_text() == "2 of 2 cells are good\n"


def test_the_same_command_waits_for_what_runs_and_submits_only_what_is_missing(case: Case) -> None:
    assert case.run(wait=False).handed_over == (FIRST, SECOND)
    case.fake.end(FIRST, "Complete")
    case.fake.end(SECOND, "Failed", "no room", "BackoffLimitExceeded")

    ended = case.started()
    wait_for(lambda: len(case.fake.created) == 3, "a third Job")
    case.fake.end(SECOND, "Complete")

    assert ended().done == (FIRST, SECOND)
    assert [job["metadata"]["annotations"]["draftboard/launch"] for job in case.fake.created] == [
        FIRST, SECOND, SECOND,
    ]  # fmt: skip


def test_where_results_are_seen_they_count_and_not_the_job(case: Case) -> None:
    case.run(wait=False)
    case.fake.end(FIRST, "Complete")
    case.fake.end(SECOND, "Complete")
    layout, cells = Layout(case.results, "tiny"), case.plan.launch(SECOND).cells
    for cell in cells:
        put(layout, cell)

    Kubernetes(SETTINGS, wait=False).run(case.plan, case.job(FIRST))

    # The first launch has no results here, though its Job is done: it is measured again.
    assert len(case.fake.created) == 3
    assert case.fake.created[-1]["metadata"]["annotations"]["draftboard/launch"] == FIRST


def test_a_refused_job_takes_those_before_it_back(case: Case) -> None:
    plan, job = case.plan, case.job(FIRST)
    Kubernetes(SETTINGS, wait=False).run(plan, job)
    assert len(case.fake.jobs) == 1
    case.fake.refusal = 'jobs.batch is forbidden: exceeded quota "gpus"'

    with pytest.raises(RunnerError, match=r"refused the Job .*exceeded quota"):
        case.run(wait=False)
    assert len(case.fake.jobs) == 1
    assert case.fake.deleted == []


def test_what_can_never_start_is_deleted_and_said(case: Case) -> None:
    ended = case.started()
    wait_for(lambda: len(case.fake.created) == 2, "two Jobs")
    waiting = {"waiting": {"reason": "InvalidImageName", "message": "no such name"}}
    case.fake.pod(SECOND, "Pending", containerStatuses=[{"name": "launch", "state": waiting}])
    case.fake.end(FIRST, "Complete")
    (failed,) = ended().failed

    assert failed[1] == (
        "it can never start (InvalidImageName: no such name), so its Job was deleted"
    )
    assert len(case.fake.deleted) == 1


def test_silence_is_said_and_asked_again_and_a_deleted_job_is_noticed(case: Case) -> None:
    ended = case.started()
    wait_for(lambda: len(case.fake.created) == 2, "two Jobs")
    case.fake.down = True
    wait_for(lambda: any("asking again" in u.detail for u in case.updates), "silence")
    case.fake.down = False
    case.fake.end(FIRST, "Complete")
    del case.fake.jobs[case.fake.job_of(SECOND)]

    assert ended().failed[0][1].endswith("is gone: somebody deleted it")


def test_status_logs_and_cancel_read_as_for_slurm(case: Case) -> None:
    case.run(wait=False)
    case.fake.pod(FIRST, "Running", "one\ntwo\n")

    lines = json.loads(case.ask("status", "--json"))["launches"]
    assert [(x["launch"], x["state"], x["where"]) for x in lines[:2]] == [
        (FIRST, "running", "node07"), (SECOND, "waiting", "its pod is not made yet"),
    ]  # fmt: skip
    assert lines[2]["state"] == "not submitted"
    assert case.ask("logs", FIRST, "--lines", "1") == "two\n"
    assert "printed nothing yet" in case.ask("logs", SECOND)
    assert case.ask("logs", FIRST, "--follow").startswith("one\ntwo\n")
    assert "this machine does not see it" in case.ask("logs", FIRST, "--server")
    assert case.ask("cancel", FIRST).startswith(f"{FIRST}: job tiny-r0-baseline-tp1-")
    assert case.ask("cancel").count("cancelled") == 1
    assert case.ask("cancel") == "Nothing of this study runs or waits.\n"


@pytest.mark.parametrize(
    ("study", "settings", "beginning"),
    [
        ({"environment": {"HF_TOKEN": "hf_xxxxxxxxxxxxx"}}, {}, "study sets HF_TOKEN"),
        (
            {"target": {"model": "m", "engine_args": {"api-key": "word"}}}, {},
            "study sets api-key",
        ),
        ({}, {"environment": {"HF_TOKEN": "hf_xxxxxxxxxxxxx"}}, "cluster options set HF_TOKEN"),
    ],
    ids=["variable of the study", "argument of the engine", "variable of the cluster"],
)  # fmt: skip
def test_a_credential_is_never_written_into_a_job(
    case: Case, study: dict[str, Any], settings: dict[str, Any], beginning: str
) -> None:
    case.study.write_text(json.dumps(MINIMAL | study))
    with pytest.raises(RunnerError, match=f"{beginning}, which everybody could read"):
        case.run(wait=False, **settings)
    assert case.fake.created == []


def test_jobs_that_cannot_be_noted_are_taken_back(case: Case) -> None:
    (case.results / "tiny" / ".kubernetes.json").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        case.run(wait=False)
    assert len(case.fake.created) == 2
    assert not case.fake.jobs


def test_an_image_is_asked_for(case: Case) -> None:
    with pytest.raises(RunnerError, match="--image"):
        case.run(wait=False, image=None)


def test_the_command_ends_well_where_results_lie_elsewhere(case: Case) -> None:
    only = ["--only", "arm=baseline"]
    words = [str(case.study), "--results", str(case.results), "--on", "kubernetes", *only]
    words += ["--image", "x:1"]
    Kubernetes(
        SETTINGS.model_copy(update={"image": "x:1"}), wait=False
    ).run(case.plan, replace(case.job(FIRST), arguments=tuple(only)))  # fmt: skip
    case.fake.end(FIRST, "Complete")

    done = CliRunner().invoke(run, words)

    assert done.exit_code == 0, done.output
    assert len(case.fake.created) == 1
    assert "what is done lies on the claim draftboard-results" in done.output
