"""What a record says of software and machine, asked from the real environments, and what it hides."""

import getpass
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.measuring import record
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.probes import interpreter
from runners.serving.engines import tool
from runners.surroundings import machine
from runners.surroundings.machine import public
from tests.runners.conftest import lab_executable
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import REMOVED

StudyOf = Callable[..., Study]


@pytest.fixture
def lab_study(study_of: StudyOf, vllm: Path) -> Study:
    guidellm = lab_executable("guidellm", "guidellm-0.5.3")
    return study_of(executables={"vllm": str(vllm), "guidellm": str(guidellm)})


@pytest.mark.slow
def test_versions_are_those_of_each_executables_own_environment(lab_study: Study) -> None:
    found = record.versions(lab_study)
    assert (found["vllm"], found["guidellm"]) == ("0.32.0+cpu", "0.5.3")
    assert str(found["torch"]).endswith("+cpu")
    assert found["cuda"] is None


def test_a_missing_executable_leaves_versions_unknown(study_of: StudyOf) -> None:
    study = study_of(executables={"vllm": "./nowhere/vllm", "guidellm": "no-such-guidellm"})
    found = record.versions(study)
    assert (found["vllm"], found["torch"], found["guidellm"]) == (None, None, None)
    assert tool(study, "guidellm").problem == "there is no executable no-such-guidellm"


@pytest.mark.slow
def test_an_environment_is_json_and_says_what_the_machine_is(lab_study: Study) -> None:
    said = json.loads(json.dumps(record.environment(lab_study), allow_nan=False))
    assert said["versions"]["vllm"] == "0.32.0+cpu"
    assert said["packages"]["guidellm"]["guidellm"] == "0.5.3"
    assert said["system"]["kernel"]
    assert said["cpu"]["cores"] >= said["cpu"]["usable_cores"] >= 1
    assert said["memory_bytes"] > 1 << 28


@pytest.mark.slow
def test_a_cpu_build_runs_on_the_processor_even_beside_gpus(
    lab_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine.Survey(gpus=(machine.Gpu(0, "NVIDIA H200"),), driver="590")
    monkeypatch.setattr(machine, "survey", lambda: one)
    assert record.hardware(lab_study, one.gpus) == (machine.cpu_model(), None)
    assert record.environment(lab_study, one.gpus)["gpus"] == []


def test_hardware_counts_the_gpus_that_the_server_may_use(
    study_of: StudyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = machine.Survey(gpus=tuple(machine.Gpu(index, "NVIDIA H200") for index in range(8)))
    monkeypatch.setattr(machine, "survey", lambda: node)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,4")
    for evidence, count in ((None, 1), ("mock", 3)):
        study = study_of(executables={"vllm": "no-such-vllm"}, evidence=evidence)
        found = record.local_setting(study, make_plan(study).launches[0], ())
        assert (found.facts["gpu"], found.facts["gpu_count"]) == ("NVIDIA H200", count)
        assert [gpu["index"] for gpu in found.environment["gpus"]] == [2, 3, 4][:count]


def test_revisions_tell_local_models_apart(study_of: StudyOf, tmp_path: Path) -> None:
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"name": name}))
    drafting = {"method": "draft_model", "model": "./draft", "num_speculative_tokens": 2}
    study = study_of(
        target={"model": "./target"},
        arms=[{"name": "baseline"}, {"name": "draft", "speculative_config": drafting}],
    )
    baseline, drafted = (record.revisions(study, variant) for variant in study.variants)
    assert baseline["draft_revision"] is None
    assert baseline["model_revision"] == drafted["model_revision"] != drafted["draft_revision"]
    assert str(drafted["draft_revision"]).startswith("local:")


def test_an_environment_holds_no_secret_and_no_home(
    study_of: StudyOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "jane"))
    monkeypatch.setenv("HF_TOKEN", "not-a-usual-shape-of-token")
    monkeypatch.setenv("VLLM_API_KEY", "swordfish-123")
    study = study_of(
        executables={"vllm": "no-such-vllm"},
        environment={
            "HF_HOME": str(tmp_path / "jane" / "cache"),
            "MY_PASSWORD": "hunter2-hunter2",
            "VLLM_NOTE": "uses not-a-usual-shape-of-token",
        },
    )
    text = json.dumps(record.environment(study))
    for hidden in ("not-a-usual-shape", "swordfish", "hunter2", "jane", str(tmp_path)):
        assert hidden not in text
    assert "~/cache" in text
    assert not {"HF_TOKEN", "VLLM_API_KEY", "MY_PASSWORD"} & record.variables(study).keys()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/home/jane/models/x", "~/models/x"),
        ("--log=/Users/jane/x", "--log=~/x"),
        ("hf_abcdefghijklmnopqrstuvwxyz", REMOVED),
        ("http://jane:pw@proxy:3128", f"http://{REMOVED}@proxy:3128"),
        (["--api-key", "s3cret", "--port", "80"], ["--api-key", REMOVED, "--port", "80"]),
        (["--hf-token=s3cret"], [f"--hf-token={REMOVED}"]),
        ({"api_key": "s3cret", "max_tokens": 5}, {"api_key": REMOVED, "max_tokens": 5}),
        ({"pad_token_id": 0, "tokenizer": "a/b"}, {"pad_token_id": 0, "tokenizer": "a/b"}),
        ("/homes/of/data", "/homes/of/data"),
    ],
)
def test_what_is_made_public(value: object, shown: object) -> None:
    assert public(value) == shown


