"""The watcher, as a process of its own on real folders: what it takes in, when, and what it says."""

import contextlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.model import IngestOptions, ReadingLimits
from ingest.watch import Stop, WatchLog, watch
from warehouse import queries
from warehouse.beside import WatchHealth, read_health
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.store import Reader, open_writer

pytestmark = pytest.mark.slow

#: Generous, because the machine may be busy; no test waits for it to pass.
PATIENCE_S = 120.0


class Watching:
    """``draftboard ingest --watch FOLDER`` with short pauses, started, killed and started again."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.said = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> "Watching":
        words = ["ingest", "--watch", str(self.folder), "--warehouse", str(self.root)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "draftboard", *words, "--interval", "0.1", *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.until(lambda: self.health().pid == self.pid)
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        self.said += said
        return self.process.returncode

    def health(self) -> WatchHealth:
        return read_health(self.root)

    def until(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not _true(ready):
            assert self.process is not None
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < end, self.health()
            time.sleep(0.05)

    def until_accepted(self, count: int) -> None:
        self.until(lambda: self.health().accepted == count)

    def passes(self, count: int) -> None:
        """So many more looks."""
        until = self.health().passes + count
        self.until(lambda: self.health().passes >= until)

    def rejections(self) -> dict[str, str]:
        with Reader(self.root) as reader:
            rows = queries.rejections(reader).to_pylist()
        return {row["path"]: row["reason"] for row in rows}

    def run_ids(self) -> list[str]:
        with Reader(self.root) as reader:
            rows = queries.cells(reader, Filters()).to_pylist()
        return sorted(row["run_id"] for row in rows)


def _true(ready: Callable[[], bool]) -> bool:
    """A report or a warehouse that is not there yet is not ready."""
    with contextlib.suppress(DraftboardError):
        return ready()
    return False


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    folder = tmp_path / "results"
    folder.mkdir()
    one = Watching(folder, tmp_path / "warehouse")
    yield one
    if one.process is not None and one.process.poll() is None:
        one.end(signal.SIGKILL)


@pytest.fixture
def staged(tmp_path: Path, report: Any) -> Callable[..., Path]:
    """``staged("name")``: a whole drop outside the watched folder, ready to be renamed into it."""

    def make(name: str, **record: Any) -> Path:
        folder = tmp_path / "staged" / name
        folder.mkdir(parents=True)
        (folder / "guidellm.json").write_text(json.dumps(report(count=4)))
        stated = {"schema_version": 1, "run_id": name, "study": "night", **record}
        (folder / "record.json").write_text(json.dumps(stated))
        return folder

    return make


@pytest.fixture
def placed(watching: Watching, staged: Callable[..., Path]) -> Callable[..., Path]:
    """``placed("name")``: a drop renamed into the watched folder."""
    return lambda name, **record: staged(name, **record).rename(watching.folder / name)


class Delivery:
    """Two hundred drops and twenty reports on their way into a watched folder."""

    def __init__(self, folder: Path, staged: Callable[..., Path], report: Any) -> None:
        self.folder = folder
        self.report = report
        self.good: list[str] = []
        self.bad: list[str] = []
        self.steps: list[list[Callable[[], object]]] = []
        self._drops(staged)
        self._reports()

    def _drops(self, staged: Callable[..., Path]) -> None:
        for n in range(110):
            self._step(self._renamed(staged(self._good(f"good-{n:03}"))))
        for n in range(30):
            again = staged(f"good-{n:03}-again")
            first = again.with_name(f"good-{n:03}")
            shutil.copyfile(first / "record.json", again / "record.json")
            self._step(self._renamed(again))
        for n in range(20):
            self._step(self._renamed(self._cut(staged(f"cut-report-{n:02}"), "guidellm.json")))
        for n in range(10):
            self._step(self._renamed(self._cut(staged(f"cut-record-{n:02}"), "record.json")))
        for n in range(15):
            self._copied(staged(self._good(f"copied-{n:02}")))
        for n in range(15):
            partial = staged(f"at-work-{n:02}")
            self._step(lambda p=partial: p.rename(self.folder / f".{p.name}.partial"))

    def _reports(self) -> None:
        for n in range(20):
            content = self.report(count=4)
            content["benchmarks"][0]["config"]["run_id"] = self._good(f"written-{n:02}")
            text, path = json.dumps(content), self.folder / f"written-{n:02}.json"
            self.steps.append(
                [
                    lambda p=path, t=text: p.write_text(t[: len(t) // 3]),
                    lambda p=path, t=text: p.write_text(t[: len(t) // 2]),
                    lambda p=path, t=text: p.write_text(t),
                ]
            )

    def _good(self, name: str) -> str:
        self.good.append(name)
        return name

    def _step(self, step: Callable[[], object]) -> None:
        self.steps.append([step])

    def _renamed(self, drop: Path) -> Callable[[], object]:
        return lambda: drop.rename(self.folder / drop.name)

    def _cut(self, drop: Path, name: str) -> Path:
        whole = (drop / name).read_bytes()
        (drop / name).write_bytes(whole[: len(whole) // 2])
        self.bad.append(str(self.folder / drop.name))
        return drop

    def _copied(self, drop: Path) -> None:
        """File by file, the record first: for a while it names a report that is not there."""
        target = self.folder / drop.name
        self.steps.append(
            [
                target.mkdir,
                lambda: shutil.copyfile(drop / "record.json", target / "record.json"),
                lambda: shutil.copyfile(drop / "guidellm.json", target / "guidellm.json"),
            ]
        )

    def in_random_order(self, seed: int) -> Iterator[Callable[[], object]]:
        """Every step; those of one delivery in their order, among the others'."""
        chance = random.Random(seed)
        queue = [number for number, steps in enumerate(self.steps) for _ in steps]
        chance.shuffle(queue)
        left = [iter(steps) for steps in self.steps]
        return (next(left[number]) for number in queue)


