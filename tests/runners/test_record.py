"""What a record says of a cell: the study's words, what the machine is, and no secrets."""

import json
from datetime import UTC, datetime

import pytest

from runners.measuring.record import (
    Attempt,
    LaunchSetting,
    record,
    remote_setting,
    server_args,
    write,
    write_study_copy,
)
from runners.planning.plan import Plan, make_plan
from runners.serving.agreement import ServerFacts
from runners.serving.diagnosis import Diagnosis
from runners.surroundings.layout import Layout
from warehouse.contract import Record

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def happened(**changes: object) -> Attempt:
    timeline = {"server_start": 0.0, "load": 2.0, "overhead": 0.05, "total": 2.05}
    return Attempt(
        **({"number": 1, "started_at": NOW, "ended_at": NOW, "timeline": timeline} | changes)
    )


def of_cell(plan: Plan, arm: str, went: Attempt) -> Record:
    launch = next(launch for launch in plan.launches if launch.variant.name == arm)
    return record(LaunchSetting(plan.study, launch, {"engine": "vllm"}, {}), launch.cells[0], went)


def test_a_baseline_says_that_nothing_was_drafted(study_of) -> None:
    found = of_cell(make_plan(study_of()), "baseline", happened())

    assert (found.spec_method, found.num_speculative_tokens, found.speculative_config) == (
        "none",
        None,
        None,
    )
    assert (found.status, found.failure, found.load_profile) == ("good", None, "concurrent")


def test_an_arm_says_its_method_and_what_it_was_configured_with(study_of) -> None:
    arms = [
        {"name": "e3", "num_speculative_tokens": [2],
         "speculative_config": {"method": "eagle3", "model": "org/draft", "revision": "abc",
                                "rejection_sample_method": "synthetic"}},
        {"name": "plain", "speculative_config": {"model": "org/draft"}, "num_speculative_tokens": 1},
    ]  # fmt: skip
    plan = make_plan(study_of(arms=arms))
    found = of_cell(plan, "e3-k2", happened())

    assert (found.spec_method, found.num_speculative_tokens) == ("eagle3", 2)
    assert (found.draft_model, found.draft_revision) == ("org/draft", "abc")
    assert found.synthetic_acceptance is True
    assert of_cell(plan, "plain", happened()).spec_method == "draft_model"


def test_a_baseline_with_equal_engine_says_what_it_goes_without(study_of) -> None:
    plan = make_plan(study_of(equal_engine=True))
    launch = plan.launches[-1]
    found = of_cell(plan, "baseline-equal-engine", happened())
    switched = ["async_scheduling", "VLLM_USE_V2_MODEL_RUNNER"]

    assert (found.spec_method, found.arm) == ("none", "baseline-equal-engine")
    assert found.speculative_config == {"equal_engine": switched}
    told = server_args(plan.study, launch)["server_args"]
    assert told == {"async_scheduling": False, "VLLM_USE_V2_MODEL_RUNNER": "0"}


def test_a_failed_attempt_says_why_and_shows_the_end_of_the_log(study_of) -> None:
    lines = tuple(f"line {number}" for number in range(40))
    went = happened(problem=Diagnosis("killed", "It was killed."), log_excerpt=lines, number=3)
    found = of_cell(make_plan(study_of()), "baseline", went)

    assert (found.status, found.failure, found.failure_cause) == (
        "failed",
        "It was killed.",
        "killed",
    )
    assert found.log_excerpt == list(lines)
    assert found.attempt == 3


def test_a_record_holds_no_secret(study_of, tmp_path) -> None:
    secret = "hf_" + "x" * 30
    study = study_of(target={"model": "org/target", "engine_args": {"api-key": secret}})
    launch = make_plan(study).launches[0]
    known = server_args(study, launch)
    setting = LaunchSetting(study, launch, known, {}, ("vllm", "serve", "--api-key", secret))
    went = happened(
        problem=Diagnosis("ended", f"It ended. Its last error: {secret}"), log_excerpt=(secret,)
    )
    write(record(setting, launch.cells[0], went), tmp_path)

    assert secret not in (tmp_path / "record.json").read_text()
    assert Record.model_validate(json.loads((tmp_path / "record.json").read_text()))


def test_the_copy_of_a_study_lacks_its_credentials_and_nothing_else(study_of, tmp_path) -> None:
    study = study_of(environment={"HF_TOKEN": "", "MY_SECRET": "plain word"})
    source = tmp_path / "mine.yaml"
    source.write_text("HF_TOKEN: ''\n# plain word\nname: tiny\n")
    write_study_copy(study, source, Layout(tmp_path, "tiny"))
    kept = (tmp_path / "tiny" / "study.yaml").read_text()
    assert kept == "HF_TOKEN: ''\n# [removed]\nname: tiny\n"


@pytest.mark.parametrize(
    ("given", "caching"),
    [
        ({"enable-prefix-caching": False}, False),
        ({"--enable_prefix_caching": True}, True),
        ({"no-enable-prefix-caching": True}, False),
        ({}, None),
    ],
)
def test_prefix_caching_is_a_fact_of_its_own(study_of, given, caching) -> None:
    study = study_of(target={"model": "org/target", "engine_args": given | {"max-model-len": 512}})
    found = server_args(study, make_plan(study).launches[0])

    assert found == {"server_args": {"max_model_len": 512}, "prefix_caching": caching}


def test_of_somebody_elses_server_only_what_it_says_is_known(study_of) -> None:
    study = study_of()
    launch = make_plan(study).launches[0]
    found = record(remote_setting(study, launch, ServerFacts()), launch.cells[0], happened())

    unknown = (
        "engine",
        "engine_version",
        "gpu",
        "gpu_count",
        "server_args",
        "prefix_caching",
        "evidence",
    )
    assert [getattr(found, name) for name in unknown] == [None] * len(unknown)
    assert (found.model, found.arm, found.concurrency) == ("org/target", "baseline", 1)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"max-model-len": 512}, {"max_model_len": 512, "reasoning_parser": "openai_gptoss"}),
        ({"reasoning-parser": "mine"}, {"reasoning_parser": "mine"}),
    ],
)
def test_the_parser_of_reasoning_that_vllm_took_by_itself_is_a_server_argument(
    study_of, given, kept
) -> None:
    study = study_of(target={"model": "openai/gpt-oss-120b", "engine_args": given})
    launch = make_plan(study).launches[0]
    went = happened(notes={"resolved": {"reasoning_parser": "openai_gptoss"}})
    setting = LaunchSetting(study, launch, server_args(study, launch), {})

    assert record(setting, launch.cells[0], went).server_args == kept


def test_a_record_says_the_kinds_of_prompts_of_a_mixed_run(study_of) -> None:
    kinds = {f"{number:032x}": kind for number, kind in enumerate(("coding", "math"))}
    plan = make_plan(study_of())
    assert of_cell(plan, "baseline", happened(kinds=kinds)).prompt_categories == kinds
    assert of_cell(plan, "baseline", happened()).prompt_categories is None
