"""``draftboard run``: measure what a study asks for and the results folder does not hold yet."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from commands.terminal import PLACES, QUEUED_AT, ended_by_signals, show, with_options
from runners.executors import Executor, ExecutorJob, ExecutorOutcome, Update
from runners.executors.local import Local, spread
from runners.executors.settings import read_settings
from runners.measuring import resume
from runners.measuring.hosts import require_single_arm
from runners.measuring.progress import Count, Progress, next_step, next_step_elsewhere, reasons
from runners.measuring.record import write_study_copy
from runners.measuring.resume import StudyRun
from runners.measuring.run import run_here
from runners.planning.estimate import (
    Assumed,
    Node,
    assumed_here,
    duration_of,
    expected_seconds,
    read_recorded,
)
from runners.planning.plan import (
    PlannedCell,
    doubts,
    make_plan,
    refusals,
    select,
    unknown_sweeps,
)
from runners.planning.study_file import read_study
from runners.serving.endpoint import read_key, use_key
from runners.serving.engines import software
from runners.surroundings.layout import Layout, records_under, results_writable
from runners.surroundings.machine import survey
from runners.texts.prompts import PromptFiles, few_prompts
from warehouse.errors import RunnerError

# --- The options of ``draftboard run`` that say where it runs.


#: Adds ``--on`` and what goes with it; ``executor_from`` reads them.
executor_options = with_options(
    click.option(
        "--on",
        "place",
        type=click.Choice(PLACES),
        default="local",
        show_default=True,
        help="This machine, or one Slurm job, Ray task or Kubernetes Job for each server launch.",
    ),
    click.option(
        "--cluster",
        "cluster_file",
        type=click.Path(path_type=Path),
        envvar="DRAFTBOARD_CLUSTER",
        help="YAML file with the options of the cluster [DRAFTBOARD_CLUSTER]; flags override it.",
    ),
    click.option(
        "--parallel",
        "local_parallel",
        type=click.IntRange(min=1),
        help="local: at most so many servers side by side, each on GPUs of its own; 1: one after the "
        "other. Left out: as many as the free GPUs take, where the study allows it.",
    ),
    click.option(
        "--gpus", "local_gpus", metavar="0,1,…", help="local: the GPUs that --parallel may use."
    ),
    click.option("--partition", "slurm_partition", help="slurm: partition."),
    click.option("--account", "slurm_account", help="slurm: account that is charged."),
    click.option("--qos", "slurm_qos", help="slurm: quality of service."),
    click.option("--time", "slurm_time", metavar="LIMIT", help="slurm: limit of one launch."),
    click.option("--gres", "slurm_gres", metavar="gpu:TYPE", help="slurm: which GPUs."),
    click.option(
        "--sbatch",
        "slurm_arguments",
        multiple=True,
        metavar="ARGUMENT",
        help="slurm: one more argument of sbatch, as --sbatch=--exclusive; repeatable.",
    ),
    click.option("--detach", is_flag=True, help="slurm, kubernetes: submit, and do not wait."),
    click.option("--address", "ray_address", help="ray: address of the head [RAY_ADDRESS]."),
    click.option("--namespace", "kubernetes_namespace", help="kubernetes: namespace."),
    click.option("--context", "kubernetes_context", help="kubernetes: context of kubectl."),
    click.option("--image", "kubernetes_image", help="kubernetes: image of the launches."),
    click.option("--claim", "kubernetes_claim", help="kubernetes: claim on which results lie."),
)


def executor_from(
    given: Mapping[str, Any], unsaid: Callable[[], Executor | None] = lambda: None
) -> Executor | None:
    """Return the executor that the options ask for; None: this process runs one launch after the
    other.

    ``unsaid`` is asked for a run on this machine that nobody said more of. Wrong usage is a
    click.UsageError, settings that cannot be used a RunnerError.
    """
    place = given["place"]
    settings = read_settings(given["cluster_file"], place, _flags(place, given))
    if place == "slurm":
        from runners.executors.slurm import Slurm

        return Slurm(settings.slurm, wait=not given["detach"])
    if place == "kubernetes":
        from runners.executors.kubernetes import Kubernetes

        return Kubernetes(settings.kubernetes, wait=not given["detach"])
    if place == "ray":
        from runners.executors.ray import RayTasks

        return RayTasks(settings.ray)
    if settings.local.parallel is None and not given["local_gpus"]:
        return unsaid()
    if settings.local.parallel not in (None, 1):
        return Local(settings.local)
    if given["local_gpus"]:
        raise click.UsageError(
            "--gpus goes with --parallel; one launch after the other takes what "
            "CUDA_VISIBLE_DEVICES leaves."
        )
    return None


def _flags(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among what was ``given`` for a place: the parameters named after it."""
    flags: dict[str, Any] = {}
    for name, value in given.items():
        owner, _, setting = name.partition("_")
        owners = QUEUED_AT if name == "detach" else (owner,)
        if owners[0] not in PLACES or value in (None, (), False):
            continue
        if place not in owners:
            flag = {"slurm_arguments": "sbatch"}.get(name, setting or name)
            where = " or ".join(f"--on {owner}" for owner in owners)
            raise click.UsageError(f"--{flag} belongs to {where}; this is --on {place}.")
        if setting:
            flags[setting] = value
    if "gpus" in flags:
        flags["gpus"] = tuple(name.strip() for name in flags["gpus"].split(",") if name.strip())
    return flags


