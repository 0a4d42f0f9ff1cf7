"""``draftboard cluster``: look at the Slurm jobs of a study, end them, read what they print."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from commands.output import show_table
from runners.executors.slurm_book import Book
from runners.executors.slurm_commands import SlurmJob, SlurmSilent, cancel, jobs_of_mine
from runners.measuring.layout import Layout
from runners.measuring.resume import Now, look
from runners.measuring.software import software
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study_file import read_study
from warehouse.errors import RunnerError

_LOOK_S = 1.0


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
    """Slurm jobs of a study that was run with --on slurm: status, cancel, logs.

    Example: draftboard cluster status studies/gpt-oss-120b-eagle3.yaml --results results
    """


@dataclass(frozen=True)
class Line:
    """One launch in the table."""

    launch: str
    job: str
    state: str
    where: str
    """The node of the launch, or why it waits."""
    good_cells: int
    cells: int


@cluster.command()
@_study_and_results
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(study: Path, results: Path, as_json: bool) -> None:
    """Show each launch: its job, where it runs or why it waits, and its finished cells.

    Example: draftboard cluster status studies/mine.yaml --results results
    """
    plan, book = _open(study, results)
    lines = _lines(plan, book)
    if as_json:
        click.echo(json.dumps({"launches": [asdict(line) for line in lines]}))
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
    plan, book = _open(study, results)
    for launch_id in launches:
        _known(plan, launch_id)
    jobs = {name: job for name, job in _ask(book).items() if not job.over}
    ended = {name: job for name, job in jobs.items() if not launches or name in launches}
    cancel([job.job_id for job in ended.values()])
    for name, job in ended.items():
        click.echo(f"{name}: job {job.job_id} cancelled")
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
    plan, book = _open(study, results)
    chosen = [_known(plan, name).launch_id for name in launches] or [
        launch.launch_id for launch in plan.launches
    ]
    if given["follow"] and len(chosen) != 1:
        raise click.UsageError("--follow prints the log of one launch; name it.")
    log_of = book.layout.server_log if given["server"] else book.log
    paths = {name: log_of(name) for name in chosen}
    _print_ends(paths, given["lines"])
    if given["follow"]:
        for text in _news(paths[chosen[0]]):
            click.echo(text, nl=False)


def _open(study: Path, results: Path) -> tuple[Plan, Book]:
    plan = make_plan(read_study(study))
    return plan, Book(Layout(results.absolute(), plan.study.name))


def _known(plan: Plan, launch_id: str) -> Launch:
    try:
        return plan.launch(launch_id)
    except KeyError:
        names = ", ".join(launch.launch_id for launch in plan.launches)
        raise RunnerError(f"The study has no launch {launch_id}; it has {names}.") from None


def _ask(book: Book) -> dict[str, SlurmJob]:
    try:
        return book.mine(jobs_of_mine())
    except SlurmSilent as error:
        raise RunnerError(f"{error}; check the cluster with `sinfo`.") from None


def _lines(plan: Plan, book: Book) -> list[Line]:
    numbers, jobs, now = book.read(), _ask(book), Now(software(plan.study))
    good = {launch.launch_id: len(look(plan, book.layout, launch.cells, now).good)
            for launch in plan.launches}  # fmt: skip
    return [_line(launch, numbers, jobs, good) for launch in plan.launches]


def _line(
    launch: Launch, numbers: dict[str, str], jobs: dict[str, SlurmJob], good_cells: dict[str, int]
) -> Line:
    name = launch.launch_id
    good, job = good_cells[name], jobs.get(name)
    if job is not None:
        state, where = job.state.lower(), job.nodes or job.reason
    else:
        whole = good == len(launch.cells)
        state = "done" if whole else "ended" if name in numbers else "not submitted"
        where = ""
    return Line(name, numbers.get(name, ""), state, where, good, len(launch.cells))


def _print_ends(paths: dict[str, Path], lines: int) -> None:
    for name, path in paths.items():
        if len(paths) > 1:
            click.echo(f"== {name}")
        if not path.exists():
            click.echo(f"{path} is not there yet: the launch has not started.")
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in deque(file, maxlen=lines):
                click.echo(text.rstrip("\n"))


def _news(path: Path) -> Iterator[str]:
    """Yield what is appended to a file from now on, for ever."""
    at = path.stat().st_size if path.exists() else 0
    while True:
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(at)
                text = file.read()
                at = file.tell()
            if text:
                yield text
        time.sleep(_LOOK_S)
