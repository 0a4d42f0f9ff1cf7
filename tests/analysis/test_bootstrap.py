"""One repeat: what its requests alone say, and that this decides nothing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.percentiles import nearest_rank
from analysis.significance.bootstrap import drawn_values, log_ratio_ends, resample, with_sampling
from analysis.significance.confidence import intervals


def requests(count: int = 100, slower: float = 1.0, seed: int = 0, **changes: Any) -> pd.DataFrame:
    """Requests whose prompts differ a lot in length; ``slower`` scales their times."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(2, 400, count)
    columns = {
        "status": "completed", "in_window": True,
        "ttft": draw.uniform(20, 40, count) * slower,
        "itl": draw.uniform(9, 11, count) * slower,
        "tpot": draw.uniform(9, 11, count) * slower,
        "request_latency": tokens * 0.01 * slower,
        "prompt_tokens": 50, "output_tokens": tokens,
        "prompt_hash": [f"{i:032x}" for i in range(count)],
    }  # fmt: skip
    return pd.DataFrame({**columns, **changes})


def pair(metric: str = "output_throughput", statistic: str = "mean", new: float = 200.0) -> Any:
    return pd.DataFrame(
        [{
            "setting": 0, "arm_id": 1, "concurrency": 8, "metric": metric, "statistic": statistic,
            "baseline_id": "b", "speculative_id": "s", "baseline": 100.0, "speculative": new,
        }]
    )  # fmt: skip


def test_one_repeat_gets_an_interval_that_says_it_covers_sampling_and_decides_nothing() -> None:
    rows = pair()

    found = with_sampling(intervals(rows), rows, lambda cell: requests(slower=0.5 + (cell == "b")))

    level, mean = found.levels.iloc[0], found.geomean.iloc[0]
    assert level["low"] <= level["improvement"] <= level["high"]
    assert level["low"] > 0
    assert (level["covers"], level["verdict"]) == ("sampling", "not enough evidence")
    assert (mean["covers"], mean["low"]) == ("sampling", pytest.approx(level["low"], abs=0.02))


def test_levels_with_repeats_keep_their_run_to_run_interval() -> None:
    rows = pd.concat([pair(new=new).assign(baseline_id=f"b{new}") for new in (150.0, 160.0, 170.0)])
    before = intervals(rows)

    found = with_sampling(before, rows, lambda cell: requests())

    pd.testing.assert_frame_equal(found.levels, before.levels)


def test_common_prompts_cancel_what_a_prompt_does_to_both() -> None:
    same = resample(requests(), requests(slower=2.0))
    apart = resample(requests(), requests(slower=2.0, prompt_hash=None))
    assert same is not None
    assert apart is not None

    one, other = (log_ratio_ends(arms, "request_latency", "mean") for arms in (same, apart))

    assert one == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9))
    assert other[0] < -0.1
    assert other[1] > 0.1


@pytest.mark.parametrize(
    ("metric", "statistic"), [("itl", "p95"), ("tpot", "p50"), ("ttft", "p95"), ("itl", "mean")]
)
def test_the_sample_itself_has_the_catalogues_statistic(metric: str, statistic: str) -> None:
    rows = requests()
    arms = resample(rows, rows)
    assert arms is not None
    weights = {"itl": rows["output_tokens"] - 1.0, "tpot": rows["output_tokens"] * 1.0}.get(
        metric, rows["output_tokens"] * 0 + 1.0
    )
    values, weights = rows[metric].to_numpy(), weights.to_numpy()
    expected = (
        np.average(values, weights=weights)
        if statistic == "mean"
        else nearest_rank(values, [int(statistic[1:]) / 100], weights)[0]
    )

    assert drawn_values(arms[0], metric, statistic)[0] == pytest.approx(expected)


def test_more_requests_say_more() -> None:
    few, many = (
        log_ratio_ends(arms, "ttft", "mean")
        for count in (20, 500)
        if (arms := resample(requests(count), requests(count, seed=1))) is not None
    )

    assert few[1] - few[0] > 2 * (many[1] - many[0])


def test_too_few_requests_or_an_unknown_metric_give_no_interval() -> None:
    rows = pair()

    found = with_sampling(intervals(rows), rows, lambda cell: requests(9)).levels.iloc[0]

    assert np.isnan(found["low"])
    assert found["covers"] == "nothing"
    arms = resample(requests(), requests())
    assert arms is not None
    assert np.isnan(log_ratio_ends(arms, "error_rate", "mean")).all()
