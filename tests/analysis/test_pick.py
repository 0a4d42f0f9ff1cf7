"""Which arm is taken at a load, and what its server drafts at the others: worked by hand."""

import numpy as np
import pytest

from analysis.choice.expected import Candidate, Field
from analysis.choice.pick import Grounds, Server, served, taken
from analysis.evidence.launches import Tails
from warehouse.contract import Entry

LOADS = (1, 16)
NONE = float("nan")


def grounds(
    *log: tuple[float, ...],
    arms: list[Candidate] | None = None,
    loads: tuple[int | None, ...] = LOADS,
    settled: bool = True,
    off: bool = True,
    slo: bool = True,
) -> Grounds:
    gains = np.array(log)
    named = arms or [Candidate(at, f"m{at}", f"m{at}", 3) for at in range(len(gains))]
    field = Field(
        tuple(named), gains, np.ones(gains.shape), np.ones(gains.shape), Tails(*np.ones((3, *gains.shape))),
        np.zeros(len(gains)), np.full(gains.shape, NONE),
    )  # fmt: skip
    every = np.ones(gains.shape, dtype=np.bool_)
    return Grounds(
        field, gains, every, np.full(len(loads), slo), every & settled, loads,
        np.full(len(gains), off),
    )  # fmt: skip


def of_one_method(*ks: int) -> list[Candidate]:
    return [Candidate(at, f"draft K={k}", "draft", k) for at, k in enumerate(ks)]


def table(server: Server) -> list[tuple[int, int]] | None:
    return None if server.table is None else [(start, k) for start, _, k in server.table.entries]


def test_the_highest_expected_value_at_the_load_is_taken_whatever_other_loads_say() -> None:
    crossing = grounds((1.00, -0.30), (0.60, 0.14))
    assert taken(crossing, 1) == 1
    assert taken(crossing, 0) == 0


def test_nothing_is_taken_where_no_arm_is_expected_to_gain() -> None:
    assert taken(grounds((1.0, -0.1), (0.5, -0.2)), 1) is None
    assert taken(grounds((1.0, 0.001), (0.5, -0.2)), 1) == 0


def test_an_arm_that_was_not_measured_at_the_load_is_not_taken() -> None:
    assert taken(grounds((1.0, NONE), (0.2, 0.1)), 1) == 1


def test_of_arms_as_good_the_one_that_gains_more_elsewhere_is_taken_then_the_smaller_k() -> None:
    assert taken(grounds((0.1, 0.204), (0.5, 0.200)), 1) == 1
    assert taken(grounds((0.1, 0.210), (0.5, 0.200)), 1) == 0
    alike = [Candidate(0, "b K=5", "b", 5), Candidate(1, "a K=3", "a", 3)]
    assert taken(grounds((0.1, 0.2), (0.1, 0.2), arms=alike), 1) == 1


def test_where_the_baseline_misses_the_slo_an_arm_that_loses_is_taken() -> None:
    assert taken(grounds((0.1, -0.1), slo=False), 1) == 0


def test_k_follows_the_load_and_is_that_of_the_arm_at_the_load_spoken_about() -> None:
    two = grounds((0.50, -0.10), (0.20, 0.15), arms=of_one_method(5, 2))
    server = served(two, 1, 1)
    assert server.at == (0, 1)
    assert table(server) == [(1, 5), (5, 2)]


@pytest.mark.parametrize(
    ("loads", "arms"),
    [
        ((None, None), of_one_method(3)),
        (LOADS, [Candidate(0, "d K<=7 adaptive", "d", None, "adaptive")]),
    ],
)
def test_a_server_whose_k_cannot_follow_the_load_drafts_at_every_load(
    loads: tuple[int | None, ...], arms: list[Candidate]
) -> None:
    assert served(grounds((0.5, -0.2), arms=arms, loads=loads), 0, 0) == Server(0, (0, 0))


def test_nothing_is_drafted_only_where_the_method_was_measured_and_loses() -> None:
    one = of_one_method(3)
    assert table(served(grounds((0.5, -0.2), arms=one), 0, 0)) == [(1, 3), (8, 0)]
    assert served(grounds((0.5, NONE), arms=one), 0, 0) == Server(0, (0, 0))


def test_nothing_is_switched_off_where_the_server_would_not_be_that_of_the_baseline() -> None:
    found = served(grounds((0.5, -0.2), arms=of_one_method(3), off=False), 0, 0)
    assert found == Server(0, (0, 0))


def test_where_nothing_is_settled_there_is_one_k() -> None:
    two = grounds((0.50, -0.10), (0.20, 0.15), arms=of_one_method(5, 2), settled=False)
    assert served(two, 1, 1) == Server(1, (1, 1))


def test_a_table_turns_once_unless_each_change_is_settled() -> None:
    gains = (0.50, 0.10, 0.50, 0.10), (0.20, 0.30, 0.20, 0.30)
    loads = (1, 4, 16, 64)
    sure = grounds(*gains, arms=of_one_method(5, 2), loads=loads)
    assert [k for _, k in table(served(sure, 1, 3)) or []] == [5, 2, 5, 2]
    half = np.array([[True, True, False, True], [True, True, False, True]])
    unsure = Grounds(**{**sure.__dict__, "settled": half})
    assert len(table(served(unsure, 1, 3)) or []) <= 3


def test_a_table_that_was_measured_counts_as_what_it_was_measured_to_be() -> None:
    two = grounds((0.50, -0.10), (0.20, 0.15), arms=of_one_method(5, 2))
    found = served(two, 1, 1).table
    assert found is not None
    entries: tuple[Entry, ...] = found.entries
    whole = [
        *of_one_method(5, 2),
        Candidate(2, "draft K=5/2 by table", "draft (table)", None, "table", entries),
    ]
    poor = grounds((0.50, -0.10), (0.20, 0.15), (0.20, 0.02), arms=whole)
    assert taken(poor, 1) == 1
    assert served(poor, 1, 1) == Server(1, (1, 1))
    good = grounds((0.50, -0.10), (0.20, 0.15), (0.48, 0.16), arms=whole)
    assert taken(good, 1) == 2
    assert served(good, 2, 1) == Server(2, (2, 2))
