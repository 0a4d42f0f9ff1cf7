"""A call of the nightly, and the stages of a night: each a process of its own, its words in a log, ended with this
one.

The process writes into the log itself and this one reads it from there. So nothing of the log is lost
when this process is killed; the stage is then asked to end by the system.
"""

import contextlib
import ctypes
import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import click
import psutil

from commands.terminal import QUEUED_AT, reading
from nightly.messages import Settings, flush, forget_addresses, notify
from nightly.nights import (
    EXIT,
    MOST_JUDGED,
    Child,
    Judgement,
    NightFolder,
    NightState,
    budget,
    cells_of,
    changed,
    date_of,
    judgement_of,
    left_s,
    night_folders,
    outcome_of,
    read_judgement,
    write_summary,
)
from warehouse.beside import STAGES, NightSummary, Stage, StageName, StageStatus
from warehouse.catalogue import counted
from warehouse.errors import DraftboardError, NothingToReport, RunnerError
from warehouse.filters import Filters
from warehouse.json_text import for_terminal
from warehouse.secrets import scrub_text
from warehouse.storage.files import write_whole

#: How long a stage may take to end when it is asked to; `run` ends its servers in that time.
GRACE_S = 180.0
#: Seldom enough not to disturb what is measured beside it.
_STEP_S = 0.5
_BEAT_S = 15.0
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SPAWN = multiprocessing.get_context("spawn")
_TEXT = 400


@dataclass(frozen=True)
class Ended:
    """How the process of a stage ended. ``status``: exit status, negative for a signal; ``in_time``:
    False where it was stopped; ``answer``: what its work returned, None where it did not come to it."""

    status: int
    in_time: bool
    answer: Any = None


@dataclass(frozen=True)
class StageEnd:
    """How a stage ended, and why it did not do its work."""

    status: StageStatus
    said: str = ""


class NightRun:
    """A night at work: every change of its state is on the disk before work goes on, and the history
    shows it. ``measure``: whether what is missing is still to be measured."""

    def __init__(
        self, folder: NightFolder, state: NightState, settings: Settings, measure: bool = True
    ) -> None:
        self.folder, self.state, self.settings, self.measure = folder, state, settings, measure

    @property
    def summary(self) -> NightSummary:
        return self.state.summary

    def keep(self, **changes: object) -> None:
        """Change fields of the state, and write it to the disk."""
        self.state = self.state.model_copy(update=changes)
        write_whole(self.folder.state, self.state.model_dump_json(indent=1) + "\n")

    def tell(self, **changes: object) -> None:
        """Change fields of the summary, and show it in the history."""
        self.keep(summary=self.summary.model_copy(update=changes))
        write_summary(self.settings.warehouse, self.summary)

    def start(
        self, stage: StageName, work: Callable[[], Any], allowed_s: float | None = None
    ) -> Ended:
        """Do work in a process of its own, to its end or until ``allowed_s`` are over (None: no limit);
        what it says goes to the stage's log and the terminal. An exception here (Ctrl-C) ends it."""
        log = self.folder.log(stage)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        echo, answer, in_time = self.settings.echo, None, True
        measured_s, began = self.state.measured_s, time.monotonic()
        beaten = began
        reader, writer = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_in_child, args=(work, log, writer, os.getpid()))
        with log.open("rb") as said:
            said.seek(0, os.SEEK_END)
            process.start()
            writer.close()
            try:
                with contextlib.suppress(EOFError):
                    reader.recv()  # It begins now, and from now on it ends when this process does.
                began_at = psutil.Process(process.pid or 0).create_time()
                self.keep(child=Child(pid=process.pid or 0, began=began_at))
                alive = True
                while alive:
                    process.join(_STEP_S)
                    # Asked before it is read, so that what it says at its end is read as well.
                    alive = process.is_alive()
                    with contextlib.suppress(EOFError):
                        answer = reader.recv() if reader.poll() else answer
                    echo(said.read().decode("utf-8", "replace"))
                    now = time.monotonic()
                    if stage == "run" and (not alive or now - beaten >= _BEAT_S):
                        self.keep(measured_s=measured_s + now - began)
                        beaten = now
                    if in_time and allowed_s is not None and now - began >= allowed_s:
                        in_time = False
                        end(process)
            finally:
                end(process)
        self.keep(child=None)
        assert process.exitcode is not None
        return Ended(process.exitcode, in_time, answer)

    def failed(self, stage: StageName, ended: Ended) -> StageEnd:
        """Return that a stage failed, with its own last words."""
        log = self.folder.log(stage)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((line.strip()[:_TEXT] for line in reversed(lines) if line.strip()), "")
        last = last.removeprefix("draftboard: ").removeprefix("Error: ") or "it said nothing"
        how = f"exit status {ended.status}" if ended.status >= 0 else f"signal {-ended.status}"
        where = log.relative_to(self.folder.own)  # The whole path may name a user.
        return StageEnd("failed", f"{last} ({how}; {where})")


