"""How long a study will take on a GPU, by what a step reads of its memory: by hand, and of 28 recorded cells."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from commands.running.plan import doctor, plan
from runners.checks.doctor import run_check
from runners.planning.estimate import (
    Assumed,
    RecordedDurations,
    assumed_here,
    estimate,
    expected_seconds,
    request_s,
)
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.surroundings.machine import NO_BINDING, Survey, memory_bandwidth
from runners.surroundings.models import find, memory_estimate
from tests.runners.test_doctor import NODE, TARGET, only, situation, write_model
from tests.runners.test_memory import LLAMA_8B, gpt_oss

StudyOf = Callable[..., Study]
ROOT = Path(__file__).parents[2]
H200 = ROOT / "examples" / "h200"
#: The lab's pair as it was widened for that run.
LAB = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 64, "head_dim": 64,
    "num_key_value_heads": 16, "intermediate_size": 14336, "vocab_size": 2048,
    "tie_word_embeddings": True, "max_position_embeddings": 512,
}  # fmt: skip
LAB_DRAFT = LAB | {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 8192,
}  # fmt: skip
WORDS = {
    "arms": [{"name": "baseline"}],
    "concurrency": [1, 5, 25, 50, 100, 200],
    "datasets": [{"name": "words", "generator": {"kind": "prose"},
                  "prompts_per_level": {1: 6, 5: 25, 25: 75, 50: 100, 100: 200, 200: 400}}],
    "request": {"max_tokens": 300},
}  # fmt: skip
PAIR = {
    "arms": [{"name": "baseline"},
             {"name": "draft", "num_speculative_tokens": [2, 3, 5],
              "speculative_config": {"method": "draft_model", "model": "./draft"}}],
    "concurrency": [1, 16, 128],
    "datasets": [
        {"name": "code", "generator": {"kind": "code"}, "prompts_per_level": {1: 10, 16: 128, 128: 640}},
        {"name": "structured", "generator": {"kind": "structured"}, "prompts_per_level": {128: 640},
         "concurrency": [128]},
    ],
    "request": {"max_tokens": 128},
}  # fmt: skip


def on_h200(study: Study, survey: Survey = NODE) -> Assumed:
    return assumed_here(make_plan(study), survey, Assumed())


@pytest.mark.parametrize(
    ("name", "config", "parts", "cells"),
    [
        ("gpt-oss-120b-dummy", gpt_oss(36, 128) | {"num_experts_per_tok": 4}, WORDS, 6),
        ("llama-8b-dummy", LLAMA_8B, WORDS, 6),
        ("lab-target-8b", LAB, PAIR, 16),
    ],
)
def test_every_cell_recorded_on_an_h200_and_its_median_request_took_half_to_twice_as_long_as_is_estimated(
    study_of: StudyOf, tmp_path: Path, name: str, config: dict[str, Any], parts: dict[str, Any],
    cells: int,
) -> None:  # fmt: skip
    write_model(tmp_path / "target", config)
    write_model(tmp_path / "draft", LAB_DRAFT)
    study = study_of(name=name, target={"model": "./target"}, **parts)
    laid_out = make_plan(study)
    # A start of no time, so that only the cells are told.
    no_start = RecordedDurations((), (0.0,))
    assumed = on_h200(study)
    told = expected_seconds(laid_out, laid_out.cells, no_start, assumed)
    planned = {cell.key: cell for cell in laid_out.cells}

    ratios = {}
    for path in H200.glob(f"{name}/*/*/*/*/record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        key = str(path.parent.relative_to(H200 / name)).partition("@")[0]
        took = record["timeline"]["total"] - record["timeline"]["server_start"]
        ratios[key] = told[key] / took
        cell = planned[key]
        with pa.input_stream(path.with_name("guidellm.json.zst"), compression="zstd") as packed:
            (level,) = json.loads(packed.read())["benchmarks"]
        latency = median(each["request_latency"] for each in level["requests"]["successful"])
        held, config = assumed.held[cell.arm, 1], cell.identity["speculative_config"] or {}
        answer = study.request.max_tokens or 0
        each = request_s(held, assumed.bandwidth, config, cell.most_at_once, answer)
        ratios[f"request of {key}"] = each / latency

    assert len(ratios) == 2 * cells
    assert {key: ratio for key, ratio in ratios.items() if not 0.5 <= ratio <= 2} == {}


def test_a_step_takes_what_it_reads_over_the_bandwidth_and_a_little_more(tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    files = find(str(tmp_path / "target"), None, {})
    held = memory_estimate(replace(files, weight_bytes=14_400_000_000), None)

    # 3 ms of weights; 256 + 50 tokens of 128 KiB are 40.1 MB or 8.4 µs; 2.035 ms beside; a hundred steps.
    alone = 100 * (0.003 + 8.356e-6 + 0.002035)
    assert request_s(held, 4.8e12, {}, 1, 100) == pytest.approx(alone, rel=1e-4)
    # Ten at once read ten caches.
    ten = 100 * (0.003 + 83.56e-6 + 0.00235)
    assert request_s(held, 4.8e12, {}, 10, 100) == pytest.approx(ten, rel=1e-4)
    # Three passes of a draft of 4.8 GB, 1 ms each; each step then yields two tokens.
    config = {"num_speculative_tokens": 3, "synthetic_acceptance_rates": [0.5, 0.3, 0.2]}
    drafted = replace(held, draft_bytes=4_800_000_000)
    by_hand = 50 * (0.003 + 3 * 0.001 + 8.356e-6 + 4 * 0.002035)
    assert request_s(drafted, 4.8e12, config, 1, 100) == pytest.approx(by_hand, rel=1e-4)
    # N-grams cost no pass through a model.
    looked_up = 50 * (0.003 + 8.356e-6 + 0.002035)
    assert request_s(held, 4.8e12, config | {"method": "ngram"}, 1, 100) == pytest.approx(
        looked_up, rel=1e-4
    )


def test_a_step_of_a_mixture_reads_the_experts_that_its_tokens_visit(tmp_path: Path) -> None:
    config = gpt_oss(36, 128) | {"num_experts_per_tok": 4}
    write_model(tmp_path / "moe", config)
    held = memory_estimate(find(str(tmp_path / "moe"), None, {}), None)
    whole = held.target_bytes
    assert whole is not None

    # 114.7 G of parameters in 4.25 bits are 60.9 of 65.1 GB. 4 of 128 experts a token: of the experts 1/32 for one, 1 - (31/32)^64 = 86.9 % for 64 tokens.
    assert held.read_by(1) == pytest.approx(whole - 60.9e9 * 31 / 32, rel=0.01)
    assert held.read_by(64) == pytest.approx(whole - 60.9e9 * 0.1311, rel=0.001)
    # A byte of an expert takes three times as long.
    slow = whole - 60.9e9 + 3 * 60.9e9 / 32
    assert held.read_by(1, 3.0) == pytest.approx(slow, rel=0.01)
    # Published for gpt-oss-120b on an H200, and not fitted to: 7 s for 1000 tokens alone, 51 s among 100.
    for at_once, seconds in ((1, 7), (100, 51)):
        assert 0.5 < request_s(held, 4.8e12, {}, at_once, 1000) / seconds < 2
    write_model(tmp_path / "dense", TARGET)
    dense = memory_estimate(find(str(tmp_path / "dense"), None, {}), None)
    assert dense.read_by(1) == dense.target_bytes


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("NVIDIA H200", 4800), ("H200 141GB", 4800), ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000), ("NVIDIA A100-SXM4-80GB", 2039), ("NVIDIA A100-PCIE-40GB", 1555),
        ("NVIDIA L40S", 864), ("NVIDIA L4", 300), ("NVIDIA H100 NVL", None), ("NVIDIA GH200 480GB", None),
        ("AMD Instinct MI300X", None), ("NVIDIA A100", None),
    ],
)  # fmt: skip
def test_the_bandwidth_of_a_gpu_is_known_by_its_name_or_not_at_all(
    name: str, gigabytes: float | None
) -> None:
    assert memory_bandwidth(name) == (None if gigabytes is None else gigabytes * 1e9)


def test_a_gpu_that_is_not_known_leaves_what_was_assumed_before_and_says_so(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET)
    study_with = partial(study_of, arms=[{"name": "baseline"}], target={"model": "./target"})
    gpus = (replace(NODE.gpus[0], name="NVIDIA Foo"),)
    unknown = on_h200(study_with(), replace(NODE, gpus=gpus))
    plain = estimate(make_plan(study_with()), RecordedDurations(), Assumed())
    told = estimate(make_plan(study_with()), RecordedDurations(), unknown)

    assert told.hours == plain.hours
    assert told.how == (
        "assumed: 7 s a request alone, more among others, since the bandwidth of NVIDIA Foo is not "
        "known here, nothing recorded yet"
    )
    # What the study is for goes before what is here.
    named = estimate(make_plan(study_with(gpu="H200")), RecordedDurations(),
                     on_h200(study_with(gpu="H200"), replace(NODE, gpus=gpus)))  # fmt: skip
    assert named.hours < plain.hours
    assert "by what a step reads at the 4.8 TB/s of H200" in named.how


def test_without_files_a_gpu_or_a_server_on_one_it_stays_as_it_was(
    study_of: StudyOf, tmp_path: Path
) -> None:
    absent = on_h200(study_of(target={"model": "./nowhere"}))
    assert (absent.held, "files that tell a step's bytes are missing" in absent.words) == ({}, True)
    write_model(tmp_path / "target", TARGET)
    here = {"target": {"model": "./target"}}
    assert on_h200(study_of(**here), Survey(reason=NO_BINDING)) == Assumed()
    assert on_h200(study_of(evidence="cpu", **here)) == Assumed()
    assert assumed_here(make_plan(study_of(**here)), NODE, Assumed(2.0)) == Assumed(2.0)


def test_the_plan_and_the_doctor_say_how_long_it_takes_and_why(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", LLAMA_8B)
    study = study_of(arms=[{"name": "baseline"}], target={"model": "./target"}, gpu="NVIDIA H200",
                     request={"max_tokens": 300})  # fmt: skip
    said = CliRunner().invoke(plan, [str(tmp_path / "study.yaml")], catch_exceptions=False).output
    why = "assumed: 1.6 s a request alone, by what a step reads at the 4.8 TB/s of NVIDIA H200"
    assert why in said
    finding = only(run_check("time", situation(study)))
    assert finding.status == "ok"
    assert finding.said.startswith("About 0.0 h in all (")
    assert why in finding.said
    assert "time" in CliRunner().invoke(doctor, [str(tmp_path / "study.yaml")]).output
