"""GPUs by NVML: the real binding over a fake driver library, because no test machine has a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runners.surroundings import machine
from runners.surroundings.machine import NO_BINDING

ROOT = Path(__file__).parents[2]
SAY = """
import json, dataclasses
from runners.surroundings import machine
print(json.dumps({"survey": dataclasses.asdict(machine.survey())}))
"""
TWO = machine.Survey(gpus=(machine.Gpu(0, "H200", "GPU-aaaa"), machine.Gpu(1, "H200", "GPU-bbbb")))


@pytest.fixture(scope="session")
def said(fake_driver: dict[str, str]) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", SAY],
        cwd=ROOT,
        env=fake_driver,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_every_gpu_is_read_with_its_units(said: dict[str, dict[str, object]]) -> None:
    first = said["survey"]["gpus"][0]
    assert first == {
        "index": 0, "name": "FAKE H200", "uuid": "GPU-aaaa", "memory_bytes": 150_000_000_000,
        "free_bytes": 150_000_000_000, "power_cap_watts": 700.0, "power_cap_default_watts": 700.0,
        "sm_clock_mhz": 345, "sm_clock_max_mhz": 1980, "memory_clock_max_mhz": 3201,
        "temperature_celsius": 31, "compute_capability": "9.0", "mig": False, "ecc": True,
        "persistence_mode": True, "processes": 0, "numa_node": None,
    }  # fmt: skip


def test_what_a_card_does_not_support_is_unknown_and_the_rest_is_read(
    said: dict[str, dict[str, object]],
) -> None:
    second = said["survey"]["gpus"][1]
    assert (second["ecc"], second["power_cap_watts"], second["processes"]) == (None, 500.0, 1)


def test_driver_and_cuda_are_those_of_the_driver(said: dict[str, dict[str, object]]) -> None:
    assert (said["survey"]["driver"], said["survey"]["cuda"]) == ("590.44.01", "13.1")
    assert said["survey"]["reason"] is None


def test_without_a_driver_a_survey_says_so_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.survey() == machine.Survey(reason=NO_BINDING)


def test_a_gpu_that_is_gone_answers_no_more_and_where_nobody_can_tell_all_do() -> None:
    seen = machine.Survey(
        gpus=(machine.Gpu(0, "H200", "GPU-aaaa", memory_bytes=150 << 30), machine.Gpu(1, "unknown"))
    )
    assert machine.answering(seen, ["0", "1", "GPU-aaaa", "GPU-bbbb"]) == ["0", "GPU-aaaa"]
    assert machine.answering(machine.Survey(reason=NO_BINDING), ["0", "1"]) == ["0", "1"]


@pytest.mark.parametrize(
    ("listed", "names"),
    [(None, ["0", "1"]), ("1,GPU-aaaa", ["1", "GPU-aaaa"]), ("1,9,0", ["1"]), ("", [])],
)
def test_gpus_are_named_as_cuda_takes_them(listed: str | None, names: list[str]) -> None:
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert [name for name, _ in machine.offered(TWO, env)] == names


@pytest.mark.parametrize(
    ("listed", "indices"),
    [(None, [0, 1]), ("1", [1]), ("1,0", [1, 0]), ("GPU-bb", [1]), ("", []), ("0,7,1", [0])],
)
def test_visible_gpus_are_those_that_cuda_would_use(listed: str | None, indices: list[int]) -> None:
    env = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert [each.index for each in machine.visible(TWO, env)] == indices
