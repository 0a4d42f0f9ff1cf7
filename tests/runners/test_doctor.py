"""What the doctor says of a machine: each trap is set, and each finding says how to get out of it."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from commands.running.plan import doctor as command
from runners.checks import doctor
from runners.checks.doctor import run_check
from runners.checks.finding import CheckFinding, Situation, VllmAbilities
from runners.planning.plan import make_plan
from runners.planning.study_file import Study, read_study
from runners.serving.engines import Tool
from runners.surroundings import machine, models
from runners.surroundings.machine import NO_BINDING, NO_DRIVER
from runners.surroundings.models import find
from tests.runners import fake_hub
from tests.runners.conftest import MINIMAL, lab_executable

StudyOf = Callable[..., Study]
ROOT = Path(__file__).parents[2]
NODE = machine.Survey(
    gpus=tuple(
        machine.Gpu(i, "NVIDIA H200", f"GPU-{i}", 150_000_000_000, 149_000_000_000)
        for i in range(2)
    ),
    driver="590.44",
    cuda="13.1",
)
CUDA_VLLM = Tool(
    "vllm", Path("/v/bin/vllm"), Path("/v/bin/python"), "3.12",
    {"vllm": "0.32.0", "torch": "2.13.0"}, "13.0",
)  # fmt: skip
GUIDELLM = Tool("guidellm", Path("/g/bin/guidellm"), None, "3.12", {"guidellm": "0.8.1"})
ENGINE = VllmAbilities(
    methods=("ngram", "eagle3", "draft_model"),
    settings=("method", "model", "num_speculative_tokens", "prompt_lookup_max"),
    memory_share=0.9,
    device="cuda",
)
TARGET = {
    "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 4, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 8192,
}  # fmt: skip
WORDS = {"a": 0, "b": 1, "c": 2, "d": 3}
DRAFTING = {"method": "draft_model", "model": "./draft", "num_speculative_tokens": 2}


def write_model(folder: Path, config: dict[str, Any], words: dict[str, int] | None = WORDS) -> None:
    """A model folder as far as the doctor reads it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model.safetensors").open("wb") as weights:
        weights.truncate(models.weight_bytes(config) or 0)  # sparse: it takes no disk
    if words is not None:
        vocab = {"model": {"type": "BPE", "vocab": words}, "added_tokens": []}
        (folder / "tokenizer.json").write_text(json.dumps(vocab))
        template = {"chat_template": "{{ messages }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(template))


def situation(study: Study, **changes: Any) -> Situation:
    """A GPU node with everything that a study needs; keyword arguments replace parts of it."""
    plan = make_plan(study)
    wanted = [(study.located(study.target.model), study.target.revision)]
    for variant in study.variants:
        named = (variant.speculative_config or {}).get("model")
        wanted += [] if named is None else [(study.located(named), None)]
    plain = Situation(
        plan=plan,
        results=Path(study.located("./results")),
        env=study.environment,
        vllm=CUDA_VLLM,
        guidellm=GUIDELLM,
        engine=ENGINE,
        survey=NODE,
        gpus=NODE.gpus,
        models={key: find(*key, study.environment) for key in wanted},
    )
    return replace(plain, **changes)


def with_draft(study_of: StudyOf, **changes: object) -> Study:
    arms = [{"name": "baseline"}, {"name": "drafted", "speculative_config": DRAFTING}]
    return study_of(**({"target": {"model": "./target"}, "arms": arms} | changes))


def bad(found: Iterable[CheckFinding]) -> list[CheckFinding]:
    return [finding for finding in found if finding.status != "ok"]


def only(found: Iterable[CheckFinding]) -> CheckFinding:
    findings = list(found)
    assert len(findings) == 1, findings
    return findings[0]


# Executables ------------------------------------------------------------------------------------


def test_a_missing_executable_is_a_blocker_that_says_how_to_install_it(study_of: StudyOf) -> None:
    gone = Tool("guidellm", problem="there is no executable guidellm")
    finding = only(bad(run_check("executables", situation(study_of(), guidellm=gone))))
    assert (finding.status, finding.said) == (
        "blocker",
        "GuideLLM: there is no executable guidellm.",
    )
    assert "pip install 'draftboard[guidellm]'" in (finding.fix or "")


@pytest.mark.parametrize(
    ("kind", "version", "status"),
    [
        ("guidellm", "0.5.2", "blocker"),
        ("guidellm", "0.5.2rc1", "blocker"),
        ("guidellm", "0.5.3", None),
        ("guidellm", "0.8.9", None),
        ("guidellm", "0.9.0", "warning"),
        ("vllm", "0.12.0", "warning"),
        ("vllm", "0.13.0", None),
        ("vllm", "0.33.0rc1", "warning"),
    ],
)
def test_releases_that_were_not_tried_are_named(
    study_of: StudyOf, kind: str, version: str, status: str | None
) -> None:
    tool = {"vllm": CUDA_VLLM, "guidellm": GUIDELLM}[kind]
    changed = replace(tool, versions={**tool.versions, kind: version})
    findings = bad(run_check("executables", situation(study_of(), **{kind: changed})))
    assert [finding.status for finding in findings] == ([] if status is None else [status])


def test_an_engine_that_cannot_be_imported_is_a_blocker(study_of: StudyOf) -> None:
    broken = VllmAbilities(problem="ImportError: libcuda.so.1")
    finding = only(bad(run_check("executables", situation(study_of(), engine=broken))))
    assert finding.status == "blocker"
    assert "libcuda.so.1" in finding.said


@pytest.mark.parametrize(("load", "how"), [("0.8.1", "each request"), ("0.7.4", "counters alone")])
def test_where_acceptance_will_come_from_is_said(study_of: StudyOf, load: str, how: str) -> None:
    tool = replace(GUIDELLM, versions={"guidellm": load})
    said = [
        finding.said for finding in run_check("executables", situation(study_of(), guidellm=tool))
    ]
    assert how in said[-1]


# GPUs -------------------------------------------------------------------------------------------


def test_fewer_gpus_than_a_server_needs_is_a_blocker(study_of: StudyOf) -> None:
    target = {"model": "org/target", "engine_args": {"pipeline_parallel_size": 2}}
    study = study_of(target=target, tensor_parallel_sizes=[1, 2])
    finding = only(bad(run_check("GPUs", situation(study))))
    assert (finding.status, finding.said) == (
        "blocker",
        "The study serves on 4 GPUs at once and 2 are visible.",
    )


def test_no_gpu_blocks_a_cuda_build_and_not_a_cpu_build(study_of: StudyOf) -> None:
    none = machine.Survey(reason=NO_DRIVER)
    cuda = situation(study_of(), survey=none, gpus=())
    assert [finding.status for finding in run_check("GPUs", cuda)] == ["blocker"]
    cpu = replace(cuda, engine=replace(ENGINE, device="cpu"))
    assert [finding.status for finding in run_check("GPUs", cpu)] == ["ok"]


def test_hiding_every_gpu_is_told_from_having_none(study_of: StudyOf) -> None:
    finding = only(run_check("GPUs", situation(study_of(), gpus=())))
    assert finding.said.startswith("CUDA_VISIBLE_DEVICES leaves none")


def test_without_the_binding_nothing_is_known_of_gpus(study_of: StudyOf) -> None:
    blind = situation(study_of(), survey=machine.Survey(reason=NO_BINDING), gpus=())
    finding = only(run_check("GPUs", blind))
    assert (finding.status, finding.fix) == (
        "unknown",
        "pip install nvidia-ml-py beside draftboard.",
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"processes": 2}, "in use by 2 other processes"),
        ({"power_cap_watts": 500.0, "power_cap_default_watts": 700.0}, "capped at 500 W of 700 W"),
        ({"mig": True}, "split by MIG"),
        ({"name": "NVIDIA H100"}, "different models"),
    ],
)
def test_what_spoils_a_measurement_is_a_warning(
    study_of: StudyOf, change: dict[str, Any], word: str
) -> None:
    odd = (replace(NODE.gpus[0], **change), NODE.gpus[1])
    finding = only(bad(run_check("GPUs", situation(study_of(), gpus=odd))))
    assert finding.status == "warning"
    assert word in finding.said


