"""A search that measures: a study as it takes it, each launch by ``draftboard run``, what comes next from its drops.

Nothing is kept but the drops of an ordinary study, and a warehouse of them beside it that can be
made anew. So a search that was killed anywhere goes on from what lies there.
"""

import itertools
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import yaml
from filelock import FileLock, Timeout

import draftboard
from analysis.search.space import SearchArm, SearchPlace, family_of
from answers.search.live import live
from answers.search.values import (
    ExcludedArm,
    LiveSearch,
    SearchPlan,
    SearchTerms,
    Winner,
)
from answers.search.winner import LAUNCHES, answering_otherwise, proven
from commands.keeping.ingest import take_in
from commands.running.plan import measured_otherwise, server_by_hand
from commands.running.plan import planned as costed
from commands.running.search_board import Telling
from runners.executors.local import fitting
from runners.planning.estimate import PlanEstimate
from runners.planning.plan import Launch, Plan
from runners.surroundings.layout import json_object
from warehouse.contract import TABLE, failed_of
from warehouse.errors import InvalidInput, RunnerError
from warehouse.storage.tables import held_sources
from warehouse.store import Reader


@dataclass(frozen=True)
class SearchTask:
    """``study``: the file; ``results``: the folder of its drops; ``on``: where launches run, and
    ``cluster``, the file with its options, as `draftboard run` takes them; ``check``: a command of the
    user's that looks at an arm's drops, the quality gate; ``any_outputs``: arms that answer otherwise than
    the baseline are taken too; ``parallel``: so many launches are measured side by side, None for as many
    as the GPUs take that are free here."""

    study: Path
    results: Path
    on: str = "local"
    cluster: Path | None = None
    check: str | None = None
    any_outputs: bool = False
    parallel: int | None = None

    @property
    def warehouse(self) -> Path:
        """Where the drops are read from; hidden, so that no ingest takes it for results."""
        return self.results / ".search"


# --- A study as a search takes it, by its plan.


def laid_out(task: SearchTask) -> SearchPlan:
    """Return the study as a search takes it. Raises InvalidInput for one that cannot be searched, and
    whatever `draftboard plan` refuses."""
    plan, costs, machine = costed(task.study, task.results)
    unlike = measured_otherwise(plan, task.results)
    if unlike:
        raise InvalidInput(
            f"Results of {plan.study.name} lie there that were measured otherwise than the study would be "
            f"measured now ({', '.join(unlike)}), and a search compares only what was measured "
            "alike; search into another folder of results."
        )
    is_local = task.on == "local"
    fit = fitting(plan.study, plan.launches, machine, os.environ) if is_local else 1
    return planned(plan, costs, task.parallel or fit, is_local)


def planned(
    plan: Plan, costs: PlanEstimate, at_once: int = 1, one_machine: bool = True
) -> SearchPlan:
    """Return a study as a search takes it, for so many launches side by side, on one machine or on
    one each. Raises InvalidInput for a study that cannot be searched."""
    if len({launch.tensor_parallel_size for launch in plan.launches}) != 1:
        raise InvalidInput(
            "A search compares arms on one number of GPUs, and this study has several tensor "
            "parallel sizes; give it a study for each."
        )
    if plan.study.engine != "vllm":
        raise InvalidInput(
            f"A search sets vLLM's --speculative-config, and this study serves with {plan.study.engine}: "
            "measure all its arms with `draftboard run`, then ask `draftboard verdict`."
        )
    first = [launch for launch in plan.launches if launch.repeat == 0]
    ids: dict[str, tuple[str, ...]] = {}
    for launch in sorted(plan.launches, key=lambda launch: launch.repeat):
        ids[launch.variant.name] = (*ids.get(launch.variant.name, ()), launch.launch_id)
    usd, hours = costs.sequential_usd, costs.sequential_hours
    commands = {launch.variant.name: server_by_hand(plan, launch) for launch in first}
    # The command of the baseline: by what a drafting arm adds to it, arms are of one family.
    plain: list[str] = next((words for words in commands.values() if _CONFIG not in words), [])
    arms = []
    for name, words in commands.items():
        if _CONFIG not in words:
            arms.append(SearchArm(name, "", 0))
            continue
        at = words.index(_CONFIG)
        config = json.loads(words[at + 1])
        k = config.pop("num_speculative_tokens", None)
        if k is None or TABLE in config:
            raise InvalidInput(
                f"The arm {name} drafts no fixed number of tokens, so a search cannot place it; "
                "state num_speculative_tokens."
            )
        arms.append(SearchArm(name, family_of(config, words[:at] + words[at + 2 :], plain), int(k)))
    arms.sort(key=lambda arm: (arm.family, arm.k))
    drafting = [arm for arm in arms if arm.k]
    if len(arms) - len(drafting) != 1 or not drafting:
        raise InvalidInput(
            "A search needs one baseline and at least one arm that drafts a stated number of tokens."
        )
    return SearchPlan(
        plan.study.name, (*(arm for arm in arms if not arm.k), *drafting), _places(first), ids,
        hours * 60 / len(plan.launches), plan.study.limits.retries + 1,
        None if usd is None or not hours else usd / hours / 60,
        {launch.launch_id: tuple(cell.key for cell in launch.cells) for launch in plan.launches},
        at_once, one_machine,
    )  # fmt: skip


