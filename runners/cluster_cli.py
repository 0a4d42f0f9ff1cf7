"""``draftboard cluster``: look at the jobs of a study on a cluster, end them, read what they print."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from commands.output import show_table
from runners.executors.queues import Submitted, end_of, news, queue_of
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study_file import read_study
from runners.serving.engines import software
from runners.surroundings.layout import Layout
from runners.texts.loads import with_frozen_rates
from warehouse.errors import RunnerError
from warehouse.json_text import json_text


def _study_and_results(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--results",
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        help="The folder that the study is run into.",
    )(command)
    return click.argument("study", type=click.Path(path_type=Path))(command)


@click.group()
def cluster() -> None:
    """Jobs of a study that was run with --on slurm or --on kubernetes: status, cancel, logs.

    Example: draftboard cluster status studies/gpt-oss-120b-eagle3.yaml --results results
    """


@dataclass(frozen=True)
class Line:
    """One launch as a row of the table."""

    launch: str
    job: str
    state: str
    where: str
    """The node of the launch, or why it waits or failed."""
    good_cells: int
    cells: int


@cluster.command()
@_study_and_results
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(study: Path, results: Path, as_json: bool) -> None:
    """Show each launch: its job, where it runs or why it waits, and its finished cells.

    Example: draftboard cluster status studies/mine.yaml --results results
    """
    lines = _lines(*_open(study, results))
    if as_json:
        click.echo(json_text({"launches": [asdict(line) for line in lines]}))
        return
    show_table(
        ("launch", "job", "state", "where", "cells"),
        [
            (line.launch, line.job, line.state, line.where, f"{line.good_cells}/{line.cells}")
            for line in lines
        ],
    )


@cluster.command("cancel")
@_study_and_results
@click.argument("launches", nargs=-1)
def cancel_jobs(study: Path, results: Path, launches: tuple[str, ...]) -> None:
    """End the jobs of the study, or of the LAUNCHES named. Finished cells stay.

    Example: draftboard cluster cancel studies/mine.yaml --results results
    """
    plan, layout = _open(study, results)
    for launch_id in launches:
        _known(plan, launch_id)
    queue = queue_of(layout)
    found = {name: one for name, one in queue.all().items() if not one.over}
    ended = {name: one for name, one in found.items() if not launches or name in launches}
    queue.cancel([one.job for one in ended.values()])
    for name, one in ended.items():
        click.echo(f"{name}: job {one.job} cancelled")
    if not ended:
        click.echo("Nothing of this study runs or waits.")


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
    chosen = [_known(plan, name).launch_id for name in launches] or [
        launch.launch_id for launch in plan.launches
    ]
    if given["follow"] and len(chosen) != 1:
        raise click.UsageError("--follow prints the log of one launch; name it.")
    queue, lines = queue_of(layout), given["lines"]
    for name in chosen:
        if len(chosen) > 1:
            click.echo(f"== {name}")
        server = layout.server_log(name)
        ends = end_of(server, lines) if given["server"] else queue.log(name, lines)
        for text in ends or [_silent(server if given["server"] else None)]:
            click.echo(text)
    if given["follow"]:
        where = layout.server_log(chosen[0])
        for text in news(where) if given["server"] else queue.follow(chosen[0]):
            click.echo(text, nl=False)


def _silent(server: Path | None) -> str:
    if server is None:
        return "The launch has printed nothing yet."
    return f"{server} is not there yet, or lies where this machine does not see it."


def _open(study: Path, results: Path) -> tuple[Plan, Layout]:
    plan = make_plan(with_frozen_rates(read_study(study), results))
    return plan, Layout(results.absolute(), plan.study.name)


def _known(plan: Plan, launch_id: str) -> Launch:
    try:
        return plan.launch(launch_id)
    except KeyError:
        names = ", ".join(launch.launch_id for launch in plan.launches)
        raise RunnerError(f"The study has no launch {launch_id}; it has {names}.") from None


def _lines(plan: Plan, layout: Layout) -> list[Line]:
    jobs, now = queue_of(layout).all(), Now(software(plan.study))
    good = {launch.launch_id: len(look(plan, layout, launch.cells, now).good)
            for launch in plan.launches}  # fmt: skip
    return [
        _line(launch, jobs.get(launch.launch_id), good[launch.launch_id])
        for launch in plan.launches
    ]


def _line(launch: Launch, found: Submitted | None, good: int) -> Line:
    name, cells = launch.launch_id, len(launch.cells)
    whole = good == cells
    if found is None:
        return Line(name, "", "done" if whole else "not submitted", "", good, cells)
    state = "done" if whole and found.state == "ended" else found.state
    return Line(name, found.job, state, found.where, good, cells)
