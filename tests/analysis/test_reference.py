"""Any arm can stand where the baseline stands."""

import pandas as pd

from analysis.matching.arms import against

CELLS = pd.DataFrame(
    {
        "spec_method": ["none", "eagle3", "ngram", None],
        "arm_label": ["baseline", "eagle3 K=3", "ngram K=5", "unknown"],
    }
)


def test_the_chosen_arm_becomes_the_baseline_and_the_plain_server_an_arm() -> None:
    found = against(CELLS, "eagle3 K=3")

    assert list(found["spec_method"].fillna("?")) == ["plain", "none", "ngram", "?"]
    assert list(found["arm_label"]) == list(CELLS["arm_label"])


def test_the_baseline_changes_nothing() -> None:
    assert against(CELLS, "baseline") is CELLS


EQUAL = pd.DataFrame(
    {
        "spec_method": ["none", "draft_model", "none"],
        "arm_label": ["baseline", "draft_model K=3", "baseline, equal engine"],
        "server_args": ['{"max_num_seqs": 8}', '{"max_num_seqs": 8}',
                        '{"async_scheduling": false, "max_num_seqs": 8}'],
        "speculative_config": [None, "{}", '{"equal_engine": ["async_scheduling"]}'],
    }
)  # fmt: skip


def test_a_baseline_with_equal_engine_is_left_out_unless_it_is_asked_for() -> None:
    assert list(against(EQUAL, "baseline")["arm_label"]) == ["baseline", "draft_model K=3"]
    assert list(against(EQUAL, "draft_model K=3")["spec_method"]) == ["plain", "none"]

    found = against(EQUAL, "baseline, equal engine")
    assert list(found["spec_method"]) == ["plain", "draft_model", "none"]
    assert set(found["server_args"]) == {'{"max_num_seqs": 8}'}