def test_the_users_name_is_hidden_where_it_is_part_of_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "jane")
    assert public("/scratch/jane/models/janet") == "/scratch/[user]/models/janet"


def test_the_git_state_is_the_commit_and_whether_files_were_changed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    clean = machine.git_state(tmp_path)
    machine.git_state.cache_clear()
    (tmp_path / "a").write_text("2")
    changed = machine.git_state(tmp_path)
    assert clean is not None
    assert changed == {"commit": clean["commit"], "changed": True}
    assert clean["changed"] is False


def test_outside_a_working_tree_there_is_no_git_state(tmp_path: Path) -> None:
    assert machine.git_state(tmp_path) is None


def test_the_image_of_a_container_is_what_its_operator_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAFTBOARD_IMAGE", "vllm/vllm-openai@sha256:abc")
    said = machine.container()
    assert said is not None
    assert said["image"] == "vllm/vllm-openai@sha256:abc"


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ("overlay / overlay rw,relatime 0 0", "docker"),
        ("/dev/mapper/docker-8:1-abc / ext4 rw 0 0", "docker"),
        ("/dev/vda / ext4 rw,relatime 0 0", None),
        ("/dev/root / ext4 rw,relatime 0 0", None),
    ],
)
def test_a_machine_made_of_an_image_is_no_container(
    root: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"proc /proc proc rw 0 0\n{root}\n/dev/vdb /etc/hosts ext4 rw 0 0\n")
    (tmp_path / ".dockerenv").touch()
    monkeypatch.setattr(machine, "_MOUNTS", mounts)
    monkeypatch.setattr(machine, "_DOCKER", tmp_path / ".dockerenv")
    for name in ("KUBERNETES_SERVICE_HOST", "DRAFTBOARD_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    said = machine.container()
    assert (said and said["kind"]) == kind


def test_what_an_image_requires_of_a_driver_is_not_kept(
    study_of: StudyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVIDIA_REQUIRE_CUDA", "cuda>=13.0 brand=unknown,driver>=535,driver<536")
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "0")
    kept = record.variables(study_of())
    assert "NVIDIA_REQUIRE_CUDA" not in kept
    assert kept["NVIDIA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize(
    "head",
    [
        "#!{python}\nimport x\n",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport x\n",
        "#!/usr/bin/env python3\nimport x\n",
    ],
)
def test_the_python_of_a_script_is_that_of_its_first_lines(tmp_path: Path, head: str) -> None:
    script = tmp_path / "vllm"
    script.write_text(head.format(python=sys.executable))
    found = interpreter.python_of(script)
    by_path = Path(str(shutil.which("python3")))
    assert found == (by_path if "env" in head else Path(sys.executable))


def test_a_wrapper_that_is_no_python_script_says_its_own_version(study_of: StudyOf) -> None:
    study = study_of(executables={"vllm": "./vllm"})
    wrapper = Path(study.located("./vllm"))
    wrapper.write_text('#!/bin/sh\ntest "$1" = --version && echo "0.32.0"\n')
    wrapper.chmod(0o755)
    found = tool(study, "vllm")
    assert (found.python, found.version, found.problem) == (None, "0.32.0", None)
    assert found.for_cpu is None


def test_a_python_that_cannot_answer_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    traceback = "Traceback:\n  File x\n    import y\nImportError: no libcuda\nSee the notes."
    broken.write_text(f"#!/bin/sh\necho '{traceback}' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(RunnerError, match=r"could not be asked: ImportError: no libcuda\.$"):
        interpreter.ask(broken, "versions", {"distributions": []}, {}, timeout_s=20)


def test_a_python_that_hangs_is_given_up(tmp_path: Path) -> None:
    hanging = tmp_path / "python3"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    with pytest.raises(RunnerError, match="did not answer within 0 s"):
        interpreter.ask(hanging, "versions", {"distributions": []}, {}, timeout_s=0.2)