def test_gpus_of_another_maker_are_not_claimed_to_be_missing(study_of: StudyOf) -> None:
    amd = replace(CUDA_VLLM, torch_cuda=None, torch_hip="7.1")
    found = situation(study_of(), vllm=amd, survey=machine.Survey(reason=NO_DRIVER), gpus=())
    assert only(run_check("GPUs", found)).status == "unknown"


def test_a_torch_of_a_newer_cuda_than_the_drivers_is_a_blocker(study_of: StudyOf) -> None:
    old = replace(NODE, cuda="12.8")
    finding = only(bad(run_check("GPUs", situation(study_of(), survey=old))))
    assert finding.said == "torch was built for CUDA 13.0, and the driver knows CUDA up to 12.8."


def test_cores_that_are_not_here_are_a_blocker(study_of: StudyOf) -> None:
    study = study_of(cpus={"engine": [min(os.sched_getaffinity(0))], "client": [9999]})
    finding = only(run_check("cores", situation(study)))
    assert (finding.status, "names core 9999" in finding.said) == ("blocker", True)


def test_a_cpu_server_without_cores_of_its_own_is_said_to_be_noisy(study_of: StudyOf) -> None:
    study = study_of()
    assert list(run_check("cores", situation(study))) == []
    cpu = situation(study, engine=replace(ENGINE, device="cpu"))
    assert only(run_check("cores", cpu)).status == "warning"


