"""A search that measures: each launch by ``draftboard run``, what comes next from its drops.

Nothing is kept but the drops of an ordinary study, and a warehouse of them beside it that can be
made anew. So a search that was killed anywhere goes on from what lies there.
"""

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from filelock import FileLock, Timeout

from commands.ours import PROGRAM, asked, rejected
from commands.search_plan import dataset_and_load, planned, write_proof
from warehouse.contract import failed_of
from warehouse.errors import InvalidInput, RunnerError

if TYPE_CHECKING:
    from answers.search.live import Live, Order, Planned
    from answers.search.values import Out, Terms
    from commands.search_board import Telling
    from warehouse.store import Reader


# --- The quality gate of a search: a command of the user's that looks at what an arm answered.
#
# It is given the folder of the arm's drops as its last word, once for each arm; a status other than 0 puts
# the arm out. What it said lies in that folder, so that it is not asked again after an interruption.


#: Hidden, so that no ingest takes it for a result.
_NAME = ".check.json"
_TEXT = 300


def check(folder: Path, command: str) -> None:
    """Look at the arm whose drops lie in ``folder``, unless this command did. Raises InvalidInput where
    the command cannot be started."""
    if not folder.is_dir() or _said(folder).get("command") == command:
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
    said = {"command": command, "status": done.returncode, "said": lines[-1][:_TEXT]}
    (folder / _NAME).write_text(json.dumps(said), encoding="utf-8")


def refused(drops: Path, command: str) -> "tuple[Out, ...]":
    """Return the arms that the command puts out, by what it said of them."""
    from answers.search.values import Out

    told = {path.parent.name: _said(path.parent) for path in sorted(drops.glob(f"*/{_NAME}"))}
    return tuple(
        Out(arm, f"{command} refuses its answers: {said['said']}")
        for arm, said in told.items()
        if said.get("command") == command and said["status"]
    )