def test_two_hundred_drops_in_random_order_and_a_watcher_that_is_killed_again_and_again(
    watching: Watching, staged: Callable[..., Path], report: Any
) -> None:
    delivery = Delivery(watching.folder, staged, report)
    assert sum(len(s) == 1 or s[0].__name__ == "mkdir" for s in delivery.steps) == 200
    watching.start()
    for number, step in enumerate(delivery.in_random_order(seed=6)):
        step()
        if number % 60 == 40:
            # Holding the writer's lock: in the middle of a batch.
            watching.until((watching.root / "lock.holder").exists)
            watching.end(signal.SIGKILL)
            watching.start()
    watching.until(lambda: len(watching.run_ids()) >= len(delivery.good))
    watching.until(lambda: watching.rejections().keys() == set(delivery.bad))
    watching.passes(5)

    assert watching.run_ids() == sorted(delivery.good)
    reasons = watching.rejections()
    assert reasons.keys() == set(delivery.bad)
    assert all(re.search("JSON|cannot be read|cut off", reason) for reason in reasons.values())
    assert watching.health().waiting == 0
    assert watching.end() == 0
    assert check(watching.root) == []


def test_many_drops_are_one_generation(watching: Watching, placed: Callable[..., Path]) -> None:
    for n in range(20):
        placed(f"drop-{n}")

    watching.start().until_accepted(20)

    assert watching.health().generation == 1


