"""``draftboard cluster``: look at the jobs of a study on a cluster, end them, read what they print; ``collect``:
bring the results of several nodes together."""

import errno
import shutil
from dataclasses import asdict, dataclass, field
from filecmp import cmp
from pathlib import Path
from typing import Any

import click
from filelock import FileLock

from commands.terminal import Table, json_option, show, show_json, with_options
from runners.executors import Queue, end_of, news
from runners.executors.kubernetes import KubernetesQueue
from runners.executors.slurm import SlurmQueue
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study_file import read_study
from runners.serving.engines import software
from runners.surroundings.layout import RECORD, Layout, json_object, records_under
from warehouse.contract import failed_of
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
    plan = make_plan(read_study(study), results)
    return plan, Layout(results.absolute(), plan.study.name)


def _launch(plan: Plan, launch_id: str) -> Launch:
    try:
        return plan.launch(launch_id)
    except KeyError:
        names = ", ".join(launch.launch_id for launch in plan.launches)
        raise RunnerError(f"The study has no launch {launch_id}; it has {names}.") from None


# --- Results of several nodes brought into one folder; nothing is overwritten, nothing is guessed.
#
# Each node may write into a folder of its own. Cells are copied whole, under a hidden name first, so
# that a killed collect leaves nothing half; run again it goes on.


#: Of the study as a whole: a node that drew other prompts or ran another study shows here first.
_SHARED = ("study.yaml", "prompts/*.jsonl", "rates/[!.]*.rates")
#: What says which prompts a cell was sent: each load of a dataset has prompts of its own.
_LEVEL = ("dataset", "load_profile", "concurrency", "rate", "trace")
_LOGS = "logs/*.log"


@dataclass
class Collected:
    """What was done with everything that was found, by its path under the results folder."""

    copied: list[str] = field(default_factory=list)
    #: Results that were there already, byte for byte.
    known: list[str] = field(default_factory=list)
    #: Results that were left where they are, with the reason.
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    #: Cells that were being measured when their node stopped.
    unfinished: list[str] = field(default_factory=list)


def collect(sources: list[Path], results: Path) -> Collected:
    """Copy the results in ``sources`` (results folders, or folders of one study) into ``results``.

    RunnerError where a source holds no results or cannot be read, or the disk is full.
    """
    roots = [root for source in sources for root in _studies(source)]
    there = results.resolve()
    for source in sources:
        here = source.resolve()
        if there in (here, *here.parents) or here in there.parents:
            raise RunnerError(
                f"{source} and {results} lie within one another; collect into a folder apart."
            )
    outcome = Collected()
    try:
        for root in roots:
            layout = Layout(results, root.name)
            layout.root.mkdir(parents=True, exist_ok=True)
            with FileLock(layout.root / ".collect.lock"):
                _Merge(root, layout, outcome).all()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunnerError(
                f"The disk that holds {results} is full; make room and run the same command again."
            ) from error
        raise RunnerError(
            f"The results cannot be collected: {error}. Run the same command again."
        ) from error
    return outcome


def _studies(source: Path) -> list[Path]:
    """Return the folders of studies in a source. Raises RunnerError where there are none."""
    if not source.is_dir():
        raise RunnerError(f"There is no folder {source}; name the results folder of a node.")
    source = source.resolve()
    if (source / "study.yaml").is_file():
        return [source]
    found = [
        path for path in sorted(source.iterdir()) if path.is_dir() and any(records_under(path))
    ]
    if not found:
        raise RunnerError(
            f"{source} holds no results: a results folder has a folder for each study, and in it "
            f"folders with a {RECORD}."
        )
    return found


