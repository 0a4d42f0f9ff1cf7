"""The largest load within an SLO: every level up to it holds."""

import pandas as pd
import pytest

from analysis.matching.arms import ArmLevels
from analysis.service.slo import ArmReach, Slo, largest_loads, parse
from warehouse.loads import Load

SLO = parse("ttft:p95<200ms; itl:p99<10ms")
#: Their places are the numbers in the rows.
LOADS = tuple(Load("concurrency", float(value)) for value in range(20))


def largest_load(rows: pd.DataFrame, slo: Slo, loads: tuple[Load, ...] = LOADS) -> ArmReach:
    """How far one arm goes."""
    values = rows.assign(setting=0, arm_id=0)
    return largest_loads(ArmLevels(values, pd.DataFrame(), loads), slo)[0, 0]


def values(levels: dict[int, list[tuple[float, float | None]]]) -> pd.DataFrame:
    """concurrency -> TTFT and ITL of each repeat (ms); an ITL of None was not measured."""
    rows = []
    for concurrency, repeats in levels.items():
        for repeat, (ttft, itl) in enumerate(repeats):
            cell = f"c{concurrency}r{repeat}"
            rows.append((concurrency, cell, "ttft", "p95", ttft))
            if itl is not None:
                rows.append((concurrency, cell, "itl", "p99", itl))
    return pd.DataFrame(rows, columns=["load", "cell_id", "metric", "statistic", "value"])


@pytest.mark.parametrize(
    ("levels", "largest", "words"),
    [
        ({1: [(50, 5)], 8: [(90, 6)]}, 8, "Every measured load meets it, up to 8 at once."),
        ({1: [(50, 5)], 8: [(300, 6)]}, 1, "at 8 at once it misses ttft:p95<200ms (300.0 ms)"),
        ({1: [(300, 5)], 8: [(90, 6)]}, None, "No measured load meets it; at 1 at once it misses"),
        ({1: [(300, 5)], 8: [(90, 6)]}, None, "At 8 at once it is met again."),
        ({1: [(50, 5)], 8: [(90, None)], 16: [(95, 7)]}, 1, "at 8 at once it is not measured: itl:p99<10ms"),
        ({1: [(50, 5)], 8: [(90, 11)]}, 1, "itl:p99<10ms (11.00 ms)"),
        # A bound that is broken is broken, whatever else was not measured.
        ({1: [(50, 5)], 8: [(900, None)]}, 1, "misses ttft:p95<200ms"),
    ],
)  # fmt: skip
def test_the_answer_ends_below_the_first_level_that_fails(
    levels: dict[int, list[tuple[float, float | None]]], largest: int | None, words: str
) -> None:
    found = largest_load(values(levels), SLO)
    assert found.largest == (None if largest is None else LOADS[largest])
    assert words in found.sentence


def test_a_level_is_judged_by_its_mean_and_says_how_many_repeats_agree() -> None:
    # Geometric mean of 160, 160 and 270: 190.4.
    found = largest_load(values({4: [(160, 5), (160, 5), (270, 5)]}), SLO)

    (level,) = found.levels
    assert (level.met, level.repeats, level.meeting) == (True, 3, 2)


def test_an_error_rate_of_zero_is_a_value() -> None:
    rows = pd.DataFrame(
        [(4, f"c{i}", "error_rate", "mean", rate) for i, rate in enumerate((0.0, 0.01))],
        columns=["load", "cell_id", "metric", "statistic", "value"],
    )
    assert largest_load(rows, parse("error_rate<1%")).largest == LOADS[4]
    assert largest_load(rows, parse("error_rate<0.5%")).largest is None


def test_the_order_of_the_rows_is_nothing() -> None:
    rows = values({1: [(50, 5)], 8: [(90, 6), (80, 5)], 16: [(400, 7)]})
    assert largest_load(rows.sample(frac=1, random_state=5), SLO) == largest_load(rows, SLO)


def test_a_rate_is_told_by_its_own_name() -> None:
    rates = tuple(Load("poisson", float(value)) for value in range(20))

    found = largest_load(values({2: [(50, 5)], 8: [(300, 6)]}), SLO, rates)

    assert found.largest == Load("poisson", 2.0)
    assert found.sentence.startswith("Up to 2 requests/s (Poisson); at 8 requests/s (Poisson) it")
