"""Where the gain ends, by hand; and how sure that is."""

import numpy as np
import pandas as pd
import pytest

from analysis.significance.confidence import intervals
from analysis.significance.crossover import as_json, crossovers

LOADS = (1, 4, 16, 64)


def levels(
    *gains: float, noise: float = 0.001, repeats: int = 3, metric: str = "output_throughput"
):
    """A level for each gain (new / old - 1), at concurrency 1, 4, 16, …."""
    rows = [
        {
            "setting": 0, "arm_id": 1, "concurrency": load, "metric": metric, "statistic": "mean",
            "baseline": 100.0, "speculative": 100.0 * (1 + gain) * np.exp(noise * (repeat - 1)),
        }
        for load, gain in zip(LOADS, gains, strict=False) for repeat in range(repeats)
    ]  # fmt: skip
    return intervals(pd.DataFrame(rows)).levels


def test_the_gain_ends_where_the_line_between_two_levels_meets_zero() -> None:
    # log ratios +0.2 at 4 and -0.2 at 16: half way on the logarithm of the load, at 8
    found = crossovers(levels(0.5, np.exp(0.2) - 1, np.exp(-0.2) - 1))[0]

    assert found.kind == "ends"
    assert found.at == pytest.approx(8, rel=1e-6)
    assert found.low == pytest.approx(8, rel=0.05)
    assert found.sentence.startswith(
        "The gain in output throughput ends at about concurrency 8 (95"
    )


def test_never_in_the_measured_range_is_an_answer() -> None:
    found = crossovers(levels(0.5, 0.4, 0.3))[0]

    assert (found.at, found.low, found.high) == (np.inf, np.inf, np.inf)
    assert found.sentence == (
        "The gain in output throughput never ends in the measured range (concurrency 1 to 16), "
        "at 95 % confidence."
    )


def test_no_gain_from_the_lowest_load_on_is_an_answer() -> None:
    found = crossovers(levels(-0.5, -0.4, -0.3))[0]

    assert (found.kind, found.at) == ("from the lowest load on", 0)
    assert "no gain" in found.sentence


def test_a_gain_that_noise_could_hide_has_an_open_end() -> None:
    found = crossovers(levels(0.5, 0.3, 0.02, noise=0.1))[0]

    assert found.kind == "never in the measured range"
    assert found.low is not None
    assert found.low < 16
    assert found.high == np.inf
    assert "above 16" in found.sentence


def test_one_repeat_gives_a_place_but_no_interval() -> None:
    found = crossovers(levels(0.2, -0.2, repeats=1))[0]

    assert found.at is not None
    assert 1 < found.at < 4
    assert (found.low, found.high) == (None, None)
    assert "one repeat gives no interval" in found.sentence


def test_a_latency_gains_where_it_falls() -> None:
    # new / old - 1 of +0.2 is a loss here
    assert crossovers(levels(0.2, 0.2, metric="itl"), "itl")[0].kind == "from the lowest load on"


def test_json_has_no_infinity() -> None:
    assert as_json(crossovers(levels(0.5, 0.4)))[0]["at"] is None