@dataclass
class _Merge:
    root: Path
    layout: Layout
    outcome: Collected
    #: Dataset and load to the hash of its prompts and the cell that says so.
    prompt_sets: dict[tuple[Any, ...], tuple[str, str]] = field(default_factory=dict)

    def all(self) -> None:
        for folder in _cells(self.layout.root):
            self._note_prompts(folder)
        for folder in _cells(self.root):
            self._cell(folder)
        for path in (path for pattern in _SHARED for path in sorted(self.root.glob(pattern))):
            there = self.layout.root / path.relative_to(self.root)
            if not there.exists():
                _copy_file(path, there)
            elif not cmp(path, there, shallow=False):
                self._conflict(self._name(path), f"it differs from {there}, which stays")
        for path in sorted(self.root.glob(_LOGS)):
            self._log(path)
        self.outcome.unfinished += [
            self._name(path) for path in sorted(self.root.rglob(".*.partial")) if path.is_dir()
        ]

    def _name(self, path: Path) -> str:
        return f"{self.layout.study}/{path.relative_to(self.root)}"

    def _cell(self, folder: Path) -> None:
        name, there = self._name(folder), self.layout.root / folder.relative_to(self.root)
        stated = _prompts_of(folder)
        known = None if stated is None else self.prompt_sets.get(stated[0])
        if failed_of(folder.name) is not None:
            self._attempt(folder, there)
        elif there.exists() and _same(folder, there):
            self.outcome.known.append(name)
        elif there.exists():
            self._conflict(name, "both measured it; remove the one that shall not count")
        elif stated is not None and known is not None and known[0] != stated[1]:
            self._conflict(name, f"it was measured with other prompts than {known[1]}")
        else:
            _copy(folder, there)
            self.outcome.copied.append(name)
            self._note_prompts(there)

    def _attempt(self, folder: Path, there: Path) -> None:
        """Keep a failed attempt beside those that the other node made."""
        key, _ = failed_of(str(there.relative_to(self.layout.root))) or ("", 0)
        count = self.layout.attempts(key)
        earlier = [self.layout.failed(key, number) for number in range(1, count + 1)]
        if any(path.is_dir() and _same(folder, path) for path in earlier):
            self.outcome.known.append(self._name(folder))
            return
        _copy(folder, self.layout.failed(key, count + 1))
        self.outcome.copied.append(self._name(folder))

    def _note_prompts(self, folder: Path) -> None:
        stated = _prompts_of(folder)
        if stated is not None:
            cell = str(folder.relative_to(self.layout.root))
            self.prompt_sets.setdefault(stated[0], (stated[1], cell))

    def _log(self, path: Path) -> None:
        """Keep every log, since several nodes may have started the same launch."""
        there = base = self.layout.root / path.relative_to(self.root)
        number = 1
        while there.exists():
            if cmp(path, there, shallow=False):
                return
            number += 1
            there = base.with_name(f"{base.stem}.{number}{base.suffix}")
        _copy_file(path, there)

    def _conflict(self, name: str, why: str) -> None:
        self.outcome.conflicts.append((name, why))


def _cells(root: Path) -> list[Path]:
    folders = (record.parent for record in sorted(records_under(root)))
    return [f for f in folders if not any(part[0] == "." for part in f.relative_to(root).parts)]


def _prompts_of(folder: Path) -> tuple[tuple[Any, ...], str] | None:
    """Return dataset and load of a cell with the hash of its prompts; None where it does not
    say."""
    record = json_object(folder / RECORD) or {}
    level, stated = tuple(record.get(name) for name in _LEVEL), record.get("prompt_set_hash")
    return (level, stated) if isinstance(stated, str) else None


def _files(folder: Path) -> list[Path]:
    """Return the plain files of a cell; a link could lead anywhere."""
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink())


def _same(one: Path, other: Path) -> bool:
    ours, theirs = _files(one), _files(other)
    alike = [path.name for path in ours] == [path.name for path in theirs]
    return alike and all(cmp(*pair, shallow=False) for pair in zip(ours, theirs, strict=True))


def _copy(folder: Path, there: Path) -> None:
    """Copy a cell; under its own name it is there whole or not at all."""
    # Not the name under which a run measures: one may be at work in the folder.
    partial = there.with_name(f".{there.name}.copying")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for path in _files(folder):
        shutil.copy2(path, partial / path.name)
    partial.rename(there)


def _copy_file(path: Path, there: Path) -> None:
    there.parent.mkdir(parents=True, exist_ok=True)
    partial = there.with_name(f".{there.name}.copying")
    shutil.copy2(path, partial)
    partial.replace(there)


# --- ``draftboard collect``: results of several nodes in one folder.


@click.command("collect")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder that they are copied into.",
)
@json_option
@click.pass_context
def collect_command(
    ctx: click.Context, sources: tuple[Path, ...], results: Path, as_json: bool
) -> None:
    """Copy the results of several nodes (SOURCES) into one folder; run again, it goes on.

    Nothing is overwritten: what both sides measured differently is named, and the exit status is 1.

    Example: draftboard collect from-node1 from-node2 --results results
    """
    outcome = collect(list(sources), results)
    unfinished = f"{len(outcome.unfinished)} unfinished cells left out; run the study to finish it"
    if as_json:
        show_json(asdict(outcome))
    else:
        show(
            f"{len(outcome.copied)} cells copied to {results}, {len(outcome.known)} there already",
            unfinished if outcome.unfinished else None,
        )
        show(*(f"not taken: {name}: {why}" for name, why in outcome.conflicts), err=True)
    ctx.exit(1 if outcome.conflicts else 0)
