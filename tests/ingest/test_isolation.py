"""One poison never stops the rest: real processes, limits that really end them, nothing left over.

Where no input is known that makes a reader hang, take all memory or die, a fake reader does it:
``poison_reader.py``, registered in a copy of our code.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingest.discovery import find_units
from ingest.model import ReadingLimits, Unit
from warehouse import queries
from warehouse.beside import read_health
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.store import Reader

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
GOOD = 20
MARK = "DRAFTBOARD_TEST_MARK"


def until(ready: Callable[[], Any]) -> Any:
    """What ``ready`` returns once it is true; waits for as long as a busy machine may need."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if found := ready():
                return found
        except DraftboardError:
            pass  # There is no warehouse, or no report of a watcher, yet.
        assert time.monotonic() < end
        time.sleep(0.02)


class Copy:
    """A copy of our code with the fake reader in it, a folder to ingest, and a warehouse."""

    def __init__(self, code: Path, place: Path) -> None:
        self.code = code
        self.results = place / "results"
        self.results.mkdir()
        self.root = place / "warehouse"
        self.mark = uuid.uuid4().hex

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "draftboard", "ingest", *words]
        return subprocess.Popen(
            [*command, "--warehouse", str(self.root)], cwd=self.code, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {MARK: self.mark},
        )  # fmt: skip

    def ingest(self, *words: str) -> dict[str, Any]:
        with self.start(str(self.results), "--json", *words) as process:
            said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode in (0, 1), said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def poison(self, what: str, name: str = "poison.json", size: int = 0) -> Path:
        path = self.results / name
        path.write_text(json.dumps({"poison": what}).ljust(size))
        return path

    def good(self, bench: Any, count: int = GOOD) -> None:
        for number in range(count):
            (self.results / f"good-{number:02}.json").write_text(
                json.dumps(bench(True, duration=2.0 + number / 100))
            )

    def nested_drop(self, name: str = "nested") -> Path:
        """The drop that ended everything: 5 kB of JSON with 700 lists in one another."""
        folder = self.results / name
        folder.mkdir()
        deep: Any = "x"
        for _ in range(700):
            deep = [deep]
        record = {"schema_version": 1, "environment": {"deep": deep}}
        (folder / "record.json").write_text(json.dumps(record))
        return folder

    def processes(self) -> list[psutil.Process]:
        """Every process of ours that lives, and all that they started."""
        found = []
        for process in psutil.process_iter():
            try:
                dead = process.status() == psutil.STATUS_ZOMBIE
                if not dead and process.environ().get(MARK) == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def reader(self) -> psutil.Process | None:
        """One process that reads: a child of the one that forks them."""
        ours = {process.pid: process for process in self.processes()}
        for process in ours.values():
            parent = ours.get(process.ppid())
            if parent is not None and parent.ppid() in ours:
                return process
        return None

    def accepted(self) -> int:
        with Reader(self.root) as reader:
            return int(queries.cells(reader, Filters()).num_rows)

    def rejections(self) -> dict[str, str]:
        with Reader(self.root) as reader:
            rows = queries.rejections(reader).to_pylist()
        return {row["path"]: row["reason"] for row in rows}


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("code")
    for name in ("analysis", "answers", "commands", "ingest", "warehouse"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, place / name, ignore=left_out)
    shutil.copyfile(ROOT / "draftboard.py", place / "draftboard.py")
    shutil.copyfile(
        Path(__file__).with_name("poison_reader.py"), place / "ingest/formats/poison.py"
    )
    return place


@pytest.fixture
def copy(code: Path, tmp_path: Path) -> Iterator[Copy]:
    made = Copy(code, tmp_path)
    yield made
    for process in made.processes():
        process.kill()


