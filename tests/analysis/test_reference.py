"""Any arm can stand where the baseline stands."""

import pandas as pd

from analysis.matching.reference import against

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
