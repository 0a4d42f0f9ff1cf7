"""A row of the truth table fails when chance does not explain the distance from its goal."""

import pytest

from tests.truth.row import interval, mean_at_most, share, table


def test_a_share_passes_while_its_interval_touches_the_goal() -> None:
    assert share("gate", "red", 93, 100, at_least=0.95).passed
    assert not share("gate", "red", 80, 100, at_least=0.95).passed
    assert share("gate", "false", 2, 100, at_most=0.01).passed
    assert not share("gate", "false", 12, 100, at_most=0.01).passed


def test_a_share_has_both_bounds_where_both_are_given() -> None:
    row = share("cover", "levels", 900, 1000, at_least=0.92, at_most=0.985)
    assert (row.goal, row.passed) == ("≥ 92.0% and ≤ 98.5%", True)
    assert not share("cover", "levels", 1000, 1000, at_least=0.92, at_most=0.985).passed


def test_the_interval_of_no_hit_is_that_of_the_rule_of_three_at_this_level() -> None:
    low, high = interval(0, 1000)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.0005 ** (1 / 1000))
    assert interval(1000, 1000) == (pytest.approx(1 - high), 1.0)


def test_a_mean_fails_when_even_its_lower_end_is_above_the_limit() -> None:
    assert mean_at_most("K", "loss", [0.004, 0.006, 0.008], 0.005).passed
    assert not mean_at_most("K", "loss", [0.0501, 0.0499, 0.05], 0.006).passed


def test_the_table_names_the_row_that_misses_its_goal() -> None:
    text = table([share("gate", "red", 1, 100, at_least=0.95), share("gate", "delay", 1, 100)])
    assert "≥ 95.0%" in text
    assert text.splitlines()[0].endswith("MISSED")
    assert text.splitlines()[1].endswith("met")
