"""Two that ingest, a watcher, a collector of garbage and four readers at once: nothing is lost,
torn or taken in twice; and a disk that may not be written loses nothing either."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warehouse import queries
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.store import Reader

SECONDS, BATCH = 75.0, 4


class Together:
    """What happens at the same time until the time is over; ``wrong``: what went wrong."""

    def __init__(self, root: Path, results: Path, bench: Any) -> None:
        self.root, self.results = root, results
        self.wrong: list[str] = []
        self.put = self.reads = 0
        self._bench, self._guard = bench, threading.Lock()
        self._until = time.monotonic() + SECONDS

    def files(self, folder: Path, count: int = BATCH) -> None:
        """Results that are nowhere else, whole when they have their names."""
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(count):
            with self._guard:
                self.put += 1
                number = self.put
            private = folder / f".{number}.json"
            told = self._bench(True, duration=2.0 + number / 1e4)
            private.write_text(json.dumps(told), encoding="utf-8")
            private.rename(folder / f"{number}.json")

    def command(self, *words: str) -> Any:
        """Start ``draftboard`` with the warehouse."""
        line = [sys.executable, "-m", "draftboard", *words, "--warehouse", str(self.root)]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def writes(self, name: str) -> None:
        batch = 0
        while time.monotonic() < self._until:
            folder = self.results / name / str(batch)
            self.files(folder)
            with self.command("ingest", str(folder), "--json") as process:
                said, complaints = process.communicate()
            if process.returncode or json.loads(said)["accepted"] != BATCH:
                self.wrong.append(f"{name}: {said}{complaints}")
            batch += 1

    def feeds_the_watcher(self) -> None:
        while time.monotonic() < self._until:
            self.files(self.results / "watched", 1)
            time.sleep(0.5)

    def collects(self) -> None:
        while time.monotonic() < self._until:
            with self.command("warehouse", "gc") as process:
                _, complaints = process.communicate()
            if process.returncode:
                self.wrong.append(f"gc: {complaints}")
            time.sleep(1)

    def looks(self) -> None:
        most = 0
        with Reader(self.root) as reader:
            while time.monotonic() < self._until:
                try:
                    reader.refresh()
                    cells = queries.cells(reader, Filters()).to_pylist()
                    files = reader.request_files([cell["cell_id"] for cell in cells[-3:]])
                    whole = all(Path(file).is_file() for file in files)
                except (DraftboardError, OSError) as error:
                    self.wrong.append(f"reader: {error}")
                    return
                paths = {cell["path"] for cell in cells}
                if len(paths) != len(cells) or len(cells) < most or not whole:
                    self.wrong.append(f"{len(cells)} cells of {len(paths)} files after {most}")
                most = len(cells)
                self.reads += 1
                time.sleep(0.05)


@pytest.mark.long
@pytest.mark.alone
def test_what_many_do_at_once_is_done_once_and_whole(tmp_path: Path, bench: Any) -> None:
    root, results = tmp_path / "warehouse", tmp_path / "results"
    together = Together(root, results, bench)
    together.files(results / "watched", 1)
    with together.command("ingest", str(results / "watched"), "--json") as process:
        process.communicate()
    words = ("ingest", "--watch", str(results / "watched"), "--interval", "0.3")
    with together.command(*words) as watcher:
        work: list[Callable[[], None]] = [
            lambda: together.writes("a"),
            lambda: together.writes("b"),
        ]
        work += [together.feeds_the_watcher, together.collects, *[together.looks] * 4]
        threads = [threading.Thread(target=one) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        deadline = time.monotonic() + 120
        while _taken_in(root) < together.put and time.monotonic() < deadline:
            time.sleep(0.5)
        watcher.terminate()
        watcher.communicate()
    assert together.wrong == []
    assert together.reads > 50
    assert _taken_in(root) == together.put
    assert check(root) == []
    assert not list(root.rglob("tmp-*"))


def _taken_in(root: Path) -> int:
    with Reader(root) as reader:
        paths = queries.sources(reader).column("path").to_pylist()
    assert len(paths) == len(set(paths))
    return len(paths)


def test_a_disk_that_may_not_be_written_is_one_sentence_and_nothing_is_lost(
    write: Any, bench: Any, tmp_path: Path, run: Any
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a disk of its own needs root")
    try:
        run.root = disk / "warehouse"
        assert run(write("good.json", bench(True))).status == 0
        more = write("more.json", bench(True, duration=3.0))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = run(more)
        assert done.status == 1
        assert "written" in done.err
        assert len(done.err.strip().splitlines()) == 1
        assert len(run.cells()) == 1
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert run(more).status == 0
        assert len(run.cells()) == 2
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
