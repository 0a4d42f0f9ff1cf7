"""The stages of a night: what each one starts, and what it makes of the answer."""

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from nightly import nights, words
from nightly.messages import Settings, notify, without_addresses
from nightly.nights import Book, Budget, Child, Place, places
from warehouse.beside import StageName, StageStatus
from warehouse.errors import NothingToReport, RunnerError

# --- A stage as a process: a session of its own, its words in a log, ended with this one.
#
# The child writes into the log itself and this process reads it from there. So nothing of the log is
# lost when this process is killed; the child is then asked to end by the system.


#: How long a stage may take to end when it is asked to; `run` ends its servers in that time.
GRACE_S = 180.0
#: Seldom enough not to disturb what is measured beside it.
_STEP_S = 0.5
_BEAT_S = 15.0
#: prctl(2): the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """A command of a stage. ``answer``: the file that gets stdout, else the log; ``environment``:
    all of it."""

    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    answer: Path | None = None


@dataclass(frozen=True)
class Watching:
    """What is called while a command runs. ``began`` is told the child at once, ``beat`` the
    seconds so far every few seconds; after ``allowed_s`` (None: no limit) the child is interrupted.
    ``echo`` gets what it says."""

    began: Callable[[Child], None]
    beat: Callable[[float], None]
    echo: Callable[[str], None]
    allowed_s: float | None = None


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``status``: exit status, negative for a signal; ``in_time``: False where
    it was stopped."""

    status: int
    seconds: float
    in_time: bool


def follow(command: Command, watching: Watching) -> Ended:
    """Run a command to its end; an exception here (Ctrl-C) ends the child before it goes on."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    start = command.log.stat().st_size if command.log.exists() else 0
    began = time.monotonic()
    with contextlib.ExitStack() as open_files:
        log = open_files.enter_context(command.log.open("ab"))
        out: IO[bytes] = log
        if command.answer is not None:
            out = open_files.enter_context(command.answer.open("wb"))
        process = subprocess.Popen(
            command.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
            env=dict(command.environment), start_new_session=True, preexec_fn=_end_with_parent,
        )  # fmt: skip
    try:
        watching.began(Child(pid=process.pid, began=psutil.Process(process.pid).create_time()))
        with command.log.open("rb") as said:
            said.seek(start)
            in_time = _watched(process, said, watching)
    finally:
        end(process)
    return Ended(process.returncode, time.monotonic() - began, in_time)


def _end_with_parent() -> None:
    """Ask the system, in the child, for SIGTERM when the parent dies, however it dies."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _watched(process: "subprocess.Popen[bytes]", said: IO[bytes], watching: Watching) -> bool:
    """Wait for the end and pass the child's words on. Return whether it ended before it was
    stopped."""
    began = beaten = time.monotonic()
    while process.poll() is None:
        watching.echo(said.read().decode("utf-8", "replace"))
        now = time.monotonic()
        if now - beaten >= _BEAT_S:
            watching.beat(now - began)
            beaten = now
        if watching.allowed_s is not None and now - began >= watching.allowed_s:
            end(process)
            watching.echo(said.read().decode("utf-8", "replace"))
            return False
        time.sleep(_STEP_S)
    watching.echo(said.read().decode("utf-8", "replace"))
    return True


