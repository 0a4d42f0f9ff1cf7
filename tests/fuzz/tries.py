"""Puts changed samples through ``draftboard ingest`` and judges what it did with them."""

import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from click.testing import CliRunner, Result

import draftboard
from tests.fuzz.samples import SAMPLES, changed, unchanged
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.filters import Filters
from warehouse.storage.current import current_generation
from warehouse.store import Reader

#: So many go through one call of the command.
BATCH = 30
#: A number that moved by more than this should be told.
_MOVED = 0.2
#: What ingest may say, and what would be a mistake of its own.
OURS = ("Traceback", "duckdb", "pyarrow", "NoneType", "recursion")
#: What ingest says of a reader that died, or took more than a sample of some kilobytes may.
_DIED = ("died of it", "was ended", "ended the process", "takes more memory")

Numbers = dict[tuple[int, str], float]


@dataclass
class Known:
    """What the unchanged sample gives: per index and metric its mean, per index its flags."""

    numbers: Numbers
    flags: dict[int, set[str]]


@dataclass
class Tally:
    """What came of the tries of one format. ``silent``: descriptions of numbers that moved untold."""

    tried: int = 0
    accepted: int = 0
    rejected: int = 0
    crashes: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    cpu_s: float = 0.0


#: How ingest ends where SIGINT or SIGTERM told it to.
_ENDED = (130, 143)


def cpu_seconds() -> float:
    """Of this process and of those that read for it, also of those that have ended."""
    ours = os.times()
    spent = ours.user + ours.system
    # They are children of the process that forks them, which lives on.
    for one in psutil.Process().children(recursive=True):
        try:
            spent += sum(one.cpu_times()[:4])
        except psutil.Error:
            continue
    return spent


def one_batch(name: str, source: random.Random, keep: Path, known: Known) -> Tally:
    """Try BATCH changed samples of one format; what breaks ingest is kept below ``keep``."""
    began, tally = cpu_seconds(), Tally()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "in").mkdir()
        for number in range(BATCH):
            change = changed(source, SAMPLES[name].parts)
            SAMPLES[name].write(folder / "in" / f"{number:03d}", change)
            _told_apart(folder / "in" / f"{number:03d}", number)
            tally.tried += 1
        problem = _problem(_ingest(folder / "in", folder / "w"), BATCH, _seen(name))
        if problem:
            tally.crashes += list(_culprits(name, folder, keep)) or [problem]
        elif current_generation(folder / "w") is not None:
            tally.silent = list(_silent(folder, keep / "silent" / name.replace(" ", "-"), known))
        if not problem:
            answer = _answer(folder)
            tally.accepted, tally.rejected = answer["accepted"], len(answer["rejected"])
    tally.cpu_s = cpu_seconds() - began
    return tally


def _told_apart(sample: Path, number: int) -> None:
    """Of results of several files those of one main file are one: each gets blank lines of its
    own."""
    if sample.is_dir() and not (sample / "record.json").exists():
        for path in sample.iterdir():
            with path.open("ab") as file:
                file.write(b"\n" * number)


def known(name: str) -> Known:
    """What ingest makes of the unchanged sample."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "in").mkdir()
        SAMPLES[name].write(folder / "in" / "000", unchanged)
        problem = _problem(_ingest(folder / "in", folder / "w"), 1, least=1)
        if problem:
            raise AssertionError(f"the sample of {name} is not read: {problem}")
        ((numbers, flags),) = _read(folder / "w").values()
        return Known(numbers, flags)


def _ingest(folder: Path, root: Path) -> Result:
    words = ["ingest", str(folder), "--warehouse", str(root), "--json"]
    done = CliRunner().invoke(draftboard.cli, words)
    if done.exit_code in _ENDED:
        raise KeyboardInterrupt  # Who ends the fuzzer has broken nothing.
    (root.parent / "answer.json").write_text(done.stdout, "utf-8")
    return done


def _answer(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "answer.json").read_text("utf-8"))
    return found


def _seen(name: str) -> int:
    """How many changed samples ingest has to answer for at least: in a folder it passes over a
    ``.jsonl`` or ``.yaml`` file that is no result, and says so of a folder of such files alone."""
    return 1 if SAMPLES[name].may_be_passed_over else BATCH


def _problem(done: Result, units: int, least: int) -> str:
    """What is wrong with how an ingest ended; empty where nothing is."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {str(done.exception)[:200]}"
    if done.exit_code not in (0, 1):
        return f"exit status {done.exit_code}"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return f"no answer: {done.output[-200:]}"
    count = answer["accepted"] + answer["known"] + len(answer["rejected"])
    if not min(least, units) <= count <= units:
        return f"{units} given, {count} answered"
    for refused in answer["rejected"]:
        said = refused["reason"]
        if "\n" in said or not said.endswith(".") or any(word in said for word in OURS):
            return f"no clear sentence: {said[:200]}"
        if any(word in said for word in _DIED):
            return f"its reader ended: {said[:200]}"
    return ""


def _culprits(name: str, folder: Path, keep: Path) -> Iterator[str]:
    """Each unit of a batch alone: those that break ingest are kept, with what they do."""
    for path in sorted((folder / "in").iterdir()):
        alone = folder / "alone"
        shutil.rmtree(alone, ignore_errors=True)
        (alone / "in").mkdir(parents=True)
        shutil.move(path, alone / "in" / path.name)
        problem = _problem(_ingest(alone / "in", alone / "w"), 1, _seen(name))
        if problem:
            yield f"{_kept(alone / 'in' / path.name, keep / 'crashers' / name.replace(' ', '-'))}: {problem}"


def _kept(path: Path, folder: Path) -> Path:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    data = b"".join(one.read_bytes() for one in files if one.is_file())
    out = folder / f"{hashlib.sha256(data).hexdigest()[:12]}{path.suffix}"
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, out)
    return out


def _read(root: Path) -> dict[str, tuple[Numbers, dict[int, set[str]]]]:
    """Per path its canonical means (else reported ones) and flags, by the index of the cell."""
    with Reader(root) as reader:
        cells = {row["cell_id"]: row for row in queries.cells(reader, Filters()).to_pylist()}
        told = queries.measurements(reader, Filters(), list(METRICS), ["mean"]).to_pylist()
        flags = queries.flags(reader, list(cells)).to_pylist()
    found: dict[str, tuple[Numbers, dict[int, set[str]]]] = {}
    for cell in cells.values():
        found.setdefault(cell["path"], ({}, {}))[1].setdefault(cell["index"], set())
    for row in told:
        cell = cells[row["cell_id"]]
        found[cell["path"]][0][cell["index"], row["metric"]] = row["value"]
    for row in flags:
        cell = cells[row["cell_id"]]
        found[cell["path"]][1][cell["index"]].add(row["name"])
    return found


def _silent(folder: Path, keep: Path, usual: Known) -> Iterator[str]:
    """Numbers of accepted samples that moved by a fifth while no new flag is on their cell."""
    for path, (numbers, flags) in _read(folder / "w").items():
        for (index, metric), value in numbers.items():
            before = usual.numbers.get((index, metric))
            if before is None or not _moved(before, value):
                continue
            if flags[index] - usual.flags.get(index, set()):
                continue
            yield f"{_kept(Path(path), keep)}: {metric} {before:g} -> {value:g}"
            break


def _moved(before: float, now: float) -> bool:
    return abs(now - before) > _MOVED * max(abs(before), 1e-9) and abs(now - before) > 1e-6
