"""The truth table with few trials: every goal is met as far as so few can tell."""

import pytest

from tests.truth import coverage, decisions, k_choice, same
from tests.truth.row import Row, table

#: Families of which even a glance is worth its time, and studies of each.
COVERED = ("2 arms, R 2, 3 loads", "2 arms, R 3, 6 loads", "4 arms, R 3, 3 loads")
STUDIES, SERVERS, INTERVALS, THROUGH_FILES = 36, 120, 390, 1
FILED = ("nothing differs, 4 arms", "Poisson", "vllm bench")


def missed(rows: list[Row]) -> str:
    """The rows that miss their goal, as a table; empty where all meet it."""
    found = [row for row in rows if not row.passed]
    return table(found) if found else ""


@pytest.mark.slow
def test_plain_intervals_hold_the_truth_as_often_as_they_say() -> None:
    chosen = [f for f in coverage.families() if f.name.startswith(COVERED)]
    assert len(chosen) == len(COVERED) * len(coverage.CHANCE)
    assert missed([row for f in chosen for row in coverage.rows_of(f, INTERVALS)]) == ""


@pytest.mark.slow
def test_decisions_promise_nothing_false_and_find_what_is_there() -> None:
    rows = decisions.rows(STUDIES)
    assert missed(rows) == ""
    assert sum(row.goal != "printed" for row in rows) > len(list(decisions.families()))


@pytest.mark.slow
def test_the_chosen_k_loses_little_and_less_than_the_highest_mean() -> None:
    assert missed(k_choice.rows(SERVERS)) == ""


@pytest.mark.slow
def test_studies_through_files_ingest_and_the_command_get_the_same_decision() -> None:
    chosen = [f for f in same.families() if f.name.startswith(FILED)]
    assert len(chosen) == len(FILED)
    assert missed([row for f in chosen for row in same.rows_of(f, THROUGH_FILES)]) == ""