def _in_child(work: Callable[[], Any], log: Path, answers: Connection, parent: int) -> None:
    """Do the work of a stage: a session of its own, without the addresses of messages, its words in
    the log.
    """
    os.setsid()
    if _LIBC is not None:
        # However the parent dies, the system then asks for the end of this process.
        # prctl(2): the signal that a process gets when its parent dies.
        _LIBC.prctl(1, signal.SIGTERM)
        if os.getppid() != parent:
            raise SystemExit(128 + signal.SIGTERM)
    forget_addresses()
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    answers.send("begun")
    try:
        answers.send(work())
    except DraftboardError as error:
        click.echo(f"draftboard: {for_terminal(str(error))}", err=True)
        raise SystemExit(error.status) from None


def end(process: SpawnProcess, grace_s: float = GRACE_S) -> None:
    """Interrupt a stage as Ctrl-C does, and kill its whole group if it does not end."""
    if not process.is_alive():
        return
    os.kill(process.pid or 0, signal.SIGINT)
    process.join(grace_s)
    if process.is_alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()


def end_left_over(child: Child, grace_s: float = GRACE_S) -> None:
    """Wait until the stage of a call that was killed has ended; kill it if it does not.

    On Linux it was asked to when its parent died, and to ask twice would disturb its tidying up.
    """
    try:
        process = psutil.Process(child.pid)
        if abs(process.create_time() - child.began) > 1:
            return  # The number is somebody else's by now.
        if _LIBC is None:
            process.terminate()
        process.wait(grace_s)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


# --- What the stages do, in their processes; what is heavy is imported there.


def _command(*arguments: str) -> None:
    """Do what one of our commands does, with options as somebody typed them."""
    import draftboard

    draftboard.main(arguments)


def _lay_out(study: Path) -> tuple[tuple[str, ...], float | None]:
    """Return the keys of a study's cells, and the price of an hour of its node as the estimate charges
    it, which says only the sum; None where it has no price."""
    from commands.running.plan import planned

    plan, costs, _ = planned(study)
    price = None if costs.usd is None or not costs.hours else costs.usd / costs.hours
    return tuple(cell.key for cell in plan.cells), price


def _take_in(results: Path, warehouse: Path) -> list[tuple[str, str]]:
    """Ingest; return the path and the reason of each file that is rejected."""
    from commands.keeping.ingest import take_in

    return [(one.path, one.reason) for one in take_in([results], warehouse).rejected]


def _judge(
    warehouse: Path, study: str, since: datetime | None, max_regression: tuple[str, ...]
) -> Judgement:
    """Judge a study's series over all its nights."""
    from commands.gate import judge

    return judgement_of(judge(warehouse, Filters(study=(study,)), since, max_regression))