def _said(folder: Path) -> dict[str, Any]:
    """What was said of an arm; nothing where nobody looked, or the file was cut short."""
    try:
        found = json.loads((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# --- What the drops of a search say before anything is ingested: good cells, and who is out, why.


def good(folder: Path) -> Iterator[Path]:
    """Yield the records of the good cells in the folder of a study."""
    found = folder.glob("*/tp*/*/c*/record.json")
    return (path for path in found if failed_of(path.parent.name) is None)


def given_up(folder: Path, attempts: int) -> "tuple[Out, ...]":
    """Return the arms that are out: a cell of theirs failed as often as the study allows, and was not
    measured since."""
    from answers.search.values import Out

    done = {key_of(path) for path in good(folder)}
    found: dict[str, Out] = {}
    for path, name, attempt in _failed(folder):
        cell = _key(path.parent.with_name(name)) if name else ""
        if attempt >= attempts and cell not in done:
            arm, _, dataset, load = cell.split("/")
            why = json.loads(path.read_bytes()).get("failure") or "it does not say why"
            where = f"{dataset} at {load.rpartition('-r')[0].removeprefix('c')}"
            found[arm] = Out(arm, f"{where}: {why}")
    return tuple(found.values())


def lost_min(folder: Path) -> float:
    """Return the minutes that failed cells took, from the start of the first one of a launch and attempt
    to the end of the last: they are spent like those of good ones."""
    spans: dict[tuple[str, int], list[datetime]] = {}
    for path, _, attempt in _failed(folder):
        said = json.loads(path.read_bytes())
        told = [said.get(name) for name in ("started_at", "ended_at")]
        moments = [datetime.fromisoformat(one) for one in told if isinstance(one, str)]
        spans.setdefault((str(said.get("launch")), attempt), []).extend(moments)
    return sum((max(one) - min(one)).total_seconds() / 60 for one in spans.values() if one)


def _failed(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """Yield the records of failed cells, the names of their cells' folders, and which attempts they
    were."""
    for path in sorted(folder.glob("*/tp*/*/c*.failed-*/record.json")):
        yield path, *(failed_of(path.parent.name) or ("", 0))


def key_of(record: Path) -> str:
    """The cell of the plan that a record is of."""
    return _key(record.parent).partition("@")[0]


def _key(folder: Path) -> str:
    """``draft-k3/tp1/code/c16-r0`` of the folder of a cell."""
    return "/".join(folder.parts[-4:])


# --- A search that measures: each launch by ``draftboard run``, what comes next from its drops.


_GRACE_S = 180.0
#: How long a machine gets to be itself again, and how often in a row.
_PAUSE_S, _PAUSES = 120.0, 3


@dataclass(frozen=True)
class Place:
    """``study``: the file; ``results``: the folder of its drops; ``run``: what `draftboard run` is told
    besides, where it runs; ``check``: a command of the user's that looks at an arm's drops, the quality
    gate; ``any_outputs``: arms that answer otherwise than the baseline are taken too; ``parallel``: so
    many launches are measured side by side, None for as many as the GPUs take that are free here."""

    study: Path
    results: Path
    run: tuple[str, ...] = ()
    check: str | None = None
    any_outputs: bool = False
    parallel: int | None = None

    @property
    def on(self) -> str:
        """The kind of machine on which launches run."""
        return self.run[self.run.index("--on") + 1] if "--on" in self.run else "local"

    @property
    def side_by_side(self) -> tuple[str, ...]:
        """What `draftboard run` is told where launches run side by side: a cluster does so by itself."""
        told = self.parallel is not None and self.on == "local"
        return ("--parallel", str(self.parallel)) if told else ()

    @property
    def warehouse(self) -> Path:
        """Where the drops are read from; hidden, so that no ingest takes it for results."""
        return self.results / ".search"

    def drops(self, name: str) -> Path:
        """The folder of the study's own drops."""
        return self.results / name


def laid_out(place: Place) -> "Planned":
    """Return the study as a search takes it. Raises InvalidInput for one that cannot be searched, and
    whatever `draftboard plan` refuses."""
    said = json.loads(_ours("plan", str(place.study), "--results", str(place.results), "--json"))
    here = said["side_by_side_now"] if place.on == "local" else 1
    return planned(said, place.parallel or here, place.on == "local")


def search_on(place: Place, study: "Planned", terms: "Terms", telling: "Telling") -> "Live":
    """Measure until the search is over, and tell before every launch what is known. Raises
    RunnerError where a launch leaves nothing behind, and where the machine is not to be trusted."""
    pauses, measured = 0, False
    while True:
        _alone(place.drops(study.study))
        _gated(place, study)
        now = look(place, study, terms)
        telling.next(now)
        if not now.orders:
            return _proven(place, study, now, telling)
        # What was measured before this command began was paused for then.
        pauses = _paused(now.troubles, pauses) if measured else 0
        _measure(place, study, now.orders)
        measured = True


def _gated(place: Place, study: "Planned") -> None:
    """Let the user's command look at all arms that were measured and that it did not see yet, where
    there is one; also at those that were measured before this command began."""
    if place.check is not None:
        drops = place.drops(study.study)
        measured = {key_of(path).partition("/")[0] for path in good(drops)}
        for arm in sorted(measured - {study.arms[0].label}):
            check(drops / arm, place.check)


def _paused(troubles: tuple[str, ...], pauses: int, pause_s: float = _PAUSE_S) -> int:
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


def look(place: Place, study: "Planned", terms: "Terms") -> "Live":
    """Return what the drops so far tell, and what comes next."""
    from answers.search.live import live
    from warehouse.store import Reader

    drops = place.drops(study.study)
    out = given_up(drops, study.attempts)
    if not any(good(drops)):
        return live(None, study, terms, out, lost_min(drops))
    _ingest(drops, place.warehouse)
    with closing(Reader(place.warehouse)) as reader:
        out += _refused(place, reader, study.study, study.arms[0].label)
        return live(reader, study, terms, out, lost_min(drops))


def _refused(place: Place, reader: "Reader", name: str, baseline: str) -> "tuple[Out, ...]":
    """Return the arms of a study whose answers keep them from being taken."""
    from answers.search.winner import answering_otherwise

    out = () if place.check is None else refused(place.drops(name), place.check)
    return out if place.any_outputs else out + answering_otherwise(reader, name, baseline)


def _proven(place: Place, study: "Planned", now: "Live", telling: "Telling") -> "Live":
    """Measure the winner beside the baseline and the runner-up in fresh launches, where there is one
    that drafts."""
    from answers.search.proven import LAUNCHES, proven
    from warehouse.store import Reader

    best = now.winner
    arms = [one for one in (best, now.rival) if one is not None]
    if best is None or best.config is None:
        return now
    name, file = write_proof(place.study, study.study, arms, LAUNCHES)
    _alone(place.drops(name))
    beside = "" if now.rival is None else f" and those of {now.rival.like}, the runner-up"
    telling.proving(
        now, f"Proof: {best.words}, {LAUNCHES} launches beside the baseline's{beside}.",
        LAUNCHES * (1 + len(arms)) * study.launch_min,
    )  # fmt: skip
    _child(["run", str(file), "--results", str(place.results), *place.run, *place.side_by_side])
    if place.check is not None:
        check(place.drops(name) / best.name, place.check)
    _ingest(place.drops(name), place.warehouse)
    with closing(Reader(place.warehouse)) as reader:
        refusals = _refused(place, reader, name, study.arms[0].label)
        told = proven(reader, study, now, name, refusals)
    if told.proof is None:
        raise RunnerError(
            "The winner is found and not proven: its fresh launches are not whole. What `draftboard "
            f"run` printed above says why, and {place.drops(name) / 'logs'} what its servers said; the same "
            "command goes on with the proof alone."
        )
    now = replace(now, told=told)
    telling.over(now)
    return now


def _alone(drops: Path) -> None:
    """Wait for launches that are still measured: where a search was killed, its last one goes on."""
    for path in sorted(drops.glob("logs/*.lock")):
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            click.echo(f"waiting for {path.stem}, which is still measured", err=True)
            lock.acquire(poll_interval=1)
        lock.release()


def _measure(place: Place, study: "Planned", orders: "Sequence[Order]") -> None:
    """Measure some launches side by side. Raises RunnerError where one leaves no new good cell and its
    arm is not out: what comes next would be the same launch again."""
    drops = place.drops(study.study)
    before = {key_of(path) for path in good(drops)}
    keys = {one.launch_id: _keys(study, one) for one in orders}
    status = _child([
        "run", str(place.study), "--results", str(place.results),
        *(word for own in keys.values() for key in own for word in ("--cell", key)),
        *place.run, *place.side_by_side,
    ])  # fmt: skip
    done = {key_of(path) for path in good(drops)} - before
    out = {one.arm for one in given_up(drops, study.attempts)} - {study.arms[0].label}
    for order in orders:
        if done.isdisjoint(keys[order.launch_id]) and order.arm not in out:
            raise RunnerError(nothing_left(place, study.study, order.launch_id, status))


def _keys(study: "Planned", order: "Order") -> tuple[str, ...]:
    """Return the cells of a launch: all loads of some datasets."""
    wanted = {(dataset, f"c{load}") for dataset in order.datasets for load in order.loads}
    return tuple(key for key in study.cells[order.launch_id] if dataset_and_load(key) in wanted)


def nothing_left(place: Place, study: str, launch: str, status: int) -> str:
    """Say what became of a launch that ended and left no good cell here, where to look, and what to do
    next. ``status``: the exit status of its `draftboard run`."""
    again = "the same command goes on from here and measures only what is missing."
    where = place.on
    if where == "local":
        return (
            f"{launch} left nothing that was measured, so the search cannot go on; what `draftboard run` "
            f"printed above says why, and {place.drops(study) / 'logs'} what its server said. Mend it; {again}"
        )
    logs = f"draftboard cluster logs {place.study} {launch} --results {place.results}"
    if status:
        return (
            f"{launch} failed on {where}, so the search cannot go on; what `draftboard run` printed above "
            f"says why, and `{logs}` what its job said. Mend it; {again}"
        )
    return (
        f"{launch} ended on {where} without an error, and no result of it lies in {place.drops(study)}: "
        "its node writes to a folder that this machine does not see, or the shared file system is late. "
        f"`{logs}` shows what it measured, if the log is here; else look on the node. Name a folder with "
        "--results that the nodes and this machine share, or copy the node's folder here and bring it in "
        f"with `draftboard collect FOLDER --results {place.results}`; {again}"
    )


def _child(words: list[str]) -> int:
    """Run another command of ours to its end and return its exit status; what it prints goes where ours
    goes."""
    child = subprocess.Popen([*PROGRAM, *words], stdin=subprocess.DEVNULL)
    try:
        return child.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached it as well; a scheduler's SIGTERM did not.
        child.send_signal(signal.SIGINT)
        child.wait(_GRACE_S)
        raise


def _ours(*words: str) -> str:
    """Run another command of ours; return what it prints. Raises RunnerError with its sentence."""
    done = asked(*words)
    if done.returncode:
        raise RunnerError(_last_words(done))
    return done.stdout


def _ingest(drops: Path, warehouse: Path) -> None:
    """Take the drops of a study into a warehouse. Raises RunnerError with the first that is rejected:
    a search cannot tell what it does not see. Where a drop was set aside or measured again the
    warehouse begins anew: what the drop said before would count, too."""
    words = ("ingest", str(drops), "--warehouse", str(warehouse), "--keep-text", "--json")
    done = asked(*words)
    if not done.returncode and _outlived(warehouse):
        done = asked(*words, "--rebuild")
    if not done.returncode:
        return
    for one in rejected(done) or ():
        raise RunnerError(
            f"A result of this search cannot be taken in, {one.path}: {one.reason} Mend it, or move it "
            f"out of {drops}; the same command goes on from here."
        )
    raise RunnerError(_last_words(done))


def _outlived(warehouse: Path) -> bool:
    """Return whether a warehouse holds something of which the drop is gone, or two of one place."""
    from warehouse.store_tables import known_sources

    paths = [one.path for one in known_sources(warehouse)]
    return len(set(paths)) < len(paths) or not all(path.exists() for path in paths)


def _last_words(done: "subprocess.CompletedProcess[str]") -> str:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it said nothing"]
    return said[-1].removeprefix("draftboard: ")
