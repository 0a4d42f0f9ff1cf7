"""Tokens per second of an arm and its baseline, of one dataset and of a mix."""

import pytest

from answers.decide.shown import Speeds, SpeedSource
from answers.decide.values import ThroughputRates
from warehouse.loads import Load

AT_1, AT_8 = Load("concurrency", 1.0), Load("concurrency", 8.0)


def speeds(total: dict[tuple[int, int, int], tuple[float, float]]) -> Speeds:
    """Two datasets (settings 0 and 1), one arm, at the second load; ``total`` as ``means``."""
    output = {(0, 0, 1): (100.0, 200.0), (1, 0, 1): (400.0, 400.0)}
    means = {"output_throughput": output, "total_throughput": total}
    return Speeds({AT_1: 0, AT_8: 1}, means)


TOTAL = {(0, 0, 1): (300.0, 600.0), (1, 0, 1): (800.0, 800.0)}


def test_one_dataset_has_its_own_rates() -> None:
    found = speeds(TOTAL).of((SpeedSource(0, 0, 1.0),), AT_8)

    assert found == ThroughputRates(100.0, 300.0, 200.0, 600.0)


def test_a_token_of_a_mix_takes_the_mean_of_the_times() -> None:
    found = speeds(TOTAL).of((SpeedSource(0, 0, 0.5), SpeedSource(1, 0, 0.5)), AT_8)

    # Half the output tokens at 100/s and half at 400/s: 0.5/100 + 0.5/400 s each.
    assert found.baseline_output == pytest.approx(160.0)
    assert found.output == pytest.approx(2 / (1 / 200 + 1 / 400))
    # 3 and 2 tokens in all for each output token.
    assert found.baseline_total == pytest.approx(400.0)


def test_what_was_not_measured_everywhere_is_unknown_in_a_mix() -> None:
    mix = (SpeedSource(0, 0, 0.5), SpeedSource(1, 0, 0.5))

    assert speeds({}).of(mix, AT_8).baseline_total is None
    assert speeds({}).of(mix, AT_8).baseline_output == pytest.approx(160.0)
    assert speeds(TOTAL).of(mix, AT_1) == ThroughputRates()


@pytest.mark.parametrize("value", [0.0, float("nan"), -1.0])
def test_a_rate_that_cannot_be_is_unknown(value: float) -> None:
    known = speeds({(0, 0, 1): (value, 600.0)}).of((SpeedSource(0, 0, 1.0),), AT_8)

    assert (known.baseline_total, known.total) == (None, 600.0)