# --- ``draftboard run``: what a study asks for, measured.


_SHOWN = 5


@click.command()
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the results; good cells that lie there are not run again.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="FIELD=VALUE[,VALUE]",
    help="Only these cells: arm, dataset, tp, concurrency, load or repeat. Repeatable; all must hold.",
)
@click.option("--launch", "launch_id", metavar="ID", help="Only the cells of one server launch.")
@click.option(
    "--cell", "keys", multiple=True, metavar="KEY",
    help="Only this cell, as `draftboard plan --json` names it. Repeatable; any of them is run.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Measure good cells again; the old ones are set aside.")
@click.option("--yes", is_flag=True, help="Set good cells aside without being asked.")
@click.option(
    "--target-url",
    metavar="URL",
    help="Drive a server that somebody else runs: only load and counters.",
)
@click.option(
    "--api-key-env", metavar="VARIABLE", help="Variable that holds the API key of --target-url."
)
@click.option(
    "--api-key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds it, alone. The key itself is never an argument and never written.",
)
@click.option(
    "--keep-prompts",
    is_flag=True,
    help="Keep the prompts' texts in each drop, and not their hashes alone.",
)
@executor_options
def run(
    study: Path,
    results: Path,
    only: tuple[str, ...],
    target_url: str | None,
    **given: Any,
) -> None:
    """Run what is missing of a study; the same command continues after any interruption.

    Example: draftboard run studies/laptop-lab.yaml --results results
    """
    plan = make_plan(read_study(study), results)
    cells = select(plan, only, given["launch_id"], given["keys"])
    key = read_key(given["api_key_env"], given["api_key_file"])
    if key is not None and target_url is None:
        raise click.UsageError("An API key goes with --target-url; servers started here need none.")
    url = None if target_url is None else target_url.rstrip("/").removesuffix("/v1")
    if url is not None and key is not None:
        use_key(url, key)
    layout = Layout(results, plan.study.name)
    asked = StudyRun(
        plan, layout, cells, software(plan.study, url), PromptFiles(plan.study, layout),
        url, key, given["keep_prompts"],
    )  # fmt: skip
    executor = executor_from(given, lambda: _spread(asked, url))
    if url is not None:
        if executor is not None:
            raise click.UsageError("--target-url is driven from this machine; leave out --on.")
        require_single_arm(cells)
    more = [word for term in only for word in ("--only", term)]
    more += [word for key in given["keys"] for word in ("--cell", key)]
    more += ["--yes"] if given["yes"] else []
    more += ["--keep-prompts"] if given["keep_prompts"] else []
    job = ExecutorJob(study, results, (), tuple(more), software=asked.software)
    stopped = "stopped; the cell at work is abandoned, the same command goes on from here"
    with ended_by_signals(stopped), results_writable(layout):
        _before(asked, study, given["fresh"], given["yes"])
        outcome, why, step = _run(asked, executor, job, given["place"])
    found = asked.replanned().look()  # By now a sweep may have found its rates.
    if outcome.results_at:
        show(f"what is done lies on {outcome.results_at}; this machine does not see it", err=True)
    else:
        show(
            f"{len(found.good)} of {len(asked.cells)} cells are good; results in {asked.layout.root}",
            err=True,
        )
    if outcome.handed_over:
        show(
            "the jobs go on: `draftboard cluster status` shows them, `draftboard cluster cancel` "
            "ends them",
            err=True,
        )
    if outcome.handed_over or (outcome.results_at and not why) or not found.to_run:
        return
    sentence = "; ".join(why[:_SHOWN]) or _some(found.to_run)
    raise RunnerError(
        f"{len(found.to_run)} cells are not good: {sentence.rstrip('.')}. {step}".rstrip()
    )