def test_700_nested_lists_in_a_record_are_one_rejection(copy: Copy, bench: Any) -> None:
    copy.good(bench)
    drop = copy.nested_drop()

    done = copy.ingest()

    assert done["accepted"] == GOOD
    (rejected,) = done["rejected"]
    assert rejected["path"] == str(drop)
    assert "nested" in rejected["reason"]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("hog", "--unit-seconds"),
        ("truncate", "became shorter"),
        ("memory", "--unit-memory"),
        ("crash", "SIGABRT"),
    ],
)
def test_whatever_ends_a_reader_is_one_rejection_and_the_others_go_in(
    copy: Copy, bench: Any, what: str, reason: str
) -> None:
    copy.good(bench)
    path = copy.poison(what, size=100_000)

    done = copy.ingest("--unit-seconds", "1", "--unit-memory", "256")

    assert done["accepted"] == GOOD
    (rejected,) = done["rejected"]
    assert rejected["path"] == str(path)
    assert reason in rejected["reason"]
    assert copy.accepted() == GOOD
    assert check(copy.root) == []
    until(lambda: not copy.processes())


@pytest.fixture
def hasty(copy: Copy, tmp_path: Path) -> Copy:
    """A copy of our code that gives nobody a whole minute."""
    copy.code = Path(shutil.copytree(copy.code, tmp_path / "hasty"))
    limits = copy.code / "ingest" / "model.py"
    patient = limits.read_text("utf-8")
    limits.write_text(patient.replace("_LEAST_S = 10, 60.0", "_LEAST_S = 10, 3.0"), "utf-8")
    assert limits.read_text("utf-8") != patient
    return copy


@pytest.mark.slow
def test_a_reader_that_does_nothing_at_all_is_ended_too(hasty: Copy, bench: Any) -> None:
    copy = hasty
    copy.good(bench)
    copy.poison("sleep")
    done = copy.ingest("--unit-seconds", "1")
    assert done["accepted"] == GOOD
    assert "longer than 10 s" in done["rejected"][0]["reason"]


def test_a_busy_disk_has_a_minute_at_least_and_ten_times_the_processor_time(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text("{}")
    (unit,) = find_units([path])
    assert isinstance(unit, Unit)
    assert ReadingLimits(seconds=1).of(unit).wall_seconds == 60
    assert ReadingLimits(seconds=120).of(unit).wall_seconds == pytest.approx(1200, abs=0.1)


@pytest.mark.slow
def test_what_is_read_is_there_while_a_poison_is_still_at_work(copy: Copy, bench: Any) -> None:
    copy.good(bench)
    copy.poison("sleep", name="a-first.json")
    process = copy.start(str(copy.results))
    with process:
        until(lambda: copy.accepted() == GOOD)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert copy.accepted() == GOOD


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_command_ends_all_that_it_started(
    copy: Copy, number: signal.Signals
) -> None:
    for name in ("one.json", "two.json"):
        copy.poison("hog", name)
    with copy.start(str(copy.results)) as process:
        until(lambda: len(copy.processes()) >= 4)
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    until(lambda: not copy.processes())
    assert copy.ingest("--unit-seconds", "1")["accepted"] == 0
    assert not list(copy.root.rglob("tmp-*"))


def test_a_unit_whose_process_was_killed_from_outside_is_read_again(copy: Copy) -> None:
    path = copy.poison("wait")
    with copy.start(str(copy.results), "--json") as process:
        reader = until(copy.reader)
        # It has been given the unit when it holds it.
        until(lambda: str(path) in Path(f"/proc/{reader.pid}/maps").read_text())
        reader.kill()
        path.with_suffix(".go").touch()
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert "survived" in json.loads(said)["rejected"][0]["reason"]


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_doubled_or_left(copy: Copy, bench: Any) -> None:
    copy.good(bench, 60)
    copy.nested_drop()
    began = time.monotonic()
    with copy.start(str(copy.results)) as process:
        process.communicate(timeout=PATIENCE_S)
    longest = time.monotonic() - began
    shutil.rmtree(copy.root)
    moments = random.Random(13)
    for _ in range(12):
        with copy.start(str(copy.results)) as process:
            time.sleep(moments.uniform(0, longest))
            victim = copy.reader() if moments.random() < 0.3 else None
            (victim or process).kill()
            if victim is None:
                process.communicate(timeout=PATIENCE_S)
            else:
                assert process.communicate(timeout=PATIENCE_S)[0]
    last = copy.ingest()
    assert last["accepted"] + last["known"] == 60
    assert copy.accepted() == 60
    assert check(copy.root) == []
    assert not list(copy.root.rglob("tmp-*"))
    until(lambda: not copy.processes())


def test_the_watcher_goes_on_and_remembers_after_its_restart(copy: Copy, bench: Any) -> None:
    copy.good(bench)
    # A result whatever it is called: 12 kB of hyphens kept the search for credentials busy for 20 s.
    hyphens = "-" * 12_000
    (copy.results / "hyphens.json").write_text(json.dumps(bench(True, label=hyphens)))
    (copy.results / "only-hyphens.json").write_text(json.dumps(hyphens))
    poisons = {str(copy.nested_drop()), str(copy.results / "only-hyphens.json")}
    poisons |= {
        str(copy.poison(what, f"{what}.json", size=100_000))
        for what in ("hog", "crash", "truncate")
    }
    words = ("--watch", str(copy.results), "--interval", "0.1", "--unit-seconds", "1")

    def health() -> Any:
        return read_health(copy.root)

    with copy.start(*words) as process:
        # The one that became shorter has changed, so it is looked at once more.
        until(lambda: health().rejected == len(poisons) + 1)
        assert health().accepted == GOOD + 1
        process.kill()
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert "became shorter" in said
    with copy.start(*words) as process:
        until(lambda: health().pid == process.pid and health().duplicate == GOOD + 1)
        seen = health().passes
        until(lambda: health().passes >= seen + 5)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert health().rejected == 0
    assert "rejected" not in said
    assert copy.rejections().keys() == poisons
    assert copy.accepted() == GOOD + 1
    until(lambda: not copy.processes())


def test_higher_limits_make_a_watcher_try_again(copy: Copy) -> None:
    copy.poison("hog")
    words = ("--watch", str(copy.results), "--interval", "0.1", "--unit-seconds")
    for seconds in ("1", "2"):
        with copy.start(*words, seconds) as process:
            until(
                lambda pid=process.pid: (
                    read_health(copy.root).pid == pid and read_health(copy.root).rejected == 1
                )
            )
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)


