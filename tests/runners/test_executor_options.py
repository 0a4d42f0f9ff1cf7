"""Where a run goes: flags, the file of the cluster's options, and what is said of mistakes in them."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from commands.running.run import executor_from, executor_options
from runners.executors import Executor
from runners.executors.local import Local
from runners.executors.ray import RayTasks
from runners.executors.settings import RaySettings, SlurmSettings
from runners.executors.slurm import Slurm, SlurmQueue, sbatch, script, submit
from runners.surroundings.layout import Layout
from runners.surroundings.machine import placement
from warehouse.errors import DraftboardError, RunnerError


def chosen(*words: str, env: dict[str, str] | None = None) -> Executor | None:
    """The executor that a command with these options gets."""
    found: list[Executor | None] = []

    @click.command()
    @executor_options
    def command(**given: Any) -> None:
        found.append(executor_from(given))

    result = CliRunner().invoke(command, list(words), env=env, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_without_options_a_run_stays_in_its_own_process() -> None:
    assert chosen() is None


def test_flags_override_the_file_of_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "slurm: {partition: gpu, account: lab, arguments: [--exclusive]}\nray: {cpus: 4}"
    )

    slurm = chosen("--on", "slurm", "--cluster", str(path), "--partition", "long", "--detach")
    by_variable = chosen("--on", "ray", env={"DRAFTBOARD_CLUSTER": str(path)})

    settings = SlurmSettings(partition="long", account="lab", arguments=("--exclusive",))
    assert slurm == Slurm(settings, wait=False)
    assert by_variable == RayTasks(RaySettings(cpus=4))


def test_parallel_takes_the_gpus_that_are_named() -> None:
    found = chosen("--parallel", "2", "--gpus", "0, GPU-7d1")

    assert isinstance(found, Local)
    assert (found.settings.parallel, found.settings.gpus) == (2, ("0", "GPU-7d1"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "gpu"), "--partition belongs to --on slurm; this is --on local."),
        (("--on", "ray", "--detach"), "--detach belongs to --on slurm"),
        (("--on", "slurm", "--sbatch=--x", "--parallel", "2"), "--parallel belongs to --on local"),
        (("--on", "ray", "--sbatch=--x"), "--sbatch belongs to --on slurm"),
        (("--gpus", "0"), "--gpus goes with --parallel"),
        (("--on", "ray", "--gpus", "0"), "--gpus belongs to --on local"),
    ],
)
def test_an_option_of_another_executor_is_wrong_usage(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        chosen(*words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slurm: {partion: gpu}", "slurm.partion: Extra inputs are not permitted"),
        ("slurm: {time: 12:00:00}", "slurm.time: Value error, put it in quotes"),
        ("slurm: [gpu]", "at slurm"),
        ("- slurm", "holds no cluster options"),
        ("slurm: {", "cannot be read"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_that_names_it(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)

    with pytest.raises(RunnerError) as found:
        chosen("--on", "slurm", "--cluster", str(path))

    assert isinstance(found.value, DraftboardError)
    assert str(path) in str(found.value)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_a_job_is_asked_for_as_slurm_reads_it(tmp_path: Path) -> None:
    settings = SlurmSettings(
        partition="gpu", gres="gpu:h200", time="08:00:00", cpus=16, memory="200G",
        arguments=("--exclusive",), setup=("module load cuda",),
    )  # fmt: skip

    argv = sbatch("tiny:r0", 2, tmp_path / "50%.log", tmp_path, settings)

    assert argv[0] == "sbatch"
    assert set(argv) >= {
        "--requeue", "--partition=gpu", "--gres=gpu:h200:2", "--time=08:00:00", "--mem=200G",
        "--cpus-per-task=16", "--exclusive", f"--output={tmp_path}/50%%.log", "--nodes=1",
    }  # fmt: skip
    assert not [word for word in argv if word.startswith(("--account", "--qos", "--constraint"))]
    assert script(["python", "run", "a b"], settings.setup).splitlines()[1:] == [
        "module load cuda",
        "exec python run 'a b'",
    ]


def test_a_study_on_a_cpu_asks_for_no_gpu(tmp_path: Path) -> None:
    argv = sbatch("tiny:r0", 0, tmp_path / "log", tmp_path, SlurmSettings())

    assert not [word for word in argv if word.startswith("--gres")]


def test_where_slurm_is_not_installed_one_sentence_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RunnerError, match="There is no sbatch on this machine"):
        submit("tiny:r0", ["python"], 1, tmp_path / "log", tmp_path, SlurmSettings())


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"executor": "local"}),
        ({"SLURM_JOB_ID": "7"}, {"executor": "slurm"}),
        ({"DRAFTBOARD_EXECUTOR": "ray"}, {"executor": "ray"}),
        (
            {"DRAFTBOARD_EXECUTOR": "local", "DRAFTBOARD_PARALLEL": "4"},
            {"executor": "local", "launches_side_by_side": 4},
        ),
    ],
)
def test_a_record_can_say_how_its_launch_was_placed(
    environ: dict[str, str], expected: dict[str, object]
) -> None:
    assert placement(environ) == expected


@pytest.mark.parametrize("text", ["{", "[]", '{"jobs": {"r0-baseline-tp1": []}}'])
def test_a_damaged_list_of_jobs_is_said(tmp_path: Path, text: str) -> None:
    queue = SlurmQueue(Layout(tmp_path, "tiny"))
    assert queue.numbers() == {}
    queue.write({"jobs": {"r0-baseline-tp1": "7"}})
    assert queue.numbers() == {"r0-baseline-tp1": "7"}
    queue.path.write_text(text)
    with pytest.raises(RunnerError, match="look at `squeue --me`, then remove it"):
        queue.numbers()
