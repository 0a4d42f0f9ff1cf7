"""The machine during a load: GPUs by the real binding over a FAKE driver, other launches, the file."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ingest.counters import read_machine
from runners.surroundings.machine import NO_BINDING
from runners.watching.watch import COST_SHARE, GpuWatch, MachineSampler, present, watching

ROOT = Path(__file__).parents[2]
LOOK = """
import json, os, pathlib
from runners.watching.watch import watching
from runners.watching import watch as watched
watched._PROCESSES_EVERY_S = 0.0
folder = pathlib.Path(os.environ["FAKE_GONE"]).parent
with watching(folder / ".nodes", "s", "l", (1,)) as watch:
    said = {"first": watch.gpus(), "problem": watch.problem()}
    (folder / "stranger").touch()
    said["beside a stranger"] = watch.gpus()
    (folder / "gone").touch()
    said["once silent"] = [watch.gpus(), watch.problem()]
    watch.gpus.ask_again()
    said["gone"] = [watch.gpus.lost(), watch.problem().sentence, watch.problem().cause]
said["closed"] = watch.gpus()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(fake_driver: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("watched")
    env = {
        **fake_driver,
        "FAKE_GONE": str(folder / "gone"),
        "FAKE_STRANGER": str(folder / "stranger"),
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_gpu_of_the_launch_is_read_with_its_units_and_no_other(said: dict[str, Any]) -> None:
    assert said["first"] == {
        'gpu_power_watts{gpu="1"}': 90.5, 'gpu_sm_clock_mhz{gpu="1"}': 345,
        'gpu_memory_clock_mhz{gpu="1"}': 2619, 'gpu_temperature_celsius{gpu="1"}': 31,
        'gpu_throttle_reasons{gpu="1"}': 0, 'gpu_memory_used_bytes{gpu="1"}': 20_000_000_000,
        'gpu_processes_of_others{gpu="1"}': 0,
    }  # fmt: skip


def test_a_process_of_somebody_else_on_the_gpu_is_counted(said: dict[str, Any]) -> None:
    assert said["beside a stranger"]['gpu_processes_of_others{gpu="1"}'] == 1


def test_a_gpu_that_disappears_is_a_problem_in_one_sentence(said: dict[str, Any]) -> None:
    assert said["problem"] is None
    assert said["once silent"] == [{}, None]  # The driver may have hiccuped.
    lost, sentence, cause = said["gone"]
    assert (lost, cause) == ([1], "gpu_lost")
    assert sentence.startswith("GPU 1 does not answer its driver any more")
    assert "run the same command again" in sentence


def test_a_closed_watch_reads_nothing(said: dict[str, Any]) -> None:
    assert said["closed"] == {}


def test_without_nvml_the_record_says_so_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with watching(tmp_path / ".nodes", "s", "l", (0,)) as watch:
        assert "gpu_power_watts" not in str(watch.look()())
        assert watch.notes()["gpus_unread"] == NO_BINDING
        assert watch.problem() is None


def test_a_server_without_gpus_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with GpuWatch((), dict) as watch:
        assert (watch(), watch.reason) == ({}, None)


def test_launches_on_one_machine_meet_and_forget_each_other(tmp_path: Path) -> None:
    nodes = tmp_path / ".nodes"
    with present(nodes, "study", "r0-baseline-tp1", (0,)) as one:
        assert one() == {"launches_beside": 0}
        with present(nodes, "other", "r0-draft-tp1", (1, 2)) as other:
            one.begin()
            assert one() == other() == {"launches_beside": 1}
            met = {"study": "other", "launch": "r0-draft-tp1", "gpus": (1, 2)}
            assert one.as_json() == {"neighbours": [met]}
        one.begin()
        assert (one(), one.as_json()) == ({"launches_beside": 0}, {"neighbours": []})


def test_a_killed_launch_is_nobodys_neighbour(tmp_path: Path) -> None:
    hold = (
        "import pathlib, sys\n"
        "from runners.watching.watch import present\n"
        "with present(pathlib.Path(sys.argv[1]) / '.nodes', 's', 'killed', ()):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    with (
        present(tmp_path / ".nodes", "s", "mine", ()) as mine,
        subprocess.Popen(
            [sys.executable, "-c", hold, str(tmp_path)], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as other,
    ):  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert mine() == {"launches_beside": 1}
        other.kill()
        other.wait()
        mine.begin()
        assert mine() == {"launches_beside": 0}


def test_where_nothing_can_be_written_neighbours_are_unknown(tmp_path: Path) -> None:
    (tmp_path / ".nodes").write_text("in the way")
    with present(tmp_path / ".nodes", "s", "mine", ()) as mine:
        assert (mine(), mine.as_json()) == ({}, {})


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def _file(tmp_path: Path, look: Callable[[], Mapping[str, float]], every_s: float) -> Path:
    path = tmp_path / "machine-samples.jsonl.gz"
    with MachineSampler(path, look, every_s):
        time.sleep(0.3)
    return path


def test_the_file_holds_names_once_and_a_line_for_each_look(tmp_path: Path) -> None:
    looks = iter(range(1000))

    def look() -> dict[str, float]:
        number = next(looks)
        return {"cpu_mhz": 2400.0 + number} if number < 2 else {"launches_beside": 1.0}

    path = _file(tmp_path, look, 0.05)
    lines = [json.loads(line) for line in unpacked(path).splitlines()]
    assert lines[0] == ["at", "cpu_mhz"]
    assert [line[1:] for line in lines[1:3]] == [[2400], [2401]]
    assert lines[3] == ["at", "cpu_mhz", "launches_beside"]
    assert lines[4][1:] == [None, 1]
    read = read_machine(unpacked(path))
    assert [one.values for one in read.snapshots[:3]] == [
        {"cpu_mhz": 2400},
        {"cpu_mhz": 2401},
        {"launches_beside": 1},
    ]


def test_looks_become_rare_where_they_cost_more_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    looked = []

    def dear() -> dict[str, float]:
        ends = time.thread_time() + 0.15
        while time.thread_time() < ends:
            looked.append(time.monotonic())
        return {"cpu_mhz": 1.0}

    path = tmp_path / "machine-samples.jsonl.gz"
    with MachineSampler(path, dear, 0.01) as sampler:
        time.sleep(0.6)
        spent = sampler.spent_s
    # One look at the begin, which already cost more than its share; another one on leaving.
    assert spent < 0.3
    assert len(unpacked(path).splitlines()) == 3
    assert COST_SHARE == 0.01