def _decide(warehouse: Path, study: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Record what is decided now. Return it, a paragraph each, and what is decided otherwise than it
    was last recorded.
    """
    from answers.decide.values import DecideQuestion
    from commands.decide import decided, record

    with reading(warehouse) as reader:
        found, changes = decided(reader, DecideQuestion(filters=Filters(study=(study,))))
    record(warehouse, found)
    mixes = [decision for decision in found.decisions if decision.traffic.mix]
    return tuple(one.paragraph for one in mixes or found.decisions), tuple(changes)


# --- The stages of a night: what each one starts, and what it makes of the answer.


def plan(night: NightRun) -> StageEnd:
    """Lay out the study: its cells, and what an hour of its node costs."""
    study = night.settings.study
    ended = night.start("plan", partial(_lay_out, study))
    if ended.answer is None:
        return night.failed("plan", ended)
    keys, price = ended.answer
    night.keep(planned=keys, usd_per_hour=price, laid_out=hash_of(study))
    return StageEnd("done")


def hash_of(study: Path) -> str:
    """Return the hash of the study file, empty if it cannot be read. A file with another hash has
    to be laid out again."""
    try:
        return hashlib.sha256(study.read_bytes()).hexdigest()
    except OSError:
        return ""


def run(night: NightRun) -> StageEnd:
    """Measure what is missing, as far as the budget reaches."""
    if not night.measure:
        why = "an earlier call was ended, and this night was not taken up in time"
        return StageEnd("stopped", why)
    settings = night.settings
    where = (str(settings.study), "--results", str(night.folder.root))
    try:
        left = left_s(settings.limits, night.state.usd_per_hour, night.state.measured_s)
    except RunnerError as error:
        return StageEnd("failed", str(error))
    if left == 0:
        return StageEnd("stopped", _spent(night))
    ended = night.start("run", partial(_command, "run", *where, *settings.run), allowed_s=left)
    if ended.in_time:
        return night.failed("run", ended) if ended.status else StageEnd("done")
    if cells_of(night.folder, night.state.planned)[0].good == len(night.state.planned):
        return StageEnd("done")
    why = _spent(night)
    if any(word.removeprefix("--on=") in QUEUED_AT for word in settings.run):
        # Launches on a cluster would outlive the night and go on spending.
        cancel = ("cluster", "cancel", *where)
        if night.start("run", partial(_command, *cancel)).status:
            why += f"; its jobs may still run, end them: draftboard {' '.join(cancel)}"
    return StageEnd("stopped", why)


def _spent(night: NightRun) -> str:
    count, _ = cells_of(night.folder, night.state.planned)
    lacking = count.planned - count.good
    return (
        f"the budget of {budget(night.settings.limits)} is spent; {counted(lacking, 'cell')} of {count.planned} "
        f"{'is' if lacking == 1 else 'are'} not measured"
    )


def ingest(night: NightRun) -> StageEnd:
    """Take in what there is, also of a night that was stopped."""
    count, _ = cells_of(night.folder, night.state.planned)
    if not count.good and not count.failed:
        return StageEnd("skipped", "nothing was measured")
    ended = night.start("ingest", partial(_take_in, night.folder.own, night.settings.warehouse))
    if ended.answer is None:
        return night.failed("ingest", ended)
    for path, reason in ended.answer:
        files = counted(len(ended.answer), "file")
        return StageEnd("failed", f"{files} rejected, the first: {path}: {reason}")
    return StageEnd("done")


def gate(night: NightRun) -> StageEnd:
    """Judge this study's series over all its nights."""
    settings, study = night.settings, night.folder.study
    ended = night.start("gate", partial(
        _judge, settings.warehouse, study, settings.since, settings.max_regression))  # fmt: skip
    judged: Judgement | None = ended.answer
    if judged is None:
        return night.failed("gate", ended)
    write_whole(night.folder.judgement, judged.model_dump_json())
    night.tell(
        verdict=judged.verdict, regressions=judged.regressions[:MOST_JUDGED],
        drifts=tuple(drift.said for drift in judged.drifts[:MOST_JUDGED]),
    )  # fmt: skip
    return StageEnd("done")


def report(night: NightRun) -> StageEnd:
    """Write the study's report beside the results."""
    settings = night.settings
    link = ("--link", settings.link) if settings.link else ()
    ended = night.start("report", partial(
        _command, "share", "report", "--warehouse", str(settings.warehouse),
        "--study", night.folder.study, "--out", str(night.folder.report), *link,
    ))  # fmt: skip
    if ended.status == 0:
        return StageEnd("done")
    failed = night.failed("report", ended)
    return StageEnd("skipped", failed.said) if ended.status == NothingToReport.status else failed


def tell_people(night: NightRun) -> StageEnd:
    """Say what is worth a message; what cannot be delivered waits, and fails nothing.

    What is decided now is recorded once a night; without results there is nothing to decide.
    """
    settings = night.settings
    if not night.summary.decided:
        ended = night.start("notify", partial(_decide, settings.warehouse, night.folder.study))
        paragraphs, changes = ended.answer or ((), ())
        night.tell(decided=paragraphs[:MOST_JUDGED], redecided=changes[:MOST_JUDGED])
    summary = night.summary.model_copy(update={"outcome": outcome_of(night.summary)})
    night.tell(undelivered=notify(summary, read_judgement(night.folder.judgement), settings))
    return StageEnd("done")


#: In this order. The night's own figures are brought up to date before each of them.
WORK: dict[StageName, Callable[[NightRun], StageEnd]] = {
    "plan": plan, "run": run, "ingest": ingest, "gate": gate, "notify": tell_people, "report": report,
}  # fmt: skip


def figures(night: NightRun) -> dict[str, object]:
    """Return what the summary says of the cells, of what is set otherwise, of time and money."""
    folder, state = night.folder, night.state
    nights = night_folders(folder.results, folder.study)
    earlier = [each for each in nights if each.night < folder.night]
    cells, failures = cells_of(folder, state.planned)
    hours, price = state.measured_s / 3600, state.usd_per_hour
    return {
        "cells": cells,
        "failures": failures,
        "changed": changed(folder, earlier[-1] if earlier else None, state.planned),
        "measuring_hours": hours,
        "cost_usd": None if price is None else hours * price,
    }


# --- A call of the nightly: which night it is for, its stages one after the other, how it ends.


#: A night that is not whole is taken up again by a call so soon after its start; a timer's next
#: call, a day later, begins a new one.
TAKEN_UP = timedelta(hours=20)
_WHOLE = ("fine", "regression", "not enough evidence")


def conduct(settings: Settings, study: str) -> NightSummary:
    """Do what is due. Return the night that this call worked at, or found done. Raises
    RunnerError.

    Nights that were killed are closed: what they measured is taken in, and what they lack is said.
    """
    now = datetime.now(UTC)
    folders, nights = night_folders(settings.results, study), []
    for folder in folders:
        try:
            nights.append(NightRun(folder, folder.read_state(), settings))
        except RunnerError as error:
            # A damaged state file must not keep tonight from being measured.
            settings.echo(f"nightly: {error}\n")
    nights.sort(key=lambda night: night.summary.started)
    last = nights[-1] if nights and not settings.again else None
    is_whole = last is not None and last.summary.outcome in _WHOLE
    if last is not None and is_whole and last.folder.night[:10] == date_of(now):
        settings.echo(
            f"The night of {last.folder.night} is done ({last.summary.outcome}); nothing is "
            "due. --again begins another one.\n"
        )
        undelivered = flush(settings, study)
        if undelivered != last.summary.undelivered:
            last.tell(undelivered=undelivered)
        return last.summary
    if last is not None and not is_whole and now - last.summary.started < TAKEN_UP:
        tonight = nights.pop()
    else:
        taken, day = {folder.night for folder in folders}, date_of(now)
        # A second night of one evening.
        names = [day, *(f"{day}.{number}" for number in range(2, len(taken) + 3))]
        summary = NightSummary(
            study=study, night=next(name for name in names if name not in taken), started=now
        )
        folder = NightFolder(settings.results, study, summary.night)
        tonight = NightRun(folder, NightState(summary=summary), settings)
    for night in nights:
        if night.summary.outcome == "unfinished":
            night.measure = False
            _through(night)
    return _through(tonight)


def _through(night: NightRun) -> NightSummary:
    """Go through all stages that are not done; those behind one that was done again are done again
    too.
    """
    if night.state.child is not None:
        end_left_over(night.state.child)
        night.keep(child=None)
    night.tell(
        calls=night.summary.calls + 1, limits=night.settings.limits, outcome="unfinished",
        exit_status=None,
    )  # fmt: skip
    for name in STAGES:
        other_study = night.measure and night.state.laid_out != hash_of(night.settings.study)
        done = night.summary.stage(name).status == "done"
        if not done or (name == "plan" and other_study):
            # This stage, and all stages after it, are still to be done.
            later = STAGES[STAGES.index(name) :]
            changes: dict[str, object] = {"stages": _with(night, later, status="pending", said="")}
            if "gate" in later:
                changes |= {"verdict": None, "regressions": (), "drifts": ()}
                # Of an earlier call; nobody may go by it.
                night.folder.judgement.unlink(missing_ok=True)
            night.tell(**changes)
            _stage(night, name)
    if night.summary.stage("report").status == "failed":
        tell_people(night)  # Whoever was told that all is well should know.
    outcome = outcome_of(night.summary)
    status = EXIT[outcome] if EXIT[outcome] != 2 else night.settings.open_exit
    night.tell(outcome=outcome, exit_status=status, ended=datetime.now(UTC))
    return night.summary


def _stage(night: NightRun, name: StageName) -> None:
    night.settings.echo(f"nightly: {name}\n")
    began = time.monotonic()
    try:
        ended = _needs(night, name) or WORK[name](night)
    finally:
        # Also where it is interrupted: the time was spent.
        seconds = night.summary.stage(name).seconds + time.monotonic() - began
        spent = _with(night, (name,), seconds=seconds)
        night.keep(summary=night.summary.model_copy(update={"stages": spent}))
    why = scrub_text(ended.said)
    night.tell(stages=_with(night, (name,), status=ended.status, said=why), **figures(night))
    if why:
        night.settings.echo(f"nightly: {name} {ended.status}: {why}\n")


def _needs(night: NightRun, name: StageName) -> StageEnd | None:
    """Say why a stage has nothing to work with; None where it has."""
    if name in ("plan", "notify"):
        return None
    if night.summary.stage("plan").status != "done":
        return StageEnd("skipped", "the study could not be laid out")
    if name in ("gate", "report") and night.summary.stage("ingest").status == "skipped":
        return StageEnd("skipped", "nothing was taken in")
    return None


def _with(night: NightRun, names: Sequence[StageName], **changes: object) -> tuple[Stage, ...]:
    """Return the stages of a night, those of these names with other fields."""
    return tuple(
        stage.model_copy(update=changes) if stage.name in names else stage
        for stage in night.summary.stages
    )
