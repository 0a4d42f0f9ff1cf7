"""A cell that has no partner changes nothing of those that have one: no pair, no interval."""

from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.evidence.effects import effects
from analysis.matching.comparison import compare


def cell(method: str, load: int, repeat: int, **facts: Any) -> dict[str, Any]:
    return {
        "cell_id": f"{method}-{load}-{repeat}", "spec_method": method, "status": "good",
        "arm_label": method, "concurrency": load, "repeat": repeat, "model": "m", "dataset": "code",
        "comparable_as": "canonical", "reported_definition": "guidellm>=0.7.4", "study": None,
        "started_at": pd.Timestamp("2026-11-01", tz="UTC") + pd.Timedelta(hours=repeat),
    } | facts  # fmt: skip


MATCHED = [cell(m, load, r) for m in ("none", "eagle3") for load in (1, 8) for r in range(3)]
STRANGER = st.fixed_dictionaries(
    {
        "cell_id": st.just("stranger"),
        "spec_method": st.sampled_from(["none", "eagle3", "ngram"]),
        "concurrency": st.sampled_from([1, 8, 64]),
        "repeat": st.sampled_from([0, 1, 7]),
        # What no other cell has: it can be nobody's partner.
        "dataset": st.sampled_from(["math", "chat"]),
        "model": st.sampled_from(["m", "other"]),
    }
)


def answer(cells: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    values = [
        {"cell_id": c["cell_id"], "origin": "canonical", "metric": "itl", "statistic": "p95",
         "value": 10.0 + len(c["cell_id"]) * (1 + c["repeat"]) / c["concurrency"]}
        for c in cells
    ]  # fmt: skip
    found = compare(pd.DataFrame(cells), pd.DataFrame(values))
    told = ["baseline_id", "speculative_id", "concurrency", "baseline", "speculative"]
    levels = effects(found, pd.DataFrame(cells)).levels
    loads = [found.loads[place].short for place in levels["load"]]
    numbers = ["improvement", "low", "high", "adjusted_low", "word"]
    return found.pairs[told], levels[numbers].assign(load=loads)


@settings(max_examples=10)
@given(STRANGER, st.integers(0, len(MATCHED)))
def test_an_unmatched_cell_changes_no_pair_and_no_interval(facts: dict[str, Any], at: int) -> None:
    stranger = cell(facts["spec_method"], 1, 0) | facts

    before = answer(MATCHED)
    after = answer([*MATCHED[:at], stranger, *MATCHED[at:]])

    for one, other in zip(before, after, strict=True):
        pd.testing.assert_frame_equal(
            one.sort_values(list(one)[:2], ignore_index=True),
            other.sort_values(list(one)[:2], ignore_index=True),
        )
