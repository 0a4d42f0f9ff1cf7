"""The parts of the watcher: what it takes for finished, when its report is late, what it refuses."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.watch import Memory, Sighting, sightings
from warehouse.beside import WatchHealth, complaint, read_health, this_host, write_health


def test_a_watcher_elsewhere_is_judged_by_when_its_report_was_due(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, 22, tzinfo=UTC)
    due = now + timedelta(seconds=30)
    health = WatchHealth(pid=1, host="elsewhere", folders=("/r",), interval_s=5, since=now, due=due)
    write_health(tmp_path, health)

    found = read_health(tmp_path)

    assert complaint(found, now) is None
    assert "late" in str(complaint(found, due + timedelta(seconds=1)))


def test_a_report_of_this_host_with_the_number_of_no_process_is_a_dead_watcher() -> None:
    now = datetime.now(UTC)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    health = WatchHealth(
        pid=gone.pid, host=this_host(), folders=(), interval_s=5, since=now, due=now
    )
    assert "has died" in str(complaint(health, now))


def test_wrong_usage(run: Any, write: Any, bench: Any, tmp_path: Path) -> None:
    file = write("a.json", bench())
    assert run("--watch", file).status == 2
    assert run("--watch", tmp_path / "nowhere").status == 2
    assert run("--watch", tmp_path, "--rebuild").status == 2
    assert run("--watch", tmp_path, "--replace").status == 2
    assert run("--watch").status == 2


def seen(folder: Path, memory: Memory) -> list[Sighting]:
    """One look."""
    problems: list[str] = []
    found = sightings([folder], folder / "none", problems)
    return memory.ready(found, complete=lambda: not problems)


def test_a_file_is_read_when_two_looks_saw_the_same(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.json"
    path.write_text("{")
    first = seen(tmp_path, memory)
    path.write_text("{ ")
    second = seen(tmp_path, memory)
    third = seen(tmp_path, memory)
    assert (first, second, [s.path for s in third]) == ([], [], [path])


def test_a_drop_whose_hidden_file_still_grows_is_not_read(tmp_path: Path) -> None:
    memory = Memory()
    (tmp_path / "record.json").write_text("{}")
    (tmp_path / ".guidellm.json.Xy12").write_text("1")
    assert seen(tmp_path, memory) == []
    (tmp_path / ".guidellm.json.Xy12").write_text("12")
    assert seen(tmp_path, memory) == []
    assert [s.path for s in seen(tmp_path, memory)] == [tmp_path]


def test_of_a_settled_drop_only_the_record_is_looked_at(tmp_path: Path) -> None:
    memory = Memory()
    (tmp_path / "record.json").write_text("{}")
    seen(tmp_path, memory)
    (drop,) = seen(tmp_path, memory)
    memory.settle(drop, rejected=False)

    (tmp_path / "guidellm.json").write_text("another report")
    assert [seen(tmp_path, memory), seen(tmp_path, memory)] == [[], []]

    (tmp_path / "record.json").write_text("{ }")
    assert seen(tmp_path, memory) == []
    assert [s.path for s in seen(tmp_path, memory)] == [tmp_path]


def test_what_is_rejected_is_looked_at_again_when_any_of_its_files_changes(tmp_path: Path) -> None:
    memory = Memory()
    (tmp_path / "record.json").write_text("{}")
    seen(tmp_path, memory)
    (drop,) = seen(tmp_path, memory)
    memory.settle(drop, rejected=True)
    assert [seen(tmp_path, memory), seen(tmp_path, memory), len(memory.rejections)] == [[], [], 1]

    (tmp_path / "guidellm.json").write_text("{}")
    seen(tmp_path, memory)
    (again,) = seen(tmp_path, memory)
    memory.settle(again, rejected=False)
    assert len(memory.rejections) == 0


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.json"
    path.write_text("{}")
    seen(tmp_path, memory)
    assert memory.waiting == 1
    path.unlink()
    seen(tmp_path, memory)
    assert memory.waiting == 0


def test_links_that_lead_round_in_circles_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    (tmp_path / "a" / "x.json").write_text("{}")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    seen = sightings([tmp_path], tmp_path / "none", [])
    found = [s.path.relative_to(tmp_path).as_posix() for s in seen]
    assert found == ["a/x.json", "gone.json"]