_CONFIG = "--speculative-config"


def _places(first: Sequence[Launch]) -> tuple[SearchPlace, ...]:
    """The datasets and loads of every arm. Raises InvalidInput where one has others than the rest, and
    for a load that is no number of requests at once."""
    by_arm = {
        launch.variant.name: {(cell.dataset, cell.load) for cell in launch.cells}
        for launch in first
    }
    everywhere = set.union(*by_arm.values())
    for _, load in sorted(everywhere):
        if not re.fullmatch(r"c\d+", load):
            raise InvalidInput(
                f"A search compares arms at so many requests at once, and the load {load} is none: two "
                "arms that keep up with a rate are equally fast at it; leave it out of the study."
            )
    for arm, own in by_arm.items():
        for dataset, load in sorted(everywhere - own):
            raise InvalidInput(
                f"A search compares all arms at the same datasets and loads, and {arm} is not measured on "
                f"{dataset} at {load.removeprefix('c')}: leave `arms` out of the study's datasets, or give "
                "the search a study for each set of arms."
            )
    places = (SearchPlace(dataset, float(load[1:])) for dataset, load in everywhere)
    return tuple(sorted(places, key=lambda place: (place.traffic, place.load)))


# --- The proof of a search: its winner and the runner-up as arms of their own, beside the baseline, in
# fresh launches.
#
# It is an ordinary study beside the search's own file, with everything but the arms and the number of
# repeats as there. A search that went on and found another winner or runner-up proves them in a study of
# their own: launches that were made for others are not beside theirs, and a decision is not to weigh both.


def write_proof(study: Path, name: str, arms: Sequence[Winner], repeats: int) -> tuple[str, Path]:
    """Write the study of a proof where it is not there yet, and return its name and its file. More
    repeats than these, which somebody asked for there, stay. ``name``: of the study of the search.

    Raises RunnerError where the folder cannot be written.
    """
    stated = yaml.safe_load(study.read_text(encoding="utf-8"))
    baseline = next(arm for arm in stated["arms"] if not arm.get("speculative_config"))
    proven_arms = [baseline, *(_arm_of(winner, stated["arms"]) for winner in arms)]
    try:
        path, ending, repeated = _file_of_proof(study, [arm["name"] for arm in proven_arms])
        text = yaml.safe_dump(
            stated | {
                "name": f"{name}-{ending}", "repeats": max(repeats, repeated), "arms": proven_arms,
                # Arms have other names here.
                "datasets": [_without(dataset, "arms") for dataset in stated["datasets"]],
            },
            sort_keys=False, allow_unicode=True,
        )  # fmt: skip
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.touch()
            shutil.copymode(study, path)  # It may hold what others shall not read.
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunnerError(
            f"The study of the proof cannot be written beside {study}: {error}; search with a copy "
            "of the study in a folder of yours."
        ) from None
    return f"{name}-{ending}", path


def _file_of_proof(study: Path, arms: list[str]) -> tuple[Path, str, int]:
    """Return the file of these arms' proof, the first that is free or is theirs, how its name ends, and
    the repeats that it has."""
    for number in itertools.count(1):
        ending = "proof" if number == 1 else f"proof-{number}"
        path = study.with_name(f"{study.stem}-{ending}.yaml")
        # Of nothing was one that was killed before it could write.
        if not path.exists() or not path.stat().st_size:
            break
        stated = yaml.safe_load(path.read_text(encoding="utf-8"))
        if [arm["name"] for arm in stated["arms"]] == arms:
            return path, ending, int(stated.get("repeats", 0))
    return path, ending, 0


