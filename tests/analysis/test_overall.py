"""One answer over several settings."""

import numpy as np
import pandas as pd
import pytest

from analysis.significance.comparison import compare
from analysis.significance.confidence import intervals
from analysis.verdicts.decision import decisions
from analysis.verdicts.overall import Overall, answer_of, overalls, saved_per_token

LOADS = (1, 4, 16, 64)


def judged(
    gains: dict[tuple[str, str], tuple[float, ...]], repeats: int = 3, noise: float = 0.004
) -> list[Overall]:
    """``gains``: (dataset, method) -> gain in output throughput at each load; TTFT does not move."""
    draw = np.random.default_rng(5)
    cells, values = [], []
    datasets = dict.fromkeys(dataset for dataset, _ in gains)
    arms = gains | {(dataset, "none"): (0.0,) * len(LOADS) for dataset in datasets}
    for (dataset, method), own in arms.items():
        for load, gain in zip(LOADS, own, strict=True):
            for repeat in range(repeats):
                cell = f"{dataset}-{method}-{load}-{repeat}"
                cells.append({
                    "cell_id": cell, "spec_method": method, "status": "good", "repeat": repeat,
                    "arm_label": "baseline" if method == "none" else f"{method} K=3",
                    "model": "m", "dataset": dataset, "concurrency": load, "gpu": "H200",
                    "tensor_parallel_size": 1, "comparable_as": "canonical", "study": "s",
                    "reported_definition": "guidellm>=0.7.4", "evidence": "gpu",
                    "started_at": pd.Timestamp("2026-11-01", tz="UTC"),
                })  # fmt: skip
                jitter = float(np.exp(noise * draw.standard_normal()))
                values += [
                    ("output_throughput", "mean", cell, 100.0 * load * (1 + gain) * jitter),
                    ("ttft", "p95", cell, 50.0 * jitter),
                ]
    rows = pd.DataFrame(values, columns=["metric", "statistic", "cell_id", "value"])
    found = compare(pd.DataFrame(cells), rows.assign(origin="canonical"))
    sure = intervals(found.pairs)
    return overalls(found, sure, decisions(found, sure))


def test_the_gain_over_settings_is_the_geometric_mean_and_its_interval_holds_it() -> None:
    one = judged({("a", "x"): (0.5,) * 4, ("b", "x"): (0.2,) * 4}, noise=0.002)[0]

    assert one.answer == "yes"
    assert one.gain["improvement"] == pytest.approx((1.5 * 1.2) ** 0.5 - 1, rel=0.02)
    assert one.gain["low"] < one.gain["improvement"] < one.gain["high"]
    assert one.gain["settings"] == 2
    assert one.gain["better"] == 2
    assert one.ends_at is None
    assert one.measured == (1.0, 64.0)


def test_the_interval_is_as_wide_as_settings_that_err_together_make_it() -> None:
    one = judged({("a", "x"): (0.3,) * 4, ("b", "x"): (0.3,) * 4}, noise=0.02)[0]
    alone = judged({("a", "x"): (0.3,) * 4}, noise=0.02)[0]

    width = one.gain["high"] - one.gain["low"]
    assert width > 0.6 * (alone.gain["high"] - alone.gain["low"])


def test_a_lower_is_better_metric_keeps_its_sign() -> None:
    lines = judged({("a", "x"): (0.3,) * 4, ("b", "x"): (0.3,) * 4})[0].lines
    ttft = lines[lines["metric"] == "ttft"].iloc[0]

    assert ttft["baseline"] == pytest.approx(50, rel=0.02)
    assert abs(ttft["improvement"]) < 0.02
    assert ttft["improvement"] == pytest.approx(1 - ttft["speculative"] / ttft["baseline"])


def test_arms_are_ordered_by_answer_then_settings_then_gain() -> None:
    made = judged(
        {
            ("a", "loses"): (-0.2,) * 4, ("a", "wins"): (0.1,) * 4, ("b", "wins"): (0.1,) * 4,
            ("a", "wins once"): (0.6,) * 4,
        }
    )  # fmt: skip

    assert [(one.answer, len(one.settings)) for one in made] == [("yes", 2), ("yes", 1), ("no", 1)]


def test_the_first_load_at_which_a_setting_stops_paying_is_told() -> None:
    one = judged({("a", "x"): (0.5, 0.3, 0.1, -0.1), ("b", "x"): (0.5,) * 4})[0]

    assert one.answer == "yes, up to a load"
    assert one.ends_at is not None
    assert 16 < one.ends_at < 64


def test_one_repeat_has_no_interval_and_decides_nothing() -> None:
    one = judged({("a", "x"): (0.5,) * 4}, repeats=1)[0]

    assert one.answer == "undecided"
    assert np.isnan(one.gain["low"])


@pytest.mark.parametrize(
    ("answers", "together"),
    [
        (["yes", "yes"], "yes"),
        (["yes", "yes, up to a load"], "yes, up to a load"),
        (["yes", "no"], "it depends"),
        (["yes", "undecided"], "it depends"),
        (["no", "undecided"], "undecided"),
        (["no", "no"], "no"),
    ],
)
def test_answers_of_settings_come_to_one(answers: list[str], together: str) -> None:
    assert answer_of(answers) == together


def test_a_fifth_more_throughput_saves_a_sixth_of_the_cost() -> None:
    assert saved_per_token(0.2) == pytest.approx(1 / 6)
    assert saved_per_token(-0.2) == pytest.approx(-0.25)