def test_a_large_report_is_read_with_what_a_reading_process_has(
    run: Any, write: Any, report: Any
) -> None:
    path = write("large.json", json.dumps(report()) + " " * (80 << 20))
    assert run(path, "--json").json["accepted"] == 1


def test_a_deep_temporary_folder_is_no_hindrance_and_nothing_stays(
    copy: Copy, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a socket has at most 107 bytes."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    copy.good(bench, 1)
    assert copy.ingest()["accepted"] == 1
    assert not list(deep.iterdir())


def test_a_process_that_reads_imports_only_what_reading_needs() -> None:
    script = (
        "import json, sys; import ingest.reading; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"pandas", "duckdb", "scipy", "rich", "click", "streamlit", "filelock"}
    assert not heavy & set(json.loads(done.stdout))


def test_a_process_that_cannot_begin_prints_nothing_into_the_output_of_the_command() -> None:
    # What it is handed cannot be unpickled, as where its queue was taken away before it began.
    script = (
        "import os; from ingest import processes\n"
        "class Gone:\n    __reduce__ = lambda self: (os.open, ('/no/such/queue', 0))\n"
        "processes.start(); process = processes._Processes().Process(target=print, args=(Gone(),))\n"
        "process.start(); process.join(); print(process.exitcode)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_an_ingest_of_good_reports_imports_no_pandas_anywhere(write: Any, bench: Any) -> None:
    path = write("in/a.json", bench(True))
    script = (
        "import sys; from commands.keeping.ingest import ingest; "
        "ingest.main(sys.argv[1:], standalone_mode=False); print('pandas' in sys.modules)"
    )
    words = [sys.executable, "-c", script, str(path), "--warehouse", str(path.parents[1] / "w")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "accepted            1" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