def _arm_of(winner: Winner, arms: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arm of the study that the winner is of, with the winner's K."""
    alike = [arm for arm in arms if arm.get("speculative_config")
             and (winner.like == arm["name"] or winner.like.startswith(f"{arm['name']}-k"))]  # fmt: skip
    own = max(alike, key=lambda arm: len(arm["name"]))
    won = json.loads(winner.config or "{}")
    ks = {name: won[name] for name in ("num_speculative_tokens", TABLE) if name in won}
    return _without(own, "num_speculative_tokens") | {
        "name": winner.name,
        "speculative_config": own["speculative_config"] | ks,
    }


def _without(stated: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in stated.items() if key != name}


# --- The quality gate of a search: a command of the user's that looks at what an arm answered.
#
# It is given the folder of the arm's drops as its last word, once for each arm; a status other than 0 puts
# the arm out. What it said last, and its status, lie in that folder, so that it is not asked again after an
# interruption.


#: Hidden, so that no ingest takes it for a result.
_CHECKED = ".check.json"
_TEXT = 300


def check(folder: Path, command: str) -> None:
    """Look at the arm whose drops lie in ``folder``, unless this command did. Raises InvalidInput where
    the command cannot be started."""
    before = json_object(folder / _CHECKED) or {}
    if not folder.is_dir() or before.get("command") == command:
        return
    try:
        done = subprocess.run(
            [*shlex.split(command), str(folder)], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--check: {command!r} cannot be started ({error}); give a command that takes the folder of "
            "an arm's drops as its last word and ends with status 0 where the arm may be taken."
        ) from None
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"status {done.returncode}"]
    checked = {"command": command, "status": done.returncode, "said": lines[-1][:_TEXT]}
    (folder / _CHECKED).write_text(json.dumps(checked), encoding="utf-8")


def refused(drops: Path, command: str) -> tuple[ExcludedArm, ...]:
    """Return the arms that the command puts out, by what it said of them."""
    paths = sorted(drops.glob(f"*/{_CHECKED}"))
    # One that was cut short says nothing: it is written again.
    looks = {path.parent.name: json_object(path) or {} for path in paths}
    return tuple(
        ExcludedArm(arm, f"{command} refuses its answers: {checked['said']}")
        for arm, checked in looks.items()
        if checked.get("command") == command and checked["status"]
    )


# --- What the drops of a search say before anything is ingested: good cells, and who is out, why.


def good_cells(folder: Path) -> set[str]:
    """Return the cells of the plan that are good in the folder of a study, ``draft-k3/tp1/code/c16-r0``."""
    return {
        "/".join(path.parts[-5:-1]).partition("@")[0]
        for path in folder.glob("*/tp*/*/c*/record.json")
        if failed_of(path.parent.name) is None
    }


def given_up(folder: Path, attempts: int) -> tuple[ExcludedArm, ...]:
    """Return the arms that are out: a cell of theirs failed as often as the study allows, and was not
    measured since."""
    good = good_cells(folder)
    out: dict[str, ExcludedArm] = {}
    for record, cell, attempt in _failed(folder):
        if attempt >= attempts and cell not in good:
            arm, _, dataset, load = cell.split("/")
            why = record.get("failure") or "it does not say why"
            where = f"{dataset} at {load.rpartition('-r')[0].removeprefix('c')}"
            out[arm] = ExcludedArm(arm, f"{where}: {why}")
    return tuple(out.values())


def lost_min(folder: Path) -> float:
    """Return the minutes that failed cells took, from the start of the first one of a launch and attempt
    to the end of the last: they are spent like those of good ones."""
    spans: dict[tuple[str | None, int], list[datetime]] = {}
    for record, _, attempt in _failed(folder):
        moments = filter(None, (record.get("started_at"), record.get("ended_at")))
        span = spans.setdefault((record.get("launch"), attempt), [])
        span.extend(map(datetime.fromisoformat, moments))
    return sum((max(span) - min(span)).total_seconds() / 60 for span in spans.values() if span)


