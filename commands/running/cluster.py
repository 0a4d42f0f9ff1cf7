"""``draftboard cluster``: look at the jobs of a study on a cluster, end them, read what they print."""

from pathlib import Path
from typing import Any

import click

from commands.options import json_option, with_options
from commands.output import Table, show
from runners.executors import Queue, end_of, news
from runners.executors.kubernetes import KubernetesQueue
from runners.executors.slurm import SlurmQueue
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study_file import read_study
from runners.serving.engines import software
from runners.surroundings.layout import Layout
from runners.texts.loads import with_frozen_rates
from warehouse.errors import RunnerError
from warehouse.json_text import json_text

_study_and_results = with_options(
    click.argument("study", type=click.Path(path_type=Path)),
    click.option(
        "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True,
        help="The folder that the study is run into.",
    ),
)  # fmt: skip


@click.group()
def cluster() -> None:
    """Jobs of a study that was run with --on slurm or --on kubernetes: status, cancel, logs.

    Example: draftboard cluster status studies/gpt-oss-120b-eagle3.yaml --results results
    """


@cluster.command()
@_study_and_results
@json_option
def status(study: Path, results: Path, as_json: bool) -> None:
    """Show each launch: its job, where it runs or why it waits, and its finished cells.

    Example: draftboard cluster status studies/mine.yaml --results results
    """
    plan, layout = _open(study, results)
    jobs, now = _queue_of(layout).submitted(), Now(software(plan.study))
    rows: list[dict[str, str | int]] = []
    for launch in plan.launches:
        found, cells = jobs.get(launch.launch_id), len(launch.cells)
        good = len(look(plan, layout, launch.cells, now).good)
        shown = "not submitted" if found is None else found.state
        rows.append({
            "launch": launch.launch_id,
            "job": "" if found is None else found.job,
            "state": "done" if good == cells and shown in ("not submitted", "ended") else shown,
            # The node of the launch, or why it waits or failed.
            "where": "" if found is None else found.where,
            "good_cells": good,
            "cells": cells,
        })  # fmt: skip
    texts = [
        (*(str(row[name]) for name in ("launch", "job", "state", "where")),
         f"{row['good_cells']}/{row['cells']}")
        for row in rows
    ]  # fmt: skip
    table = Table(("launch", "job", "state", "where", "cells"), texts)
    show(json_text({"launches": rows}) if as_json else table)


@cluster.command("cancel")
@_study_and_results
@click.argument("launches", nargs=-1)
def cancel_jobs(study: Path, results: Path, launches: tuple[str, ...]) -> None:
    """End the jobs of the study, or of the LAUNCHES named. Finished cells stay.

    Example: draftboard cluster cancel studies/mine.yaml --results results
    """
    plan, layout = _open(study, results)
    for launch_id in launches:
        _launch(plan, launch_id)
    queue = _queue_of(layout)
    ended = {
        name: submitted.job
        for name, submitted in queue.submitted().items()
        if not submitted.over and (not launches or name in launches)
    }
    queue.cancel(list(ended.values()))
    show(
        *(f"{name}: job {job} cancelled" for name, job in ended.items()),
        None if ended else "Nothing of this study runs or waits.",
    )


@cluster.command()
@_study_and_results
@click.argument("launches", nargs=-1)
@click.option("--lines", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--server", is_flag=True, help="What the inference server printed instead.")
@click.option("--follow", is_flag=True, help="Go on printing; of one launch only. Ctrl-C ends it.")
def logs(study: Path, results: Path, launches: tuple[str, ...], **given: Any) -> None:
    """Print the last lines of the launches' logs: all of them, or the LAUNCHES named.

    Example: draftboard cluster logs studies/mine.yaml r0-baseline-tp1 --results results --follow
    """
    plan, layout = _open(study, results)
    chosen = [_launch(plan, name).launch_id for name in launches] or [
        launch.launch_id for launch in plan.launches
    ]
    if given["follow"] and len(chosen) != 1:
        raise click.UsageError("--follow prints the log of one launch; name it.")
    queue, lines = _queue_of(layout), given["lines"]
    for name in chosen:
        server, silent = layout.log(name), "The launch has printed nothing yet."
        ends = end_of(server, lines) if given["server"] else queue.log(name, lines)
        if given["server"]:
            silent = f"{server} is not there yet, or lies where this machine does not see it."
        show(f"== {name}" if len(chosen) > 1 else None, *(ends or [silent]))
    if given["follow"]:
        where = layout.log(chosen[0])
        for text in news(where) if given["server"] else queue.follow(chosen[0]):
            click.echo(text, nl=False)


def _queue_of(layout: Layout) -> Queue:
    """Return the queue to which the study was last submitted; Slurm where it was never."""
    kubernetes, slurm = KubernetesQueue(layout), SlurmQueue(layout)
    if not kubernetes.path.exists():
        return slurm
    newer = slurm.path.exists() and slurm.path.stat().st_mtime > kubernetes.path.stat().st_mtime
    return slurm if newer else kubernetes


def _open(study: Path, results: Path) -> tuple[Plan, Layout]:
    plan = make_plan(with_frozen_rates(read_study(study), results))
    return plan, Layout(results.absolute(), plan.study.name)


def _launch(plan: Plan, launch_id: str) -> Launch:
    try:
        return plan.launch(launch_id)
    except KeyError:
        names = ", ".join(launch.launch_id for launch in plan.launches)
        raise RunnerError(f"The study has no launch {launch_id}; it has {names}.") from None