# Methods: the real vLLM is asked, once ----------------------------------------------------------


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Situation:
    """A study of many mistakes before the real vLLM."""
    folder = tmp_path_factory.mktemp("study")
    write_model(folder / "target", TARGET)
    executables_ = {
        "vllm": str(lab_executable("vllm", "vllm")),
        "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1")),
    }
    arms = [
        {"name": "baseline"},
        {"name": "good", "speculative_config": {"method": "ngram", "prompt_lookup_max": 4}},
        {"name": "misspelt", "speculative_config": {"method": "egle3"}},
        {"name": "strange", "speculative_config": {"method": "ngram", "prompt_lookup_mx": 4}},
        {"name": "suffix", "speculative_config": {"method": "suffix"}},
        {"name": "unknown-argument", "engine_args": {"max-modle-len": 5}},
    ]
    said = MINIMAL | {"target": {"model": "./target"}, "arms": arms, "executables": executables_}
    (folder / "study.yaml").write_text(json.dumps(said))
    return doctor.look(read_study(folder / "study.yaml"), folder / "results")


@pytest.mark.slow
def test_vllm_itself_says_which_methods_and_settings_it_knows(asked: Situation) -> None:
    found = {finding.said: finding for finding in bad(run_check("methods", asked))}
    misspelt = found.pop(
        "The arm misspelt asks for the speculative method egle3, which this vLLM does not have."
    )
    assert misspelt.status == "blocker"
    assert (misspelt.fix or "").startswith("Write eagle3")
    strange = found.pop(
        "The arm strange asks for the speculative setting prompt_lookup_mx, which this vLLM does "
        "not have."
    )
    assert (strange.fix or "").startswith("Write prompt_lookup_m")
    refused = next(said for said in found if "unknown-argument" in said)
    assert "unrecognized arguments: --max-modle-len" in refused
    found.pop(refused)
    assert all("arctic-inference" in said for said in found)


@pytest.mark.slow
def test_vllm_says_its_device_and_its_share_of_memory(asked: Situation) -> None:
    assert (asked.engine.device, asked.on_gpu) == ("cpu", False)
    assert asked.engine.memory_share == 0.92
    assert asked.vllm.version == "0.32.0+cpu"


@pytest.mark.slow
def test_vllm_says_what_a_method_switches_off(asked: Situation) -> None:
    off = asked.engine.switches_off
    assert set(off["async-scheduling"]) >= {"ngram", "suffix", "medusa"}
    assert not {"draft_model", "eagle3", "mtp", "deepseek_mtp"} & {*off["async-scheduling"]}
    assert "suffix" in off["model-runner"]
    assert "ngram" not in off["model-runner"]


