"""``draftboard run`` end to end: the FAKE engine, the real GuideLLM 0.8.1, real processes and signals."""

import contextlib
import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from ingest.formats.drop import Drop, open_drop
from runners.executors import PROGRAM
from runners.measuring.resume import look
from runners.planning.study_file import read_study
from runners.texts.prompts import prompt_sets
from tests.runners.conftest import ROOT, lab_executable
from tests.runners.engine import fake_engine
from tests.runners.small_study import PATIENCE_S, PROMPTS, SmallStudy, end, small_study, wait_for
from warehouse.contract import Record

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def good(study: SmallStudy) -> list[str]:
    return [cell.key for cell in look(study.plan, study.layout).good]


def failures(study: SmallStudy) -> list[dict]:
    found = sorted(study.layout.root.rglob("*.failed-*"))
    return [study.record(folder) for folder in found]


def leftovers(study: SmallStudy) -> list[Path]:
    return list(study.layout.root.rglob("*.partial"))


def test_a_run_measures_what_is_missing_and_the_same_command_then_does_nothing(tmp_path) -> None:
    study = small_study(tmp_path)
    first = study.run()

    assert first.returncode == 0, first.stderr
    assert good(study) == [cell.key for cell in study.plan.cells]
    assert study.starts() == len(study.plan.launches)
    assert study.running() == []
    assert leftovers(study) == []
    before = {path: path.stat().st_mtime_ns for path in study.layout.root.rglob("record.json")}

    again = study.run()

    assert again.returncode == 0
    assert "2 good already, 0 to run" in again.stderr
    assert study.starts() == len(study.plan.launches)
    assert {path: path.stat().st_mtime_ns for path in before} == before

    check_drop(study, "draft/tp1/numbers/c2-r0")
    check_machine(open_drop(study.cell("draft/tp1/numbers/c2-r0")))
    check_whole_folder_ingests(study, tmp_path)


def check_drop(study: SmallStudy, key: str) -> None:
    """What ingest reads of a cell: identity, prompts, counters of this load alone."""
    cell = next(cell for cell in study.plan.cells if cell.key == key)
    drop = open_drop(study.cell(key))
    record = drop.record
    assert isinstance(record, Record)
    assert (record.study, record.arm, record.dataset, record.repeat) == (
        "small",
        "draft",
        "numbers",
        0,
    )
    assert (record.spec_method, record.num_speculative_tokens) == ("draft_model", 3)
    assert (record.engine, record.engine_version, record.evidence) == ("vllm", "0.32.0", "mock")
    assert (record.fingerprint, record.planned_requests) == (cell.fingerprint, PROMPTS)
    assert (record.attempt, record.launch) == (1, "r0-draft-tp1")
    sets = prompt_sets(read_study(study.path), "numbers")
    assert record.prompt_set_hash == sets["c2"].hash
    assert set(record.timeline) == {"server_start", "warm_up", "load", "overhead", "total"}
    parts = sum(value for name, value in record.timeline.items() if name != "total")
    assert record.timeline["total"] == pytest.approx(parts, abs=0.01)
    assert record.commands["vllm"][1:3] == ["serve", "org/small"]
    assert "--per-request-spec-decode-metrics" in record.commands["vllm"]
    assert record.commands["vllm"][6].isdigit()
    assert record.commands["guidellm"][1] == "run"
    assert drop.before is not None
    assert drop.after is not None
    assert drop.series
    texts = [*sets["c2"].prompts]
    written = (study.cell(key) / "record.json").read_text()
    assert not any(text in written for text in texts)


def check_machine(drop: Drop) -> None:
    """Someone looked at the machine during the load, and the launch met no other one."""
    assert {"cpu_cores_used_by_others", "launches_beside"} <= set(drop.machine.snapshots[-1].values)
    assert drop.record.environment["neighbours"] == []