def _failed(folder: Path) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yield the records of failed cells, which cells of the plan they are, and which attempts."""
    for path in sorted(folder.glob("*/tp*/*/c*.failed-*/record.json")):
        attempt = failed_of(path.parent.name)
        if attempt is not None:
            cell = "/".join((*path.parts[-5:-2], attempt[0]))
            yield json_object(path) or {}, cell, attempt[1]


# --- The search itself: what comes next follows from its drops.


_GRACE_S = 180.0
#: How long a machine gets to be itself again, and how often in a row.
_PAUSE_S, _PAUSES = 120.0, 3


def search_on(
    task: SearchTask, study: SearchPlan, terms: SearchTerms, telling: Telling
) -> LiveSearch:
    """Measure until the search is over, and tell before every launch what is known. Raises
    RunnerError where a launch leaves nothing behind, and where the machine is not to be trusted."""
    pauses, measured, drops = 0, False, task.results / study.study
    while True:
        _wait_for_launches(drops)
        _check_arms(task, study)
        now = look(task, study, terms)
        telling.next(now)
        if not now.orders:
            return _prove(task, study, now, telling)
        # What was measured before this command began was paused for then.
        pauses = _pause(now.troubles, pauses) if measured else 0
        good = good_cells(drops)
        keys = {}
        for order in now.orders:
            # All loads of some datasets.
            ordered = {(dataset, f"c{load}") for dataset in order.datasets for load in order.loads}
            own = study.cells[order.launch_id]
            keys[order.launch_id] = [key for key in own if _dataset_and_load(key) in ordered]
        status = _run(task, task.study, [key for own in keys.values() for key in own])
        new = good_cells(drops) - good
        out = {arm.arm for arm in given_up(drops, study.attempts)} - {study.arms[0].label}
        for order in now.orders:
            if new.isdisjoint(keys[order.launch_id]) and order.step.arm not in out:
                raise RunnerError(nothing_left(task, study.study, order.launch_id, status))
        measured = True


def _check_arms(task: SearchTask, study: SearchPlan) -> None:
    """Let the user's command look at all arms that were measured and that it did not see yet, where
    there is one; also at those that were measured before this command began."""
    if task.check is not None:
        drops = task.results / study.study
        measured = {key.partition("/")[0] for key in good_cells(drops)}
        for arm in sorted(measured - {study.arms[0].label}):
            check(drops / arm, task.check)


def _pause(troubles: tuple[str, ...], pauses: int, pause_s: float = _PAUSE_S) -> int:
    """Wait where the machine throttled, drifted or was not alone; return how often in a row it did.
    Raises RunnerError where waiting did not help."""
    if not troubles:
        return 0
    if pauses == _PAUSES:
        raise RunnerError(
            f"The race is paused: {' '.join(troubles)} {pauses} pauses of {pause_s:.0f} s did not help. "
            "Mend the machine and give the same command again: it goes on from here."
        )
    click.echo(f"paused for {pause_s:.0f} s: {' '.join(troubles)}", err=True)
    time.sleep(pause_s)
    return pauses + 1


def look(task: SearchTask, study: SearchPlan, terms: SearchTerms) -> LiveSearch:
    """Return what the drops so far tell, and what comes next."""
    drops = task.results / study.study
    out = given_up(drops, study.attempts)
    if not good_cells(drops):
        return live(None, study, terms, out, lost_min(drops))
    _ingest(drops, task.warehouse)
    with closing(Reader(task.warehouse)) as reader:
        out += _not_to_be_taken(task, reader, study.study, study.arms[0].label)
        return live(reader, study, terms, out, lost_min(drops))


def _not_to_be_taken(
    task: SearchTask, reader: Reader, name: str, baseline: str
) -> tuple[ExcludedArm, ...]:
    """Return the arms of a study whose answers keep them from being taken."""
    out = () if task.check is None else refused(task.results / name, task.check)
    return out if task.any_outputs else out + answering_otherwise(reader, name, baseline)


def _prove(task: SearchTask, study: SearchPlan, now: LiveSearch, telling: Telling) -> LiveSearch:
    """Measure the winner beside the baseline and the runner-up in fresh launches, where there is one
    that drafts."""
    best = now.winner
    if best is None or best.config is None:
        return now
    arms = [best] if now.rival is None else [best, now.rival]
    name, file = write_proof(task.study, study.study, arms, LAUNCHES)
    _wait_for_launches(task.results / name)
    beside = "" if now.rival is None else f" and those of {now.rival.like}, the runner-up"
    telling.proving(
        now, f"Proof: {best.words}, {LAUNCHES} launches beside the baseline's{beside}.",
        LAUNCHES * (1 + len(arms)) * study.launch_min,
    )  # fmt: skip
    _run(task, file)
    if task.check is not None:
        check(task.results / name / best.name, task.check)
    _ingest(task.results / name, task.warehouse)
    with closing(Reader(task.warehouse)) as reader:
        out = _not_to_be_taken(task, reader, name, study.arms[0].label)
        report = proven(reader, study, now, name, out)
    if report.proof is None:
        raise RunnerError(
            "The winner is found and not proven: its fresh launches are not whole. What `draftboard "
            f"run` printed above says why, and {task.results / name / 'logs'} what its servers said; the same "
            "command goes on with the proof alone."
        )
    now = replace(now, told=report)
    telling.over(now)
    return now


def _wait_for_launches(drops: Path) -> None:
    """Wait for launches that are still measured: where a search was killed, its last one goes on."""
    for path in sorted(drops.glob("logs/*.lock")):
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            click.echo(f"waiting for {path.stem}, which is still measured", err=True)
            lock.acquire(poll_interval=1)
        lock.release()


def _dataset_and_load(key: str) -> tuple[str, str]:
    """Return ``code`` and ``c16`` of the cell ``draft-k3/tp1/code/c16-r0``."""
    *_, dataset, load = key.rpartition("-r")[0].split("/")
    return dataset, load


def nothing_left(task: SearchTask, study: str, launch: str, status: int) -> str:
    """Say what became of a launch that ended and left no good cell here, where to look, and what to do
    next. ``status``: the exit status of its `draftboard run`."""
    again = "the same command goes on from here and measures only what is missing."
    if task.on == "local":
        return (
            f"{launch} left nothing that was measured, so the search cannot go on; what `draftboard run` "
            f"printed above says why, and {task.results / study / 'logs'} what its server said. Mend it; {again}"
        )
    logs = f"draftboard cluster logs {task.study} {launch} --results {task.results}"
    if status:
        return (
            f"{launch} failed on {task.on}, so the search cannot go on; what `draftboard run` printed above "
            f"says why, and `{logs}` what its job said. Mend it; {again}"
        )
    return (
        f"{launch} ended on {task.on} without an error, and no result of it lies in {task.results / study}: "
        "its node writes to a folder that this machine does not see, or the shared file system is late. "
        f"`{logs}` shows what it measured, if the log is here; else look on the node. Name a folder with "
        "--results that the nodes and this machine share, or copy the node's folder here and bring it in "
        f"with `draftboard collect FOLDER --results {task.results}`; {again}"
    )


def _run(task: SearchTask, study: Path, cells: Sequence[str] = ()) -> int:
    """Do what `draftboard run` does, in a process of its own: it goes on where the search is killed.
    Return its exit status; what it prints goes where ours goes."""
    words = ["run", str(study), "--results", str(task.results), "--on", task.on]
    words += [] if task.cluster is None else ["--cluster", str(task.cluster)]
    words += [word for key in cells for word in ("--cell", key)]
    if task.parallel is not None and task.on == "local":  # A cluster does so by itself.
        words += ["--parallel", str(task.parallel)]
    child = multiprocessing.get_context("spawn").Process(target=draftboard.main, args=(words,))
    child.start()
    try:
        child.join()
    except KeyboardInterrupt:
        # Ctrl-C reached it as well; a scheduler's SIGTERM did not.
        os.kill(child.pid or 0, signal.SIGINT)
        child.join(_GRACE_S)
        raise
    return child.exitcode or 0


def _ingest(drops: Path, warehouse: Path) -> None:
    """Take the drops of a study into a warehouse. Raises RunnerError with the first that is rejected:
    a search cannot tell what it does not see. Where a drop was set aside or measured again the
    warehouse begins anew: what the drop said before would count, too."""
    outcome = take_in([drops], warehouse, keep_text=True)
    if not outcome.rejected:
        paths = [source.path for source in held_sources(warehouse)]
        if len(set(paths)) < len(paths) or not all(path.exists() for path in paths):
            outcome = take_in([drops], warehouse, keep_text=True, rebuild=True)
    for rejection in outcome.rejected:
        raise RunnerError(
            f"A result of this search cannot be taken in, {rejection.path}: {rejection.reason} Mend it, "
            f"or move it out of {drops}; the same command goes on from here."
        )