@pytest.mark.parametrize(
    ("changes", "device", "said", "fix"),
    [
        ({}, "cuda", "asynchronous scheduling and the second model runner; the baseline keeps", "Write equal_engine: true"),
        ({}, "cpu", "off asynchronous scheduling; ", "Write equal_engine: [async-scheduling]"),
        ({"environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "cuda",
         "off asynchronous scheduling; ", "Write equal_engine: [async-scheduling]"),
        ({"equal_engine": True}, "cpu",
         "equal_engine switches off asynchronous scheduling and the second model runner: two",
         "Write equal_engine: [async-scheduling] "),
        ({"equal_engine": True}, "cuda", None, None),
    ],
)  # fmt: skip
def test_two_engines_are_named_before_they_are_compared(
    study_of: StudyOf, changes: dict[str, Any], device: str, said: str | None, fix: str | None
) -> None:
    off = {"async-scheduling": ("draft_model", "ngram"), "model-runner": ("draft_model",)}
    engine = replace(ENGINE, device=device, switches_off=off)
    found = list(
        run_check("engines alike", situation(with_draft(study_of, **changes), engine=engine))
    )
    assert [one.status for one in found] == ([] if said is None else ["warning"])
    for one in found:
        assert str(said) in one.said
        assert str(one.fix).startswith(str(fix))


@pytest.mark.parametrize(
    ("method", "version", "changes", "threads"),
    [
        ("ngram_gpu", "0.32.0", {}, ["37150"]),
        ("ngram_gpu", "0.16.0", {}, []),
        ("ngram", "0.32.0", {}, []),
        ("ngram_gpu", None, {}, []),
        ("ngram_gpu", "0.32.0", {"request": {"extra_body": {"response_format": {"type": "json_object"}}}},
         ["37150", "49694"]),
        ("ngram_gpu", "0.32.0", {"target": {"model": "m", "engine_args": {"async-scheduling": False}}}, []),
        ("mtp", "0.32.0", {"target": {"model": "google/gemma-4-31B-it"}}, ["48848"]),
        ("mtp", "0.32.0", {"target": {"model": "google/gemma-4-31B-it"},
                           "environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}, []),
    ],
)  # fmt: skip
def test_a_known_defect_is_named_once_before_the_run(
    study_of: StudyOf, method: str, version: str | None, changes: dict[str, Any], threads: list[str]
) -> None:
    drafted = {"name": "drafted", "speculative_config": {"method": method}, "num_speculative_tokens": [2, 3]}  # fmt: skip
    study = study_of(arms=[{"name": "baseline"}, drafted], **changes)
    vllm = replace(CUDA_VLLM, versions={} if version is None else {"vllm": version})
    found = list(run_check("known defects", situation(study, vllm=vllm)))

    assert [one.fix.rpartition("/")[2] for one in found if one.fix] == [f"{x}." for x in threads]
    for one in found:
        assert one.status == "warning"
        assert one.said.startswith(f"vLLM {version} has a known defect (from ")
        assert "with drafted-k2, drafted-k3: " in one.said


def test_methods_that_vllm_knows_are_confirmed(study_of: StudyOf) -> None:
    finding = only(run_check("methods", situation(study_of())))
    assert (finding.status, finding.said) == ("ok", "This vLLM knows ngram.")


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("pard", "Write method: draft_model with parallel_drafting: true"),
        ("lookahead", "Write method: ngram"),
        ("egle3", "Write eagle3"),
        ("zzz", "It has draft_model, dspark, eagle3"),
        ("pards", "It has draft_model, dspark, eagle3"),
    ],
)
def test_an_unknown_method_is_mended_by_what_is_meant_and_not_by_chance(
    study_of: StudyOf, word: str, fix: str
) -> None:
    known = replace(ENGINE, methods=("dspark", "ngram", "eagle3", "draft_model"))
    study = study_of(arms=[{"name": "a", "speculative_config": {"method": word}}])
    finding = only(run_check("methods", situation(study, engine=known)))
    assert (finding.fix or "").startswith(fix)


# Heads ------------------------------------------------------------------------------------------


def write_tensors(folder: Path, *names: str) -> None:
    """A safetensors file as its format says: the header's length, the header, the data."""
    shapes = {name: {"dtype": "F16", "shape": [1], "data_offsets": [2 * i, 2 * i + 2]}
              for i, name in enumerate(names)}  # fmt: skip
    header = json.dumps({"__metadata__": {"format": "pt"}, **shapes}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(2 * len(names))
    (folder / "model.safetensors").write_bytes(data)


LLAMA = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight")
EAGLE = ("fc.weight", "layers.0.mlp.up_proj.weight")


@pytest.mark.parametrize(
    "case",
    [
        ("eagle", {}, LLAMA, "needs an EAGLE head"),
        ("eagle3", {}, None, "needs an EAGLE head"),
        ("eagle", {"architectures": ["LlamaForCausalLM"]}, EAGLE, None),
        ("eagle3", {"architectures": ["LlamaForCausalLMEagle3"]}, None, None),
        ("eagle", {"num_hidden_layers": 1}, None, None),
        ("medusa", {}, LLAMA, "needs a medusa head"),
        ("medusa", {"medusa_num_heads": 3}, None, None),
        ("draft_model", {}, LLAMA, None),
    ],
)
def test_a_draft_must_be_what_its_method_drafts_with(
    study_of: StudyOf, tmp_path: Path, case: tuple[Any, ...]
) -> None:
    method, config, names, said = case
    write_model(tmp_path / "target", TARGET)
    write_model(tmp_path / "draft", TARGET | config)
    (tmp_path / "draft" / "model.safetensors").unlink()
    if names is not None:
        write_tensors(tmp_path / "draft", *names)
    arms = [{"name": "a", "speculative_config": {"method": method, "model": "./draft"}}]
    found = list(run_check("heads", situation(study_of(target={"model": "./target"}, arms=arms))))
    assert [said in one.said for one in found if said] == ([] if said is None else [True])
    assert all(one.status == "blocker" for one in found)
    assert len(found) == (said is not None)


@pytest.mark.parametrize(
    ("config", "blocked"),
    [
        ({}, True),
        ({"num_nextn_predict_layers": 0}, True),
        ({"num_nextn_predict_layers": 1}, False),
        ({"text_config": {"mtp_num_hidden_layers": 1}}, False),
        ({"model_type": "longcat_flash"}, False),
    ],
)
def test_mtp_needs_layers_for_it(
    study_of: StudyOf, tmp_path: Path, config: dict[str, Any], blocked: bool
) -> None:
    write_model(tmp_path / "target", TARGET | config)
    arms = [{"name": "a", "speculative_config": {"method": "mtp"}, "num_speculative_tokens": 1}]
    found = list(run_check("heads", situation(study_of(target={"model": "./target"}, arms=arms))))
    assert [one.status for one in found] == (["blocker"] if blocked else [])


def test_a_method_with_a_draft_names_it(study_of: StudyOf) -> None:
    study = study_of(arms=[{"name": "a", "speculative_config": {"method": "eagle3"}}])
    assert "names no draft" in only(run_check("heads", situation(study))).said


def test_an_engine_that_could_not_be_asked_leaves_methods_unknown(study_of: StudyOf) -> None:
    finding = only(run_check("methods", situation(study_of(), engine=VllmAbilities())))
    assert finding.status == "unknown"


# Memory -----------------------------------------------------------------------------------------


def test_a_model_that_fits_says_for_how_many_requests(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET | {"vocab_size": 128256})
    study = study_of(
        target={"model": "./target", "engine_args": {"gpu_memory_utilization": 0.5}},
        arms=[{"name": "baseline"}],
        request={"max_tokens": 976},
    )
    finding = only(run_check("memory", situation(study)))
    assert finding.status == "ok"
    # 75 GB less 16.06 GB of weights less 3 GiB; 131,072 bytes a token, 1024 + 976 tokens a request
    room = 75_000_000_000 - 16_059_990_016 - 3 * 2**30
    assert f"{room // (131_072 * 2000)} requests of 2000 tokens" in finding.said


def test_weights_that_leave_no_cache_are_a_blocker(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET | {"num_hidden_layers": 400})
    finding = only(run_check("memory", situation(study_of(target={"model": "./target"},
                                                  arms=[{"name": "baseline"}]))))  # fmt: skip
    assert finding.status == "blocker"
    assert "leave 0 MiB for the cache" in finding.said


def test_a_longest_sequence_that_does_not_fit_is_a_blocker(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET | {"max_position_embeddings": 1_000_000})
    target = {"model": "./target"}
    arms = [{"name": "baseline"}, {"name": "short", "engine_args": {"max-model-len": 8192}}]
    found = run_check("memory", situation(study_of(target=target, arms=arms)))
    assert [(f.status, f.said.partition(" ")[0]) for f in found] == [
        ("blocker", "baseline"),
        ("ok", "short"),
    ]


def test_a_load_that_the_cache_cannot_hold_is_a_warning(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    study = study_of(
        target={"model": "./target"},
        arms=[{"name": "baseline"}],
        concurrency=[1, 5000],
        datasets=[{"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 1}],
    )
    finding = only(run_check("memory", situation(study)))
    assert finding.status == "warning"
    assert "fewer than the 5000 that the study sends at once" in finding.said


def test_memory_that_others_hold_keeps_vllm_from_starting(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET)
    full = tuple(replace(each, free_bytes=100_000_000_000) for each in NODE.gpus)
    study = study_of(target={"model": "./target"}, arms=[{"name": "baseline"}])
    finding = only(run_check("memory", situation(study, gpus=full)))
    assert (finding.status, "vLLM wants 90% of 139.7 GiB" in finding.said) == ("blocker", True)


def test_heads_that_cannot_be_split_are_a_blocker(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    study = study_of(
        target={"model": "./target"}, arms=[{"name": "baseline"}], tensor_parallel_sizes=[3]
    )
    findings = bad(run_check("memory", situation(study)))
    assert findings[0].said == "baseline at TP 3: 32 attention heads cannot be split over 3 GPUs."


def test_the_draft_takes_memory_too(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    write_model(tmp_path / "draft", TARGET | {"num_hidden_layers": 2})
    said = [finding.said for finding in run_check("memory", situation(with_draft(study_of)))]
    assert ["of draft" in sentence for sentence in said] == [False, True]


def test_a_model_that_is_not_here_is_a_blocker_once(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    finding = only(bad(run_check("memory", situation(with_draft(study_of)))))
    assert finding.status == "blocker"
    assert finding.said.startswith(f"The model {tmp_path / 'draft'} cannot be loaded: there is no")


def test_weights_are_needed_unless_vllm_makes_them_up(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    (tmp_path / "target" / "model.safetensors").unlink()
    arms = [{"name": "baseline"}]
    found = bad(run_check("memory", situation(study_of(target={"model": "./target"}, arms=arms))))
    assert [finding.status for finding in found] == ["blocker"]
    assert "has no whole set of weight files" in found[0].said
    for spelled in ("load-format", "load_format", "--load-format"):
        dummy = {"model": "./target", "engine_args": {spelled: "dummy"}}
        assert bad(run_check("memory", situation(study_of(target=dummy, arms=arms)))) == []


@pytest.mark.parametrize(
    ("space", "status"), [("1", "ok"), ("100000", "blocker"), (None, "warning")]
)
def test_a_cpu_server_needs_its_cache_in_main_memory(
    study_of: StudyOf, tmp_path: Path, space: str | None, status: str
) -> None:
    small = TARGET | {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64}
    write_model(tmp_path / "target", small)
    environment = {} if space is None else {"VLLM_CPU_KVCACHE_SPACE": space}
    study = study_of(
        target={"model": "./target"}, arms=[{"name": "baseline"}], environment=environment
    )
    cpu = situation(study, engine=replace(ENGINE, device="cpu"))
    assert only(run_check("memory", cpu)).status == status


def test_a_server_longer_than_its_model_does_not_start(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    target = {"model": "./target", "engine_args": {"max_model_len": "16k"}}
    finding = only(run_check("lengths", situation(study_of(target=target))))
    assert finding.status == "blocker"
    assert "max-model-len is 16000 and the model was made for 8192 tokens" in finding.said
    told = study_of(target=target, environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    assert list(run_check("lengths", situation(told))) == []


def test_answers_longer_than_the_server_holds_are_a_blocker(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET)
    target = {"model": "./target", "engine_args": {"max-model-len": 512}}
    finding = only(
        run_check("lengths", situation(study_of(target=target, request={"max_tokens": 513})))
    )
    assert (finding.status, "vLLM refuses each request" in finding.said) == ("blocker", True)
    fits = study_of(target=target, request={"max_tokens": 512})
    assert list(run_check("lengths", situation(fits))) == []
    talks = {"name": "talks", "generator": {"kind": "code"}, "sessions": {"turns": 3}}
    long = study_of(target=target, request={"max_tokens": 200}, datasets=[talks])
    assert (
        "answers of up to 600 tokens a session" in only(run_check("lengths", situation(long))).said
    )


def test_a_prompt_longer_than_the_model_was_made_for_is_a_blocker_where_no_limit_is_stated(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET)
    asked = {"target": {"model": "./target"}, "request": {"max_tokens": 192}}
    finding = only(
        run_check(
            "lengths",
            situation(study_of(**asked, prompt_tokens=[8000, 8001], arms=[{"name": "a"}])),
        )
    )
    assert finding.status == "blocker"
    assert (
        "Dataset code-8001t asks for answers of up to 192 tokens to prompts of 8001, and"
        in finding.said
    )
    fits = study_of(**asked, prompt_tokens=[8000])
    assert list(run_check("lengths", situation(fits))) == []


# Tokenizers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words", "expected"),
    [
        ({}, WORDS, "ok: draft fits the vocabulary"),
        ({}, None, "ok: draft fits the vocabulary"),
        ({"vocab_size": 5}, WORDS, "blocker: target has a vocabulary of 4 and draft of 5"),
        ({}, {"a": 1, "b": 0, "c": 2, "d": 3}, "blocker: The tokenizer of draft is another one than "
         "the target's: 2 tokens under other numbers"),
        ({}, {"a": 0, "b": 1, "x": 2, "d": 3}, "warning: The tokenizer of draft is another one than "
         "the target's: 0 tokens under other numbers, 1 that the target lacks"),
        ({"target_hidden_size": 64}, WORDS, "blocker: draft was made for a target of hidden size 64"),
    ],
)  # fmt: skip
def test_a_draft_must_speak_in_the_targets_numbers(
    study_of: StudyOf,
    tmp_path: Path,
    config: dict[str, Any],
    words: dict[str, int] | None,
    expected: str,
) -> None:
    write_model(tmp_path / "target", TARGET)
    write_model(tmp_path / "draft", TARGET | config, words)
    finding = run_check("tokenizers", situation(with_draft(study_of)))[0]
    said = f"{finding.status}: {finding.said}".replace(f"{tmp_path}/", "")
    assert said.startswith(expected)


def test_vllm_can_be_told_to_let_vocabularies_differ(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    write_model(tmp_path / "draft", TARGET | {"vocab_size": 5}, {"z": 0})
    arms = [{"name": "mixed", "speculative_config": DRAFTING | {"use_heterogeneous_vocab": True}}]
    assert bad(run_check("tokenizers", situation(with_draft(study_of, arms=arms)))) == []


def test_a_head_may_have_a_smaller_vocabulary(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    write_model(tmp_path / "draft", TARGET | {"vocab_size": 3, "draft_vocab_size": 3}, None)
    arms = [{"name": "eagle3", "speculative_config": DRAFTING | {"method": "eagle3"}}]
    assert bad(run_check("tokenizers", situation(with_draft(study_of, arms=arms)))) == []


def test_chats_need_a_chat_template(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET)
    (tmp_path / "target" / "tokenizer_config.json").write_text("{}")
    target = {"model": "./target"}
    finding = only(run_check("tokenizers", situation(study_of(target=target))))
    assert (finding.status, "no chat template" in finding.said) == ("blocker", True)
    texts = study_of(target=target, request={"format": "text_completions"})
    assert list(run_check("tokenizers", situation(texts))) == []


def test_a_folder_without_a_tokenizer_is_a_blocker(study_of: StudyOf, tmp_path: Path) -> None:
    write_model(tmp_path / "target", TARGET, None)
    study = study_of(target={"model": "./target"}, request={"format": "text_completions"})
    assert only(run_check("tokenizers", situation(study))).said.endswith("has no tokenizer.")


@pytest.mark.parametrize("spelled", ["skip-tokenizer-init", "skip_tokenizer_init"])
def test_a_server_that_shall_load_no_tokenizer_needs_none_however_that_is_spelled(
    study_of: StudyOf, tmp_path: Path, spelled: str
) -> None:
    write_model(tmp_path / "target", TARGET, None)
    target = {"model": "./target", "engine_args": {spelled: True}}
    study = study_of(target=target, request={"format": "text_completions"})
    assert list(run_check("tokenizers", situation(study))) == []


# The hub ----------------------------------------------------------------------------------------


def hub_study(study_of: StudyOf, tmp_path: Path, endpoint: str) -> Study:
    """Target and draft on a hub, looked for from an empty cache, with the lab's own Python."""
    arms = [{"name": "baseline"},
            {"name": "drafted", "speculative_config": DRAFTING | {"model": "org/draft"}}]  # fmt: skip
    return study_of(
        target={"model": "org/target"},
        arms=arms,
        datasets=[{"name": "chat", "hub": {"id": "org/data"}, "prompts_per_level": 20}],
        executables={"vllm": "no-such-vllm",
                     "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1"))},
        environment={"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "cache")},
    )  # fmt: skip


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_blocks_and_leaves_the_match_unknown(
    study_of: StudyOf, tmp_path: Path
) -> None:
    found = doctor.look(hub_study(study_of, tmp_path, "http://127.0.0.1:9"), tmp_path / "results")
    models = bad(run_check("memory", found))
    assert [finding.status for finding in models] == ["blocker", "blocker"]
    assert "org/target is not in the cache of this machine" in models[0].said
    assert "Connection refused" in models[0].said
    assert "hf download org/target" in (models[0].fix or "")
    assert only(run_check("tokenizers", found)).status == "unknown"
    data = bad(run_check("datasets", found))
    assert data[0].status == "blocker"
    assert "org/data is not in the cache" in data[0].said


@pytest.mark.slow
def test_a_hub_that_can_be_reached_is_asked_for_configuration_and_sizes(
    study_of: StudyOf, tmp_path: Path
) -> None:
    write_model(tmp_path / "target", TARGET)
    small = (path for path in (tmp_path / "target").iterdir() if path.suffix == ".json")
    files = {path.name: path.read_bytes() for path in small}
    with fake_hub.serve("org/target", files, dataset="org/data") as endpoint:
        study = hub_study(study_of, tmp_path, endpoint)
        found = doctor.look(study, tmp_path / "results")
        said = [finding.said for finding in run_check("datasets", found)]
    target = found.models[("org/target", None)]
    assert (target.origin, target.revision) == ("hub", fake_hub.COMMIT)
    assert target.weight_bytes == fake_hub.WEIGHT_BYTES
    assert target.config == TARGET
    assert found.models[("org/draft", None)].folder is None
    assert any("the hub has org/data" in sentence for sentence in said)
    waits = bad(run_check("disk", found))
    assert [finding.status for finding in waits] == ["warning"]
    assert "org/target must still be fetched, 118 MiB" in waits[0].said
    # The configuration lies in the cache now, the weights still do not.
    offline = doctor.look(study, tmp_path / "results")
    assert offline.models[("org/target", None)].origin == "cache"
    lost = bad(run_check("memory", offline))[0]
    assert lost.status == "blocker"
    assert "the weights of org/target are not in the cache" in lost.said


# Datasets, ports, disk --------------------------------------------------------------------------


def test_datasets_are_read_and_few_prompts_are_said(study_of: StudyOf, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"prompt": "p{i}"}}\n' for i in range(12)))
    given = [
        {"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 20},
        {"name": "mine", "file": "prompts.jsonl", "prompts_per_level": 4},
        {"name": "gone", "file": "gone.jsonl", "prompts_per_level": 4},
        {"name": "more", "file": "prompts.jsonl", "prompts_per_level": 400},
    ]
    found = list(run_check("datasets", situation(study_of(datasets=given, concurrency=[1, 4]))))
    assert [finding.status for finding in found[:4]] == ["ok", "ok", "blocker", "blocker"]
    assert found[0].said == "Dataset code: 40 different prompts for 2 levels."
    assert "there is no file gone.jsonl" in found[2].said
    assert "12 different prompts, but its levels need 800" in found[3].said
    assert {finding.status for finding in found[4:]} == {"warning"}


def test_prompts_that_are_sent_again_are_counted_once(study_of: StudyOf, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"prompt": "p{i}"}}\n' for i in range(12)))
    given = [{"name": "few", "file": "prompts.jsonl", "prompts_per_level": 20, "reuse": True}]
    found = list(run_check("datasets", situation(study_of(datasets=given, concurrency=[1, 4]))))
    assert found[0].said == (
        "Dataset few: 12 different prompts for 2 levels, sent again until there are 40."
    )


def test_a_taken_port_that_the_study_names_is_a_blocker(study_of: StudyOf) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = bad(run_check("ports", situation(study_of(), env={"VLLM_PORT": port})))
    assert only(iter(found)).said == f"VLLM_PORT is {port}, and that port is taken."


def test_a_proxy_between_load_and_server_is_a_warning(
    study_of: StudyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert [f.status for f in bad(run_check("ports", situation(study_of())))] == ["warning"]
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert bad(run_check("ports", situation(study_of()))) == []


def test_results_that_cannot_be_written_are_a_blocker(study_of: StudyOf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = only(run_check("disk", situation(study_of(), results=tmp_path / "file" / "results")))
    assert (finding.status, "cannot be written" in finding.said) == ("blocker", True)


def test_a_full_disk_is_a_blocker(study_of: StudyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 << 20))
    finding = only(run_check("disk", situation(study_of())))
    assert (finding.status, finding.said.startswith("5 MiB of disk is free")) == ("blocker", True)


# The command ------------------------------------------------------------------------------------


def test_a_missing_vllm_ends_the_command_with_status_1_and_says_how_to_mend_it(
    study_of: StudyOf, tmp_path: Path
) -> None:
    study_of(executables={"vllm": "no-such-vllm", "guidellm": "no-such-guidellm"})
    done = CliRunner().invoke(command, [str(tmp_path / "study.yaml"), "--results", str(tmp_path)])
    assert done.exit_code == 1
    assert "there is no executable no-such-vllm" in done.stdout
    assert "pip install 'draftboard[vllm]'" in done.stdout
    assert "Mend the blockers first." in done.stdout


def test_json_is_all_that_is_printed_for_json(study_of: StudyOf, tmp_path: Path) -> None:
    study_of(executables={"vllm": "no-such-vllm", "guidellm": "no-such-guidellm"})
    done = CliRunner().invoke(command, [str(tmp_path / "study.yaml"), "--json"])
    said = json.loads(done.stdout)
    assert said["blockers"] == sum(f["status"] == "blocker" for f in said["findings"]) >= 2
    assert (said["study"], said["vllm"]) == ("tiny", None)


def test_a_study_that_cannot_be_read_is_said_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("name: [")
    done = subprocess.run(
        [sys.executable, "draftboard.py", "doctor", str(tmp_path / "study.yaml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "is not YAML" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="pinning needs two cores")
def test_a_study_that_can_run_here_ends_with_status_0(study_of: StudyOf, tmp_path: Path) -> None:
    small = TARGET | {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64}
    write_model(tmp_path / "target", small)
    write_model(tmp_path / "draft", small)
    study = with_draft(
        study_of,
        executables={"vllm": str(lab_executable("vllm", "vllm")),
                     "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1"))},
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
        cpus={"engine": [min(os.sched_getaffinity(0))], "client": [max(os.sched_getaffinity(0))]},
    )  # fmt: skip
    assert study.name == "tiny"
    arguments = [str(tmp_path / "study.yaml"), "--results", str(tmp_path / "results"), "--json"]
    # Were there GPUs, it would be said that vLLM's CPU build does not use them.
    env = {"no_proxy": "127.0.0.1", "CUDA_VISIBLE_DEVICES": ""}
    done = CliRunner(env=env).invoke(command, arguments)
    said = json.loads(done.stdout)
    assert [f for f in said["findings"] if f["status"] != "ok"] == []
    assert (done.exit_code, (tmp_path / "results").exists()) == (0, False)


def test_every_check_stands_in_the_page_on_running() -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert [name for name in doctor.CHECKS if f"\n| {name} |" not in page] == []