def check_whole_folder_ingests(study: SmallStudy, tmp_path: Path) -> None:
    """Nothing that a run leaves in its folder is rejected."""
    done = subprocess.run(
        [*PROGRAM, "ingest", str(study.results), "--warehouse",
         str(tmp_path / "warehouse"), "--json"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    said = json.loads(done.stdout)
    assert said["rejected"] == []


def test_a_server_killed_in_a_cell_is_a_failed_attempt_and_the_next_one_is_good(tmp_path) -> None:
    # GuideLLM ends with status 0 and a report that looks normal.
    study = small_study(tmp_path, f"--fake-crash-after 6 --fake-once {tmp_path / 'once'}")
    done = study.run("--only", "arm=draft")

    assert done.returncode == 0, done.stderr
    assert "trying again" in done.stderr
    assert good(study) == ["draft/tp1/numbers/c2-r0"]
    (failed,) = failures(study)
    assert (failed["status"], failed["attempt"]) == ("failed", 1)
    assert any("told to die" in line for line in failed["log_excerpt"])
    assert study.record(study.cell(good(study)[0]))["attempt"] == 2
    assert study.starts() == 2
    assert study.running() == []


@pytest.mark.long
def test_an_engine_that_hangs_is_replaced_long_before_the_cells_limit(tmp_path) -> None:
    once = tmp_path / "once"
    study = small_study(
        tmp_path, f"--fake-hang-after 6 --fake-once {once}", limits={"retries": 1, "cell_s": 60}
    )
    done = study.run("--only", "arm=draft")

    assert done.returncode == 0, done.stderr
    (failed,) = failures(study)
    assert failed["failure_cause"] == "hangs"
    assert failed["timeline"]["load"] < 60
    assert study.starts() == 2
    assert study.running() == []


def test_cells_that_stay_bad_are_recorded_and_the_sweep_goes_on(tmp_path) -> None:
    study = small_study(tmp_path, "--fake-crash-after 6", limits={"retries": 0, "cell_s": 60})
    done = study.run()

    assert done.returncode == 1
    assert "2 cells are not good" in done.stderr
    assert "Traceback" not in done.stderr
    assert [record["arm"] for record in failures(study)] == ["baseline", "draft"]
    assert good(study) == []
    assert study.running() == []


def test_a_server_that_never_comes_up_is_not_started_for_each_cell(tmp_path) -> None:
    study = small_study(tmp_path, "--fake-oom", concurrency=[1, 2])
    done = study.run("--only", "arm=baseline")

    assert done.returncode == 1
    assert study.starts() == 2  # once, and one retry
    causes = [record["failure_cause"] for record in failures(study)]
    assert set(causes) == {"out_of_memory"}
    assert {record["concurrency"] for record in failures(study)} == {1, 2}
    assert any("out of memory" in line for line in failures(study)[0]["log_excerpt"])


def test_a_server_that_did_not_start_is_tried_once_more_when_the_others_are_done(tmp_path) -> None:
    taken = "ValueError: Free memory is less than desired GPU memory utilization"
    study = small_study(
        tmp_path, f"--fake-die '{taken}' --fake-once {tmp_path / 'once'}",
        limits={"retries": 0, "cell_s": 60},
    )  # fmt: skip
    done = study.run()

    assert done.returncode == 0, done.stderr
    assert "r0-baseline-tp1: no server came up; once more" in done.stderr
    assert [record["failure_cause"] for record in failures(study)] == ["memory_taken"]
    assert len(good(study)) == 2
    assert study.starts() == 3
    assert "[2/2]" in done.stderr


def in_the_load(study: SmallStudy) -> bool:
    return any(path.stat().st_size for path in study.layout.root.rglob(".*.partial/*samples*"))


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_run_that_is_asked_to_end_leaves_nothing_and_goes_on_later(tmp_path, number) -> None:
    study = small_study(tmp_path, "--fake-delay 0.2")
    process = study.start("--only", "arm=baseline")
    wait_for(lambda: in_the_load(study), "the load of a cell")
    status, said = end(process, number)

    assert status == 128 + number
    assert "Traceback" not in said
    assert study.running() == []
    assert (leftovers(study), failures(study), good(study)) == ([], [], [])

    assert study.run("--only", "arm=baseline").returncode == 0
    assert good(study) == ["baseline/tp1/numbers/c2-r0"]


def test_a_killed_runner_leaves_nothing_running_and_no_half_result(tmp_path) -> None:
    study = small_study(tmp_path, "--fake-delay 0.2 --fake-workers 2")
    process = study.start()
    wait_for(lambda: in_the_load(study), "the load of a cell")
    end(process, signal.SIGKILL)

    wait_for(lambda: study.running() == [], "the end of every process")
    assert good(study) == []
    check_whole_folder_ingests(study, tmp_path)

    done = study.run("--only", "arm=baseline")
    assert done.returncode == 0, done.stderr
    assert good(study) == ["baseline/tp1/numbers/c2-r0"]
    assert leftovers(study) == []


def test_without_guidellm_nothing_is_started(tmp_path) -> None:
    study = small_study(tmp_path)
    text = study.path.read_text()
    lines = [
        "  guidellm: ./no-guidellm" if line.strip().startswith("guidellm:") else line
        for line in text.splitlines()
    ]
    study.path.write_text("\n".join(lines))
    done = study.run()

    assert done.returncode == 1
    assert "GuideLLM cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert study.starts() == 0


def test_a_dataset_that_is_too_small_is_said_before_anything_starts(tmp_path) -> None:
    study = small_study(tmp_path, concurrency=[2, 4, 8, 16, 32, 64, 128])
    done = study.run()

    assert done.returncode == 1
    assert "has 60 different prompts, but its levels need 70" in done.stderr
    assert study.starts() == 0


def set_aside(study: SmallStudy) -> int:
    return len(list(study.layout.root.glob(".superseded/**/record.json")))


def test_a_changed_study_says_what_it_loses_and_fresh_measures_again(tmp_path) -> None:
    study = small_study(tmp_path)
    only = ("--only", "arm=baseline")
    assert study.run(*only).returncode == 0
    old = study.record(study.cell(good(study)[0]))

    study.path.write_text(study.path.read_text().replace("max_tokens: 8", "max_tokens: 9"))
    asked = study.run(*only)
    assert asked.returncode == 1
    assert "add --yes" in asked.stderr
    assert set_aside(study) == 0
    changed = study.run(*only, "--yes")

    assert changed.returncode == 0, changed.stderr
    assert "under another version of the study (they differ in: request)" in changed.stderr
    assert "baseline/tp1/numbers/c2-r0" in changed.stderr
    new = study.record(study.cell(good(study)[0]))
    assert (old["max_tokens"], new["max_tokens"]) == (8, 9)
    assert set_aside(study) == 1

    study.path.write_text(study.path.read_text().replace("max_tokens: 9", "max_tokens: 8"))
    back = study.run(*only)
    assert "1 cells that were set aside are good again" in back.stderr
    assert study.starts() == 2
    assert study.record(study.cell(good(study)[0])) == old

    assert study.run(*only, "--fresh").returncode == 1
    assert study.run(*only, "--fresh", "--yes").returncode == 0
    assert set_aside(study) == 2


def test_an_edit_that_adds_a_load_measures_only_that_load(tmp_path) -> None:
    study = small_study(tmp_path, concurrency=[2, 3])
    only = ("--only", "arm=baseline")
    assert study.run(*only).returncode == 0
    before = {path: path.read_bytes() for path in study.layout.root.glob("**/record.json")}
    said = yaml.safe_load(study.path.read_text())
    said["concurrency"] = [1, 3, 2]
    said["environment"]["HF_TOKEN"] = "hf_" + "x" * 30
    said["target"]["precision"] = "bf16"
    study.path.write_text(yaml.safe_dump(said))
    done = study.run(*only)

    assert done.returncode == 0, done.stderr
    assert "3 cells: 2 good already, 1 to run" in done.stderr
    assert {path: path.read_bytes() for path in before} == before
    hashes = {
        record["prompt_set_hash"] for record in map(study.record, map(study.cell, good(study)))
    }
    assert len(hashes) == 3


def test_another_version_of_the_engine_is_another_cell(tmp_path) -> None:
    study = small_study(tmp_path)
    only = ("--only", "arm=baseline")
    assert study.run(*only).returncode == 0
    newer = tmp_path / "bin" / "newer"
    newer.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 9.9.9 && exit\nexec "$(dirname "$0")/vllm" "$@"\n'
    )
    newer.chmod(0o755)
    text = study.path.read_text()
    study.path.write_text(text.replace(str(tmp_path / "bin" / "vllm"), str(newer)))
    done = study.run(*only)

    assert done.returncode == 0, done.stderr
    assert "1 to run" in done.stderr
    found = sorted(path.name for path in study.layout.cells("baseline/tp1/numbers/c2-r0"))
    assert found == ["c2-r0@vllm0.32.0-guidellm0.8.1", "c2-r0@vllm9.9.9-guidellm0.8.1"]
    study.path.write_text(text)
    assert "1 good already, 0 to run" in study.run(*only).stderr


def test_a_server_of_somebody_else_is_loaded_and_what_it_hides_stays_unknown(tmp_path) -> None:
    study = small_study(tmp_path)
    with fake_engine(tmp_path, "--served-model-name", "small") as url:
        refused = study.run("--target-url", url)
        done = study.run("--target-url", f"{url}/v1", "--only", "arm=baseline")

        assert refused.returncode == 1
        assert "--only arm=" in refused.stderr
        assert done.returncode == 0, done.stderr
    assert study.starts() == 0
    record = open_drop(study.cell("baseline/tp1/numbers/c2-r0")).record
    assert (record.engine, record.engine_version) == ("vllm", "0.32.0")
    assert (record.gpu, record.gpu_count, record.server_args) == (None,) * 3
    assert record.prefix_caching is True  # Its metrics say so.
    assert "vllm" not in record.commands
    assert record.timeline["server_start"] == 0


def test_two_servers_swapped_on_purpose_are_refused_and_nothing_is_lost(tmp_path) -> None:
    study = small_study(tmp_path)
    with fake_engine(tmp_path, "--served-model-name", "small") as plain:
        assert study.run("--target-url", plain, "--only", "arm=baseline").returncode == 0
        swapped = study.run("--target-url", plain, "--only", "arm=draft")
    with fake_engine(tmp_path, "--served-model-name", "small", "--fake-k=3") as drafting:
        other = study.run("--target-url", drafting, "--only", "arm=baseline", "--fresh", "--yes")

    for done, why in ((swapped, "it does not speculate"), (other, "it is no baseline")):
        assert done.returncode == 1
        assert why in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(study.layout.root.glob("draft/**/record.json"))


@pytest.mark.parametrize("version", ["0.8.1", pytest.param("0.5.3", marks=pytest.mark.long)])
def test_a_server_without_metrics_that_asks_for_a_key_is_measured_and_the_key_stays_nowhere(
    tmp_path, version: str
) -> None:
    key, file = "a-key-of-these-tests", tmp_path / "key"
    file.write_text(key)
    guidellm = lab_executable("guidellm", f"guidellm-{version}")
    study = small_study(tmp_path)
    said = yaml.safe_load(study.path.read_text())
    said["executables"]["guidellm"] = str(guidellm)
    study.path.write_text(yaml.safe_dump(said))
    switches = ("--served-model-name", "small", "--fake-no-metrics", "--fake-api-key", key)
    with fake_engine(tmp_path, *switches) as url:
        arguments = ("--target-url", url, "--only", "arm=draft")
        without = study.run(*arguments)
        done = study.run(*arguments, "--api-key-file", str(file))

    assert without.returncode == 1
    assert "asks for an API key" in without.stderr
    assert done.returncode == 0, done.stderr
    folder = study.cell("draft/tp1/numbers/c2-r0")
    assert not (folder / "metrics-before.prom").exists()
    assert "speculative_config" in study.record(folder)["environment"]["stated"]
    written = [path for path in study.results.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if key.encode() in path.read_bytes()]


def test_two_runs_never_measure_the_same_launch(tmp_path) -> None:
    # A load so long that the second run, however slow its start, comes while it lasts.
    long = {"name": "numbers", "file": "prompts.jsonl", "prompts_per_level": 50}
    study = small_study(tmp_path, "--fake-delay 0.4", datasets=[long])
    process = study.start("--only", "arm=baseline")
    wait_for(lambda: in_the_load(study), "the load of a cell")
    second = study.run("--only", "arm=baseline")
    end(process, signal.SIGTERM)

    assert second.returncode == 1
    assert "Another run is measuring r0-baseline-tp1" in second.stderr
    assert study.starts() == 1


SMALL_DISK = """
set -e
mount -t tmpfs -o size="$1" tmpfs "$2"
shift 2
exec "$@"
"""


def run_on_a_small_disk(study: SmallStudy, size: str) -> "subprocess.Popen[str]":
    """Start a run whose results folder is a disk of its own; only the run itself sees it."""
    unshare = ["unshare", "-rm"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False).returncode
    ):
        pytest.skip("this machine does not let an unprivileged process mount a small disk")
    study.results.mkdir()
    argv = [*unshare, "sh", "-c", SMALL_DISK, "sh", size, str(study.results), *study.command()]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_a_disk_without_room_for_a_cell_is_said_before_its_load(tmp_path) -> None:
    study = small_study(tmp_path)
    process = run_on_a_small_disk(study, "100k")
    _, said = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1, said
    assert "is full; nothing good was lost" in said
    assert "Traceback" not in said
    assert study.running() == []


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_disk_that_fills_during_a_load_ends_the_run_with_a_sentence(tmp_path) -> None:
    study = small_study(tmp_path, "--fake-delay 0.5")
    process = run_on_a_small_disk(study, "2m")
    seen = Path(f"/proc/{process.pid}/root") / str(study.results).lstrip("/")
    wait_for(lambda: any(seen.rglob(".*.partial/*samples*")), "the load of a cell")
    fill(seen / "big")
    _, said = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1, said
    assert "is full; nothing good was lost" in said
    assert study.running() == []


def test_a_precision_that_the_engine_does_not_run_is_refused_before_a_cell(tmp_path) -> None:
    config = json.dumps({"model_config": {"dtype": "torch.bfloat16", "quantization": "mxfp4"}})
    target = {"model": "org/small", "served_name": "small", "precision": "bf16"}
    study = small_study(tmp_path, f"--fake-config '{config}'", target=target)
    done = study.run("--only", "arm=baseline")

    assert done.returncode == 1
    assert "Its weights are mxfp4, and the study says bf16" in done.stderr
    assert study.starts() == 1
    assert [record["failure_cause"] for record in failures(study)] == ["other_server"]
    assert study.running() == []