def end(process: "subprocess.Popen[bytes]", grace_s: float = GRACE_S) -> None:
    """Interrupt a stage as Ctrl-C does, and kill its whole group if it does not end."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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


# --- The stages of a night: what each one starts, and what it makes of the answer.


#: ``-P``: a folder of the user's called like one of our packages must not hide it.
PROGRAM = (sys.executable, "-P", "-m", "draftboard")
_TEXT = 400


@dataclass(frozen=True)
class Came:
    """How a stage ended, and why it did not do its work."""

    status: StageStatus
    said: str = ""


@dataclass
class Night:
    """A night at work. ``measure``: whether what is missing is still to be measured."""

    book: Book
    settings: Settings
    measure: bool = True

    @property
    def place(self) -> Place:
        """The night's folder."""
        return self.book.place

    def start(
        self, stage: StageName, *words_: str, answer: bool = False, allowed_s: float | None = None
    ) -> Ended:
        """Run a command of ours to its end; what it says goes to the stage's log and the terminal."""
        place, book = self.place, self.book
        command = Command(
            argv=(*PROGRAM, *words_),
            log=place.log(stage),
            environment=without_addresses(),
            answer=place.answer(stage) if answer else None,
        )
        before = book.state.measured_s

        def beat(seconds: float) -> None:
            if stage == "run":
                book.keep(measured_s=before + seconds)

        watching = Watching(
            began=lambda child: book.keep(child=child),
            beat=beat, echo=self.settings.echo, allowed_s=allowed_s,
        )  # fmt: skip
        ended = follow(command, watching)
        beat(ended.seconds)
        book.keep(child=None)
        return ended


def plan(night: Night) -> Came:
    """Lay out the study: its cells, and what an hour of its node costs."""
    ended = night.start("plan", "plan", str(night.settings.study), "--json", answer=True)
    said = _answer(night, "plan")
    if ended.status or said is None:
        return _failed(night, "plan", ended)
    keys = tuple(key for launch in said["launches"] for key in launch["cells"])
    price = _usd_per_hour(said["estimate"])
    night.book.keep(planned=keys, usd_per_hour=price, laid_out=hash_of(night.settings.study))
    return Came("done")


def hash_of(study: Path) -> str:
    """Return the hash of the study file, empty if it cannot be read. A file with another hash has
    to be laid out again."""
    try:
        return hashlib.sha256(study.read_bytes()).hexdigest()
    except OSError:
        return ""


def _usd_per_hour(estimate: dict[str, Any]) -> float | None:
    """Return the price of an hour of the node as the estimate charges it, which says only the sum;
    None where it has no price."""
    usd, hours = estimate["usd"], estimate["hours"]
    return None if usd is None or not hours else usd / hours


def run(night: Night) -> Came:
    """Measure what is missing, as far as the budget reaches."""
    if not night.measure:
        return Came("stopped", "an earlier call was ended, and this night was not taken up in time")
    try:
        budget = Budget(night.settings.limits, night.book.state.usd_per_hour)
    except RunnerError as error:
        return Came("failed", str(error))
    left = budget.left_s(night.book.state.measured_s)
    if left == 0:
        return Came("stopped", _spent(night, budget))
    ended = night.start(
        "run", "run", str(night.settings.study), "--results", str(night.place.root),
        *night.settings.run, allowed_s=left,
    )  # fmt: skip
    if not ended.in_time and _counted(night).good < len(night.book.state.planned):
        return Came("stopped", _spent(night, budget) + _end_launches(night))
    return _failed(night, "run", ended) if ended.status and ended.in_time else Came("done")


def _spent(night: Night, budget: Budget) -> str:
    known = _counted(night)
    lacking = known.planned - known.good
    return (
        f"the budget of {budget} is spent; {words.counted(lacking, 'cell')} of {known.planned} "
        f"{'is' if lacking == 1 else 'are'} not measured"
    )


def _end_launches(night: Night) -> str:
    """End the launches on Slurm, which would outlive the night and go on spending. Return what is
    to be said where that failed."""
    if not {"slurm", "--on=slurm"} & set(night.settings.run):
        return ""
    words_ = ("cluster", "cancel", str(night.settings.study), "--results", str(night.place.root))
    ended = night.start("run", *words_)
    return (
        f"; its jobs may still run, end them: draftboard {' '.join(words_)}" if ended.status else ""
    )


def _counted(night: Night) -> Any:
    return nights.count(night.place, night.book.state.planned)


