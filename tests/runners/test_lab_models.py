"""The lab: models that fit together and are small, a costlier one with the same answers, its set-up."""

import json
import os
import platform
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runners.planning.plan import make_plan
from runners.planning.study_file import read_study
from runners.texts.generators import KINDS, corpus_hash, held_out_text, training_documents
from runners.texts.prompts import prompt_sets
from tests.runners.conftest import LAB, ROOT, lab_executable

MODELS = ROOT / "studies" / "lab-models"
SETUP = ROOT / "runners" / "lab" / "setup.sh"
TRAINING: dict[str, Any] = json.loads((MODELS / "training.json").read_text())


def weights(model: str) -> dict[str, Any]:
    """The header of a safetensors file: name, type and shape of each tensor."""
    data = (MODELS / model / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    return {name: tensor for name, tensor in header.items() if name != "__metadata__"}


def test_the_models_are_small_enough_to_ship() -> None:
    assert sum(f.stat().st_size for f in MODELS.rglob("*") if f.is_file()) < 11_000_000


def test_target_and_draft_speak_the_same_tokens() -> None:
    target, draft = ((MODELS / m / "tokenizer.json").read_bytes() for m in ("target", "draft"))
    assert target == draft
    sizes = [json.loads((MODELS / m / "config.json").read_text()) for m in ("target", "draft")]
    assert {s["vocab_size"] for s in sizes} == {2048}


@pytest.mark.parametrize("model", ["target", "draft"])
def test_the_weights_are_bf16_and_as_many_as_the_training_says(model: str) -> None:
    found = weights(model)
    assert {tensor["dtype"] for tensor in found.values()} == {"BF16"}
    sizes = [tensor["data_offsets"] for tensor in found.values()]
    assert sum(end - start for start, end in sizes) == 2 * TRAINING[model]["parameters"]


@pytest.mark.slow
@pytest.mark.skipif(
    platform.python_version() != TRAINING["environment"]["python"],
    reason="another Python carries other texts",
)
def test_the_shipped_models_were_trained_on_what_the_script_gathers() -> None:
    assert corpus_hash(training_documents()) == TRAINING["corpus"]["hash"]


def test_the_draft_agrees_most_with_the_target_where_the_text_is_least_open() -> None:
    agreement = {kind: found["agreement"] for kind, found in TRAINING["held_out"].items()}
    assert agreement["structured"] > max(agreement["code"], agreement["prose"])
    assert min(agreement.values()) > 0.4


@pytest.mark.slow
def test_nothing_held_out_is_trained_on() -> None:
    trained = "".join(d.text for d in training_documents(dict.fromkeys(KINDS, 300_000)))
    assert "apiVersion" in trained
    assert held_out_text("structured", 500) not in trained


def widen(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [str(lab_executable("python", "vllm")), "-m", "runners.lab.widen", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def same_answers(small: Path, large: Path) -> dict[str, Any]:
    """How far the logits of two models are apart, and whether they go on alike."""
    compare = (
        "import json, sys, torch\nfrom transformers import AutoModelForCausalLM as M\n"
        "a, b = (M.from_pretrained(p, dtype=torch.float32) for p in sys.argv[1:])\n"
        "t = torch.arange(5, 105)[None]\nn = a.config.vocab_size\n"
        "with torch.no_grad():\n  x, y = a(t).logits, b(t).logits\n"
        "same = [m.generate(t, max_new_tokens=24, do_sample=False).tolist() for m in (a, b)]\n"
        "beyond = y[..., n:].amax(-1) if y.shape[-1] > n else y.amax(-1) - 1\n"
        "print(json.dumps(dict(layers=b.config.num_hidden_layers, apart=float((x - y[..., :n]).abs().max()),"
        " greedy=same[0] == same[1], beyond=bool((beyond < y.amax(-1)).all()))))\n"
    )
    python = str(lab_executable("python", "vllm"))
    done = subprocess.run(
        [python, "-c", compare, str(small), str(large)], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_the_costlier_target_has_four_times_the_layers_and_the_same_answers(tmp_path: Path) -> None:
    assert widen(MODELS / "target", tmp_path / "costly", "--num_hidden_layers", 24).returncode == 0
    found = same_answers(MODELS / "target", tmp_path / "costly")
    assert found == {"layers": 24, "apart": 0, "greedy": True, "beyond": True}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["target", "draft"])
def test_a_widened_model_gives_the_same_answers_and_none_of_the_words_that_were_added(
    model: str, tmp_path: Path
) -> None:
    """Five times as wide, in float32: what was added is summed in another order."""
    shape = {
        "hidden_size": 1280, "num_hidden_layers": 8, "num_attention_heads": 20,
        "num_key_value_heads": 4, "intermediate_size": 1500, "vocab_size": 3000,
    }  # fmt: skip
    words = [word for name, size in shape.items() for word in (f"--{name}", size)]
    done = widen(MODELS / model, tmp_path / "wide", *words)
    assert done.returncode == 0, done.stderr
    found = same_answers(MODELS / model, tmp_path / "wide")
    assert found["layers"] == 8
    assert found["apart"] < 1e-4
    assert found["greedy"]
    assert found["beyond"]


@pytest.mark.slow
def test_a_shape_that_cannot_hold_the_model_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    done = widen(MODELS / "target", tmp_path / "narrow", "--hidden_size", 128)
    assert done.returncode == 2
    assert "must be a multiple of 256" in done.stderr
    done = widen(MODELS / "target", tmp_path / "few", "--num_hidden_layers", 2)
    assert done.returncode == 2
    assert "smaller than the model (num_hidden_layers)" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "cells", "launches", "rounds"),
    [
        ("laptop-lab", 189, 21, 8),
        ("laptop-lab-quick", 12, 3, 8),
        ("laptop-lab-costly", 108, 12, 8),
        ("lab-gpu", 36, 12, 5),
    ],
)
def test_a_lab_study_is_what_it_says_and_has_prompts_enough(
    name: str, cells: int, launches: int, rounds: int
) -> None:
    study = read_study(ROOT / "studies" / f"{name}.yaml")
    plan = make_plan(study)
    assert (len(plan.cells), len(plan.launches)) == (cells, launches)
    assert all(prompt_sets(study, dataset.name) for dataset in study.measured_on)
    assert all(cell.prompts >= rounds * cell.concurrency for cell in plan.cells)
    assert study.request.temperature == 0


def set_up(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(SETUP), *words], capture_output=True, text=True, check=False, env={**os.environ, **env}
    )


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        ((), {"LAB_PYTHON": "python-that-is-not"}, "python-that-is-not is not there"),
        ((), {"LAB_PYTHON": "/bin/false"}, "/bin/false is not Python 3.11"),
        (("sglang",), {}, "there is no environment sglang"),
        (("vllm-gpu",), {}, "there is no NVIDIA GPU on this machine"),
    ],
)
def test_a_set_up_that_cannot_be_says_why(
    words: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    done = set_up(*words, **env)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.fixture
def lab_of_its_own(tmp_path: Path) -> Path:
    """A copy of the set-up, with a FAKE Python whose venv has a FAKE pip, and a FAKE df; nothing is
    fetched."""
    shutil.copytree(ROOT / "runners" / "lab", tmp_path / "runners" / "lab")
    tools = tmp_path / "bin"
    tools.mkdir()
    pip = "#!/bin/sh\necho 'ERROR: No matching distribution found for torch==2.13.0+cpu.'\nexit 1\n"
    (tools / "fake-pip").write_text(pip)
    python = (
        'case "$2" in venv) mkdir -p "$4/bin"; cp "$(dirname "$0")/fake-pip" "$4/bin/pip" ;; esac'
    )
    (tools / "python-fake").write_text(f"#!/bin/sh\n{python}\n")
    (tools / "df").write_text('#!/bin/sh\nprintf "Filesystem\\nx 9 9 ${FREE_MB:-9999} 9 /\\n"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return tmp_path


def made(folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    tools = folder / "bin"
    path = {"PATH": f"{tools}:{os.environ['PATH']}", "LAB_PYTHON": str(tools / "python-fake")}
    return subprocess.run(
        [str(folder / "runners" / "lab" / "setup.sh")], capture_output=True, text=True,
        check=False, env={**os.environ, **path, **env},
    )  # fmt: skip


def test_the_size_of_all_is_said_before_anything_is_fetched_and_a_failure_says_what_next(
    lab_of_its_own: Path,
) -> None:
    done = made(lab_of_its_own)

    first, second = done.stdout.splitlines()
    assert first.startswith("lab: to make: vllm guidellm-0.8.1: about 5000 MB of disk")
    assert second == "lab: making vllm: about 3500 MB"
    assert int(first.split()[6]) <= 5200
    assert "No matching distribution found for torch==2.13.0+cpu. All its words" in done.stderr
    assert "the same command goes on" in done.stderr


def test_a_disk_without_room_is_said_before_anything_is_fetched(lab_of_its_own: Path) -> None:
    done = made(lab_of_its_own, FREE_MB="4999")

    assert (done.returncode, done.stdout) == (1, "")
    assert "take about 5000 MB of disk and 4999 MB are free" in done.stderr
    assert not (lab_of_its_own / ".lab" / "vllm").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    not all((LAB / name / ".made").exists() for name in ("vllm", "guidellm-0.8.1")),
    reason="`make lab-envs` was not run here",
)
def test_setting_up_twice_makes_nothing_again() -> None:
    assert set_up().stdout.splitlines() == ["lab: vllm stands", "lab: guidellm-0.8.1 stands"]
