"""The gate's truth table, with few trials: every goal is met as far as so few can tell."""

import pytest

from tests.truth.gate import rows
from tests.truth.row import Row, table

TRIALS = 40


@pytest.fixture(scope="module")
def found() -> list[Row]:
    return rows(TRIALS)


def test_every_goal_of_the_gate_is_met(found: list[Row]) -> None:
    assert [row.what for row in found if not row.passed] == [], table(found)


def test_every_goal_of_the_gate_has_a_row(found: list[Row]) -> None:
    goals = [row for row in found if row.goal != "printed"]

    assert len(goals) == 19
    assert {row.family for row in found} == {"gate"}