def ingest(night: Night) -> Came:
    """Take in what there is, also of a night that was stopped."""
    known = _counted(night)
    if not known.good and not known.failed:
        return Came("skipped", "nothing was measured")
    ended = night.start(
        "ingest", "ingest", str(night.place.own), "--json",
        "--warehouse", str(night.settings.warehouse), answer=True,
    )  # fmt: skip
    said = _answer(night, "ingest")
    if said is None or (ended.status and not said["rejected"]):
        return _failed(night, "ingest", ended)
    if said["rejected"]:
        first = said["rejected"][0]
        count = words.counted(len(said["rejected"]), "file")
        return Came("failed", f"{count} rejected, the first: {first['path']}: {first['reason']}")
    return Came("done")


def gate(night: Night) -> Came:
    """Judge this study's series over all its nights."""
    settings = night.settings
    ended = night.start(
        "gate", "gate", "--json", "--warehouse", str(settings.warehouse),
        "--study", night.place.study, *settings.gate, answer=True,
    )  # fmt: skip
    found = words.read(night.place.answer("gate"))
    if found is None:
        return _failed(night, "gate", ended)
    night.book.tell(**found.summary)
    return Came("done")


def report(night: Night) -> Came:
    """Write the study's report beside the results."""
    settings = night.settings
    link = ("--link", settings.link) if settings.link else ()
    ended = night.start(
        "report", "report", "--warehouse", str(settings.warehouse), "--study", night.place.study,
        "--out", str(night.place.report), *link,
    )  # fmt: skip
    if ended.status == 0:
        return Came("done")
    failed = _failed(night, "report", ended)
    return Came("skipped", failed.said) if ended.status == NothingToReport.status else failed


def tell(night: Night) -> Came:
    """Say what is worth a message; what cannot be delivered waits, and fails nothing."""
    _decide(night)
    summary = night.book.summary
    summary = summary.model_copy(update={"outcome": words.outcome_of(summary)})
    undelivered = notify(summary, night.place.answer("gate"), night.settings)
    night.book.tell(undelivered=undelivered)
    return Came("done")


def _decide(night: Night) -> None:
    """Record what is decided now, once a night; without results there is nothing to decide."""
    if night.book.summary.decided:
        return
    night.start(
        "notify", "verdict", "--json", "--record", "--warehouse", str(night.settings.warehouse),
        "--study", night.place.study, answer=True,
    )  # fmt: skip
    said = _answer(night, "notify") or {"decisions": [], "changed": []}
    mixes = [one for one in said["decisions"] if "mix" in one["traffic"]]
    told = tuple(one["paragraph"] for one in mixes or said["decisions"])
    night.book.tell(decided=told[: words.MOST], redecided=tuple(said["changed"])[: words.MOST])


#: In this order. The night's own figures are brought up to date before each of them.
WORK: dict[StageName, Callable[[Night], Came]] = {
    "plan": plan, "run": run, "ingest": ingest, "gate": gate, "notify": tell, "report": report,
}  # fmt: skip


def figures(night: Night) -> dict[str, Any]:
    """Return what the summary says of the cells, of what is set otherwise, of time and money."""
    place, state = night.place, night.book.state
    price = state.usd_per_hour
    return {
        "cells": nights.count(place, state.planned),
        "failures": nights.failures(place, state.planned),
        "changed": nights.changed(place, _earlier(place), state.planned),
        "measuring_hours": state.measured_s / 3600,
        "cost_usd": None if price is None else state.measured_s / 3600 * price,
    }


def _earlier(place: Place) -> Place | None:
    """Return the night before of the same study."""
    before = [one for one in places(place.results, place.study) if one.night < place.night]
    return before[-1] if before else None


def _answer(night: Night, stage: StageName) -> dict[str, Any] | None:
    try:
        said = json.loads(night.place.answer(stage).read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _failed(night: Night, stage: StageName, ended: Ended) -> Came:
    """Return that a stage failed, with its own last words."""
    log = night.place.log(stage)
    last = _last_line(log).removeprefix("draftboard: ").removeprefix("Error: ")
    how = f"exit status {ended.status}" if ended.status >= 0 else f"signal {-ended.status}"
    where = log.relative_to(night.place.own)  # The whole path may name a user.
    return Came("failed", f"{last or 'it said nothing'} ({how}; {where})")


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:_TEXT] for line in reversed(lines) if line.strip()), "")
