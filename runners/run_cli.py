"""``draftboard run``: measure what a study asks for and the results folder does not hold yet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from commands.interrupts import ended_by_signals
from runners.executors import Executor, Job
from runners.executors.options import executor_from, executor_options
from runners.measuring import resume
from runners.measuring.layout import Layout
from runners.measuring.progress import progress
from runners.measuring.run import Asked, results_writable, run_elsewhere, run_here, write_study_copy
from runners.planning.plan import make_plan
from runners.planning.selection import select
from runners.planning.study_file import read_study
from runners.serving.target_url import require_one_arm
from runners.texts.prompt_checks import few_prompts
from warehouse.errors import RunnerError

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
    help="Only these cells: arm, dataset, tp, concurrency or repeat. Repeatable; all must hold.",
)
@click.option("--launch", "launch_id", metavar="ID", help="Only the cells of one server launch.")
@click.option("--fresh", is_flag=True, help="Measure good cells again; the old ones are set aside.")
@click.option(
    "--target-url",
    metavar="URL",
    help="Drive a server that somebody else runs: only load and counters.",
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
    plan = make_plan(read_study(study))
    cells = select(plan, only, given["launch_id"])
    asked = Asked(plan, Layout(results, plan.study.name), cells, _base(target_url))
    executor = executor_from(given)
    if target_url is not None:
        if executor is not None:
            raise click.UsageError("--target-url is driven from this machine; leave out --on.")
        require_one_arm(cells)
    job = Job(study, results, (), tuple(word for term in only for word in ("--only", term)))
    with (
        ended_by_signals(
            "stopped; the cell at work is abandoned, the same command goes on from here"
        ),
        results_writable(asked.layout),
    ):
        _before(asked, study, given["fresh"])
        reasons, handed_over = _run(asked, executor, job)
    _after(asked, reasons, handed_over)


def _base(url: str | None) -> str | None:
    return None if url is None else url.rstrip("/").removesuffix("/v1")


def _run(asked: Asked, executor: Executor | None, job: Job) -> tuple[list[str], bool]:
    """Why some cells are not good, and whether jobs were submitted and not waited for."""
    to_run = len(resume.look(asked.plan, asked.layout, asked.cells).to_run)
    with progress(to_run) as shown:
        if executor is not None:
            outcome = run_elsewhere(asked, executor, job, shown)
            reasons = [f"{launch_id}: {reason}" for launch_id, reason in outcome.failed]
            return reasons, bool(outcome.handed_over)
        failed = run_here(asked, shown)
        return [f"{one.cell.key}: {one.problem.sentence}" for one in failed], False


def _before(asked: Asked, study: Path, fresh: bool) -> None:
    """Say what will be done, and set aside what --fresh replaces."""
    for warning in few_prompts(asked.plan):
        _say(f"warning: {warning}")
    found = resume.look(asked.plan, asked.layout, asked.cells)
    if fresh:
        resume.set_aside((*found.good, *found.changed), asked.layout)
        found = resume.look(asked.plan, asked.layout, asked.cells)
    _say(f"{len(asked.cells)} cells: {len(found.good)} good already, {len(found.to_run)} to run")
    if found.changed:
        _say(
            f"{len(found.changed)} good cells were measured under another version of the study and "
            f"will be measured again; the old ones are set aside: {_some(found.changed)}"
        )
    write_study_copy(asked.plan.study, study, asked.layout)


def _some(cells: Sequence[Any]) -> str:
    keys = [cell.key for cell in cells[:_SHOWN]]
    return ", ".join(keys) + (f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else "")


def _after(asked: Asked, reasons: list[str], handed_over: bool) -> None:
    found = resume.look(asked.plan, asked.layout, asked.cells)
    _say(f"{len(found.good)} of {len(asked.cells)} cells are good; results in {asked.layout.root}")
    if handed_over:
        _say(
            "the jobs go on: `draftboard cluster status` shows them, `draftboard cluster cancel` "
            "ends them"
        )
    if handed_over or not found.to_run:
        return
    why = "; ".join(reasons[:_SHOWN]) or _some(found.to_run)
    raise RunnerError(f"{len(found.to_run)} cells are not good: {why.rstrip('.')}.")


def _say(line: str) -> None:
    click.echo(line, err=True)