def test_what_is_there_after_a_restart_is_a_duplicate_and_changes_nothing(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    for n in range(3):
        placed(f"drop-{n}")
    watching.start().until_accepted(3)
    watching.end(signal.SIGKILL)

    watching.start().until(lambda: watching.health().duplicate == 3)

    assert watching.health().accepted == 0
    assert watching.health().generation == 1


def test_a_rejection_is_said_once_and_taken_back_when_the_file_is_mended(
    watching: Watching, staged: Callable[..., Path]
) -> None:
    drop = staged("late")
    target = watching.folder / "late"
    target.mkdir()
    shutil.copyfile(drop / "record.json", target / "record.json")
    watching.start().until(lambda: watching.health().rejected == 1)
    watching.passes(4)
    assert "missing" in watching.rejections()[str(target)]

    shutil.copyfile(drop / "guidellm.json", target / "guidellm.json")
    watching.until_accepted(1)

    assert watching.rejections() == {}
    assert watching.health().rejected == 1
    watching.end()
    assert watching.said.count("rejected " + str(target)) == 1


def test_it_is_quiet_when_nothing_happens(watching: Watching, placed: Callable[..., Path]) -> None:
    placed("drop")
    watching.start().until_accepted(1)
    watching.passes(5)
    watching.end()

    said = watching.said.splitlines()
    assert [re.sub(r"^\S+  ", "", line)[:10] for line in said] == [
        "watching " + str(watching.folder)[:1], "1 accepted", "stopped",
    ]  # fmt: skip


def test_each_batch_is_one_object_with_json(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    placed("drop")
    watching.start("--json").until_accepted(1)
    watching.end()

    objects = [json.loads(line) for line in watching.said.splitlines() if line.startswith("{")]
    assert [(one["accepted"], one["generation"]) for one in objects] == [(1, 1)]


def test_another_writer_is_waited_for_and_named_once(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    placed("drop")
    with open_writer(watching.root):
        watching.start()
        watching.until(lambda: watching.health().last_error is not None)
        watching.passes(3)
        assert watching.health().waiting == 1
        assert watching.health().accepted == 0
    watching.until_accepted(1)
    watching.end()

    assert watching.said.count("another process is writing") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_source_at_work_and_the_batch_is_published(
    watching: Watching, placed: Callable[..., Path], number: signal.Signals
) -> None:
    for n in range(60):
        placed(f"drop-{n:02}")
    watching.start().until((watching.root / "lock.holder").exists)

    assert watching.end(number) == 0

    health = watching.health()
    assert health.stopped is not None
    # Stopped before the first source was read, there is no warehouse yet.
    run_ids = watching.run_ids() if health.generation else []
    assert len(run_ids) == health.accepted
    watching.start().until(lambda: len(watching.run_ids()) == 60)
    # Its health is written after what it has published.
    watching.until(lambda: watching.health().waiting == 0)
    assert watching.health().accepted == 60 - health.accepted


class StopOnceOneIsRead(Stop):
    """As if the signal came while the first source is read."""

    def __init__(self, root: Path) -> None:
        self.requests = root / "requests"

    @property
    def requested(self) -> bool:  # type: ignore[override]
        return any(self.requests.glob("*.parquet"))


def test_a_batch_that_is_told_to_end_is_published_as_far_as_it_came(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    for n in range(5):
        placed(f"drop-{n}")

    one_at_a_time = IngestOptions(limits=ReadingLimits(workers=1))
    folders = (watching.folder,)
    stop = StopOnceOneIsRead(watching.root)
    watch(folders, watching.root, one_at_a_time, 0.1, stop, WatchLog())

    assert watching.run_ids() == ["drop-0"]
    assert (watching.health().accepted, watching.health().waiting) == (1, 4)


def test_the_health_check_knows_a_watcher_that_works_was_stopped_or_has_died(
    watching: Watching, run: Any
) -> None:
    none = run("--watch", watching.folder, "--health")
    watching.start().passes(1)
    works = run("--watch", watching.folder, "--health")
    listed = run("--health", "--json")
    watching.end(signal.SIGKILL)
    died = run("--health")
    watching.start().end()
    stopped = run("--health")

    assert (none.status, works.status, died.status, stopped.status) == (1, 0, 1, 1)
    assert "draftboard ingest --watch" in none.out
    assert str(watching.folder) in works.out
    assert listed.json["complaint"] is None
    assert listed.json["pid"] > 0
    assert "has died" in died.out
    assert "was stopped" in stopped.out


def test_a_second_watcher_for_the_same_warehouse_is_refused(watching: Watching, run: Any) -> None:
    watching.start()
    second = run("--watch", watching.folder)
    assert second.status == 1
    assert "Another watcher" in second.err


def test_a_warehouse_that_another_version_wrote_is_refused_at_the_start(
    watching: Watching, run: Any
) -> None:
    watching.root.mkdir()
    (watching.root / "CURRENT").write_text("nonsense")
    refused = run("--watch", watching.folder)
    assert refused.status == 1
    assert "CURRENT" in refused.err


def test_a_folder_that_goes_away_is_trouble_and_nothing_is_read_twice_when_it_is_back(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    placed("drop")
    watching.start().until_accepted(1)
    away = watching.folder.rename(watching.folder.with_name("unmounted"))
    watching.until(lambda: watching.health().last_error is not None)
    away.rename(watching.folder)
    placed("other")

    watching.until_accepted(2)

    assert watching.health().duplicate == 0
    watching.end()
    assert watching.said.count("cannot be read") == 1
    assert "goes on" in watching.said


def test_a_warehouse_that_was_removed_is_filled_again(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    placed("drop")
    watching.start().until_accepted(1)
    (watching.root / "CURRENT").unlink()
    for path in watching.root.glob("generation-*.json"):
        path.unlink()

    watching.until_accepted(2)

    assert watching.run_ids() == ["drop"]


def test_a_warehouse_inside_the_watched_folder_is_not_read(
    watching: Watching, placed: Callable[..., Path]
) -> None:
    watching.root = watching.folder / "warehouse"
    watching.root.mkdir()
    (watching.root / "night.json").write_text("{}")
    placed("drop")
    watching.start().until_accepted(1)
    watching.passes(3)
    assert watching.rejections() == {}
