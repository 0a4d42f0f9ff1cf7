"""At a fixed rate that all arms keep up with throughput says nothing: which rates these are."""

import pandas as pd
import pytest

from analysis.matching.arms import kept_up
from analysis.matching.comparison import Comparison
from warehouse.loads import Load

LOADS = (Load("concurrency", 4.0), Load("constant", 2.0), Load("constant", 8.0))
ATTAINED = ("request_attainment", "mean")


def of(*rows: tuple[int, int, tuple[str, str], float, float]) -> frozenset[tuple[int, int]]:
    """``rows``: setting, place of the load, line, value of the baseline, of the other arm."""
    levels = pd.DataFrame(
        [(setting, load, *line, *values) for setting, load, line, *values in rows],
        columns=["setting", "load", "metric", "statistic", "baseline", "speculative"],
    )
    none = pd.DataFrame()
    return kept_up(Comparison(none, levels, none, none, none, LOADS))


def test_a_rate_counts_where_both_arms_serve_nearly_all_of_it() -> None:
    assert of((0, 1, ATTAINED, 1.0, 0.97), (1, 1, ATTAINED, 0.99, 1.0)) == {(0, 1), (1, 1)}


@pytest.mark.parametrize("served", [(0.94, 1.0), (1.0, 0.94), (0.5, 0.5)])
def test_one_arm_that_falls_short_is_enough(served: tuple[float, float]) -> None:
    assert of((0, 1, ATTAINED, *served), (0, 2, ATTAINED, 1.0, 1.0)) == {(0, 2)}


def test_the_limit_itself_is_kept_up_with() -> None:
    assert of((0, 1, ATTAINED, 0.95, 0.95)) == {(0, 1)}


def test_any_arm_of_a_setting_that_falls_short_tells_for_the_rate() -> None:
    assert of((0, 1, ATTAINED, 1.0, 1.0), (0, 1, ATTAINED, 1.0, 0.9)) == frozenset()


def test_only_the_share_that_was_served_tells() -> None:
    low = ("output_throughput", "mean")
    assert of((0, 1, low, 0.1, 0.1), (0, 1, ("request_attainment", "p50"), 0.1, 0.1)) == {(0, 1)}


def test_a_number_of_requests_at_once_is_no_rate() -> None:
    assert of((0, 0, ATTAINED, 1.0, 1.0)) == frozenset()
