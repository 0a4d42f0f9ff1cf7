"""What was accepted of a kind of prompt: counts, and an interval that claims nothing that cannot be."""

import pandas as pd
import pytest

from analysis.evidence.kinds import LEAST, accepted

MET = pd.DataFrame(
    {"setting": [0], "load": [0], "arm_id": [3], "baseline_id": ["b"], "speculative_id": ["s"]}
)


def test_the_interval_of_a_length_ends_at_the_draft_and_one() -> None:
    """Seven prompts had all of ten drafts of three accepted, one had 24 of 30: 1 + 234 / 80."""
    requests = pd.DataFrame({
        "cell_id": "s", "category": "code", "prompt_hash": [str(n) for n in range(LEAST)],
        "drafts": 10, "draft_tokens": 30, "accepted_tokens": [24, *[30] * (LEAST - 1)],
    })  # fmt: skip

    (row,) = accepted(requests, MET).to_dict("records")

    assert row["length"] == pytest.approx(1 + 234 / 80)
    # By hand: 0.075 on the mean, 2.365 times that, and no step yields more than four.
    assert row["length_low"] == pytest.approx(3.925 - 2.3646 * 0.075, abs=0.001)
    assert row["length_high"] == 4.0