def _run(
    asked: StudyRun, executor: Executor | None, job: ExecutorJob, place: str
) -> tuple[ExecutorOutcome, list[str], str]:
    """Measure what is missing. Return what became of launches elsewhere, why some cells are not good,
    and what to do then."""
    to_run = asked.look().to_run
    recorded = read_recorded(records_under(asked.layout.results))
    expected = expected_seconds(
        asked.plan, to_run, recorded, assumed_here(asked.plan, survey(), Assumed())
    )
    node = Node()
    if isinstance(executor, Local):
        node = Node(len(executor.settings.gpus or ()) or None, executor.settings.parallel)
    with Progress(Count(len(to_run), expected, duration_of(asked.plan, node))) as shown:
        if executor is not None:
            outcome = run_elsewhere(asked, executor, job, shown)
            why = [f"{launch_id}: {reason}" for launch_id, reason in outcome.failed]
            names = [launch_id for launch_id, _ in outcome.failed]
            return outcome, why, next_step_elsewhere(names, asked.layout, place, job.study)
        failed = run_here(asked, shown)
        return ExecutorOutcome(), reasons(failed), next_step(failed, asked.layout, job.study)


def run_elsewhere(
    run: StudyRun, executor: Executor, job: ExecutorJob, progress: Progress
) -> ExecutorOutcome:
    """Have an executor run the launches that have something to do, each with those cells."""

    def report(update: Update) -> None:
        detail = f": {update.detail}" if update.detail else ""
        progress.say(f"{update.launch_id}: {update.state}{detail}")

    def measured(cell: PlannedCell, seconds: float) -> None:
        progress.measured(cell, seconds, None, True)

    job = replace(job, report=report, measured=measured)
    sizes = {size for _, size in unknown_sweeps(run.plan.study, run.layout.results)}
    if sizes:
        progress.say("the baseline first: its launches find the rates of the sweep")
        baselines = tuple(launch for launch in run.missing_launches()
                          if launch.variant.is_baseline and launch.tensor_parallel_size in sizes)  # fmt: skip
        first = executor.run(run.plan, replace(job, launches=baselines))
        if first.failed or first.handed_over:
            progress.say(
                "run the same command again once the baseline is measured: the others follow"
            )
            return first
        run = run.replanned()
    return executor.run(run.plan, replace(job, launches=tuple(run.missing_launches())))


def _spread(asked: StudyRun, target_url: str | None) -> Local | None:
    """Return what runs the missing launches on the free GPUs of this machine, where several fit at
    a time."""
    found = None
    if target_url is None:
        found = spread(asked.plan.study, [*asked.missing_launches()], survey(), os.environ)
    if found is not None:
        show(
            f"up to {found.settings.parallel} servers side by side on GPU "
            f"{', '.join(found.settings.gpus or ())}, which are free; --parallel 1 runs one after "
            "the other",
            err=True,
        )
    return found


def _before(asked: StudyRun, study: Path, fresh: bool, yes: bool) -> None:
    """Say what will be done, bring back what is good again, set aside what will be replaced."""
    refused = refusals(asked.plan, asked.software.guidellm_version)
    if refused:
        raise RunnerError(refused[0])
    for warning in (*few_prompts(asked.plan), *doubts(asked.plan)):
        show(f"warning: {warning}", err=True)
    found = asked.look()
    if found.returning and not fresh:
        resume.bring_back(found, asked.layout)
        show(f"{len(found.returning)} cells that were set aside are good again: "
             f"{_some(found.returning)}", err=True)  # fmt: skip
        found = asked.look()
    replaced = (*found.good, *found.changed) if fresh else found.changed
    if replaced:
        _confirm(found, replaced, yes)
        folders = [found.states[cell.key].folder for cell in replaced]
        resume.set_aside(folders, asked.layout, replaced=fresh)
        found = asked.look()
    show(
        f"{len(asked.cells)} cells: {len(found.good)} good already, {len(found.to_run)} to run",
        err=True,
    )
    write_study_copy(asked.plan.study, study, asked.layout)


def _confirm(found: resume.PlanState, replaced: Sequence[PlannedCell], yes: bool) -> None:
    """Ask before good cells are set aside, since they are hours of work. Raises RunnerError where
    nobody can be asked."""
    differ = f" (they differ in: {', '.join(found.reasons)})" if found.changed else ""
    how = "under another version of the study" if found.changed else "well"
    show(
        f"{len(replaced)} cells were measured {how}{differ} and will be measured again; the old "
        f"ones are set aside in .superseded: {_some(replaced)}",
        err=True,
    )
    if yes:
        return
    if not sys.stdin.isatty():
        raise RunnerError(
            f"{len(replaced)} good cells would be set aside, and nobody is there to be asked; add "
            "--yes if you mean it, or undo the change of the study and nothing is lost."
        )
    click.confirm("Set them aside?", abort=True, err=True)


def _some(cells: Sequence[Any]) -> str:
    keys = [cell.key for cell in cells[:_SHOWN]]
    return ", ".join(keys) + (f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else "")
