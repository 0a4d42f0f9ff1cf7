"""Settings of 0.32 that vLLM drops or refuses, and tables of K that it cannot read."""

from dataclasses import replace

import pytest

from runners.checks.doctor import run_check
from runners.planning.plan import Launch, make_plan
from runners.serving.agreement import Resolved, disagreement
from tests.runners.test_doctor import ENGINE, situation
from warehouse.contract import TABLE
from warehouse.errors import StudyError

WELL = {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 5,
        TABLE: [[1, 8, 5], [9, 32, 2]]}  # fmt: skip


def study_with(study_of, config, **changes):
    return study_of(arms=[{"name": "arm", "speculative_config": config}], **changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({TABLE: [[1, 8]]}, "wants [[from, to, K], …]"),
        ({TABLE: []}, "wants [[from, to, K], …]"),
        ({TABLE: [[2, 8, 5]]}, "begins at batch size 2; begin at 1"),
        ({TABLE: [[1, 8, 5], [8, 9, 2]]}, "has a range 8 to 9 after one that ends at 8"),
        ({TABLE: [[1, 8, 7]]}, "num_speculative_tokens must be 7, the largest K of its table"),
    ],
)
def test_a_table_that_vllm_cannot_read_is_refused_with_the_study(study_of, change, said) -> None:
    study_with(study_of, WELL)
    with pytest.raises(StudyError) as caught:
        study_with(study_of, WELL | change)
    assert said in str(caught.value)


CHOICES = {"rejection_sample_method": ("standard", "block")}


@pytest.mark.parametrize(
    ("config", "args", "status", "said"),
    [
        (WELL, {"data-parallel-size": 2}, "blocker", "takes away beside data parallelism"),
        (WELL, {}, "warning", "leaves full CUDA graphs"),
        ({"method": "eagle3", "enable_adaptive_verification": True}, {}, "blocker", "dspark alone"),
        ({"method": "ngram", "parallel_drafting": True}, {}, "blocker", "cannot draft in parallel"),
        ({"method": "ngram", "rejection_sample_method": "fly"}, {}, "blocker",
         "asks for rejection_sample_method: fly"),
        ({"method": "ngram", "disable_eagle_block_drop": True}, {}, "warning", "has no effect"),
        ({"method": "eagle3", "disable_eagle_block_drop": True},
         {"enable-prefix-caching": False}, "warning", "keeps no prefixes"),
    ],
)  # fmt: skip
def test_a_setting_that_vllm_drops_or_refuses_is_found_before_the_start(
    study_of, config, args, status, said
) -> None:
    target = {"model": "org/target", "engine_args": args}
    asked = situation(study_with(study_of, config, target=target))
    found = list(run_check("drafting", replace(asked, engine=replace(ENGINE, choices=CHOICES))))
    assert [(one.status, said in one.said) for one in found if said in one.said] == [(status, True)]


def launch_with(study_of, config) -> Launch:
    return make_plan(study_with(study_of, config)).launches[0]


def test_a_table_that_vllm_took_away_is_not_the_arm_that_was_asked_for(study_of) -> None:
    launch = launch_with(study_of, WELL)
    study = study_with(study_of, WELL)
    kept = Resolved(method="draft_model", table=[[1, 8, 5], [9, 64, 2]])
    assert disagreement(kept, study, launch) is None
    gone = disagreement(Resolved(method="draft_model"), study, launch)
    assert gone is not None
    assert "Its table of K is none, and the study says [[1, 8, 5], [9, 32, 2]]" in gone.sentence


def test_drafts_that_are_verified_otherwise_than_asked_are_another_arm(study_of) -> None:
    config = {"method": "ngram", "rejection_sample_method": "block"}
    study, launch = study_with(study_of, config), launch_with(study_of, config)
    other = Resolved(method="ngram", rejection_sample_method="standard")
    found = disagreement(other, study, launch)
    assert found is not None
    assert "verifies drafts by standard, and the study says block" in found.sentence
