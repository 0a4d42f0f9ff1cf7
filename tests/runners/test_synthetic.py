"""Acceptance that a study sets by hand: what it may say, what a server is told, and the published study on dummy weights."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.checks.doctor import run_check
from runners.planning.plan import make_plan
from runners.planning.speculation import expected_length
from runners.planning.study_file import Study, read_study
from runners.serving.engines import server_command
from runners.surroundings.models import ModelFiles
from tests.runners.conftest import ROOT, lab_executable
from tests.runners.test_doctor import ENGINE, bad, situation, write_model
from tests.runners.test_memory import gpt_oss
from warehouse.errors import StudyError

StudyOf = Callable[..., Study]
STUDY = Path(__file__).parents[2] / "studies" / "published-on-dummy.yaml"
RATES = [0.60, 0.30, 0.17, 0.06]


def arms(k: Any, **config: Any) -> list[dict[str, Any]]:
    config = {"method": "eagle3", "model": "org/head", **config}
    counts = {} if k is None else {"num_speculative_tokens": k}
    return [{"name": "baseline"}, {"name": "set", "speculative_config": config, **counts}]


def told(study: Study) -> list[dict[str, Any]]:
    """What each speculative server gets as ``--speculative-config``."""
    commands = [server_command(study, v, 1) for v in study.variants if v.speculative_config]
    return [json.loads(words[words.index("--speculative-config") + 1]) for words in commands]


def test_each_server_gets_as_many_rates_as_it_drafts_tokens(study_of: StudyOf) -> None:
    found = told(study_of(arms=arms([2, 4], synthetic_acceptance_rates=[0.6, 0.3, 0.17])))

    # vLLM takes as many as K and no other number; where none is stated nothing is accepted.
    assert [each["synthetic_acceptance_rates"] for each in found] == [
        [0.6, 0.3], [0.6, 0.3, 0.17, 0.0],
    ]  # fmt: skip
    assert {each["rejection_sample_method"] for each in found} == {"synthetic"}
    plain = told(study_of(arms=arms([2])))[0]
    assert set(plain) == {"method", "model", "num_speculative_tokens"}


@pytest.mark.parametrize(
    ("k", "config", "said"),
    [
        (3, {"synthetic_acceptance_rates": [0.3, 0.6]}, "[0.3, 0.6]; write at most 3 shares from 0"),
        (2, {"synthetic_acceptance_rates": [0.6, 0.3, 0.1]}, "write at most 2 shares from 0 to 1"),
        ([2, 3], {"synthetic_acceptance_rates": [1.2]}, "[1.2]; write at most 3 shares from 0 to 1"),
        (2, {"synthetic_acceptance_rates": [-0.1]}, "none above the one before it"),
        (2, {"synthetic_acceptance_rates": []}, "write at most 2 shares"),
        (2, {"synthetic_acceptance_rates": 0.6}, "is 0.6; write at most 2 shares"),
        (2, {"synthetic_acceptance_rates": [True]}, "is [True]; write at most 2 shares"),
        (None, {"synthetic_acceptance_rates": [0.6]}, "write num_speculative_tokens beside it"),
        (2, {"synthetic_acceptance_rates": [0.6], "rejection_sample_method": "block"},
         "synthetic_acceptance_rates goes with rejection_sample_method: synthetic alone"),
        (2, {"synthetic_acceptance_rates": [0.6], "synthetic_acceptance_length": 1.6}, "and without synth"),
    ],
)  # fmt: skip
def test_rates_that_no_draft_could_have_are_refused_with_the_study(
    study_of: StudyOf, k: Any, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study_of(arms=arms(k, **config))
    assert said in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_another_engine_than_vllm_cannot_set_acceptance(study_of: StudyOf) -> None:
    with pytest.raises(StudyError, match="and synthetic_acceptance_rates are known of vLLM alone"):
        study_of(arms=arms(3, synthetic_acceptance_rates=RATES[:3]), engine="sglang")


def test_a_step_yields_what_was_set_or_what_is_assumed() -> None:
    assert expected_length({}) == 1
    assert expected_length({"synthetic_acceptance_rates": RATES[:3]}) == pytest.approx(2.07)
    assert expected_length({"synthetic_acceptance_length": 1.9}) == 1.9
    # 1 + 0.6 + 0.36
    assert expected_length({"num_speculative_tokens": 2}) == pytest.approx(1.96)


def test_the_published_study_on_dummy_weights_drafts_as_was_published() -> None:
    study = read_study(STUDY)
    plan = make_plan(study)
    assert (len(plan.cells), len(plan.launches)) == (24, 4)
    assert sorted({cell.concurrency or 0 for cell in plan.cells}) == [1, 5, 25, 50, 100, 200]
    published = read_study(STUDY.with_name("gpt-oss-120b-eagle3.yaml"))
    assert study.target.model == published.target.model
    assert study.datasets[0].hub == published.datasets[0].hub
    # Lengths of 1.91, 2.07 and 2.13 were printed.
    lengths = [expected_length(v.speculative_config or {}) for v in study.variants]
    assert lengths == pytest.approx([1, 1.90, 2.07, 2.13])
    assert told(study)[1] == {
        "method": "eagle3", "model": "nvidia/gpt-oss-120b-Eagle3-v2",
        "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.6, 0.3, 0.17],
        "num_speculative_tokens": 3,
    }  # fmt: skip
    words = server_command(study, study.variants[0], 1)
    assert words[words.index("--load-format") + 1] == "dummy"


def test_the_doctor_takes_it_without_weights_and_names_a_vllm_that_cannot(tmp_path: Path) -> None:
    study = read_study(STUDY)
    write_model(tmp_path / "target", gpt_oss(36, 128) | {"num_experts_per_tok": 4}, None)
    head = {"hidden_size": 2880, "num_hidden_layers": 1, "num_attention_heads": 64, "head_dim": 64,
            "num_key_value_heads": 8, "intermediate_size": 17280, "vocab_size": 201088,
            "architectures": ["LlamaForCausalLMEagle3"]}  # fmt: skip
    write_model(tmp_path / "head", head, None)
    # As from a hub: a configuration here, weights as large as they are there.
    files = {
        (study.target.model, None): ModelFiles(study.target.model, "hub", tmp_path / "target", "c", 1 << 50),
        ("nvidia/gpt-oss-120b-Eagle3-v2", None): ModelFiles("head", "hub", tmp_path / "head", "c", 1 << 50),
    }  # fmt: skip
    settings = ("method", "model", "num_speculative_tokens", "rejection_sample_method",
                "synthetic_acceptance_rates")  # fmt: skip
    able = replace(ENGINE, settings=settings,
                   choices={"rejection_sample_method": ("standard", "synthetic", "block")})  # fmt: skip
    asked = situation(study, models=files, engine=able)
    for name in ("methods", "drafting", "heads", "disk"):
        assert bad(run_check(name, asked)) == []
    assert "eagle3" in run_check("methods", asked)[0].said
    # Weights that vLLM makes up are as large as their configuration says, wherever they lie.
    sizes = {key: replace(each, weight_bytes=None) for key, each in files.items()}
    assert bad(run_check("memory", replace(asked, models=sizes))) == []
    older = bad(run_check("methods", situation(study, models=files)))
    assert "the speculative setting synthetic_acceptance_rates, which this vLLM" in older[-1].said


def test_the_doctor_says_that_a_cpu_build_needs_the_labs_plugin(study_of: StudyOf) -> None:
    settings = ("method", "model", "num_speculative_tokens", "rejection_sample_method",
                "synthetic_acceptance_rates")  # fmt: skip
    able = replace(ENGINE, settings=settings,
                   choices={"rejection_sample_method": ("standard", "synthetic", "block")})  # fmt: skip
    study = study_of(arms=arms(2, synthetic_acceptance_rates=[0.6, 0.3]))

    (said,) = bad(run_check("drafting", situation(study, engine=replace(able, device="cpu"))))

    assert said.status == "warning"
    assert "sets its acceptance by hand, which vLLM's CPU build refuses" in said.said
    assert "make lab-envs" in said.fix
    assert bad(run_check("drafting", situation(study, engine=able))) == []


#: Three requests: of 2, 2 and 0 drafts. Chance falls below the rate for the first request's first alone, for both of the second's.
VERIFIED = """
import torch
from vllm.utils import cpu_triton_utils as kernels
from draftboard_set_acceptance import register

register()
answered = torch.full((3, 3), -1, dtype=torch.int32)
kernels._rejection_greedy_sample_kernel_impl(
    answered, torch.tensor([2, 4, 4]), torch.tensor([11, 12, 21, 22]), torch.tensor([1, 2, 3, 4]),
    torch.tensor([[91], [92], [93]]), None, 2, torch.tensor([0.5, 0.5, 0.1, 0.1]),
    torch.tensor([0.6, 0.3]), True,
)
print(answered.tolist())
"""


@pytest.mark.slow
def test_the_labs_vllm_accepts_on_a_cpu_as_often_as_was_set(tmp_path: Path) -> None:
    python, plugin = (
        lab_executable("python", "vllm"),
        ROOT / "runners" / "lab" / "set_acceptance.py",
    )
    shutil.copy(plugin, tmp_path / "draftboard_set_acceptance.py")

    done = subprocess.run(
        [python, "-c", VERIFIED], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    # What was drafted, then what the model wanted, or the token after the last draft.
    assert done.stdout.splitlines()[-1] == "[[11, 2, -1], [21, 22, 92], [93, -1, -1]]"
