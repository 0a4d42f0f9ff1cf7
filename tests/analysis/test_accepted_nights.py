"""What people accepted, and drifts: from where on a series is judged, and what creeps."""

from datetime import UTC, datetime

import pytest

from analysis.nightly.regressions import AcceptedNight, Budgets, assess
from tests.analysis.in_a_row import history, only


def said_on(night: str, hour: int = 0, **about: str) -> AcceptedNight:
    at = datetime(2026, 12, 1, hour, tzinfo=UTC)
    return AcceptedNight(night, "the new sampler is right", "Ann", at, **about)


WORSE_THEN_STEADY = (*[100.0] * 8, *[90.0] * 6)


def test_an_accepted_level_is_the_reference_from_its_first_night_on() -> None:
    series = history(*WORSE_THEN_STEADY)
    accepted = said_on("2026-11-12")

    found = assess(series, Budgets(), [accepted])[0]

    assert (found.status, found.accepted) == ("fine", accepted)
    assert found.against is not None
    assert found.against[0] == 8
    assert found.moves == ()


def test_what_is_accepted_tonight_is_fine_tonight() -> None:
    found = assess(history(*WORSE_THEN_STEADY), Budgets(), [said_on("2026-11-14")])[0]

    assert (found.status, found.reason) == ("fine", "accepted")


def test_what_becomes_worse_after_an_acceptance_is_a_regression_again() -> None:
    series = history(*WORSE_THEN_STEADY, *[80.0] * 3)

    found = assess(series, Budgets(), [said_on("2026-11-14")])[0]

    assert (found.status, found.since) == ("regression", 14)


def test_of_two_acceptances_the_last_said_holds() -> None:
    series = history(*WORSE_THEN_STEADY)
    later, earlier = said_on("2026-11-14", 1), said_on("2026-11-02", 2)

    assert assess(series, Budgets(), [later, earlier])[0].status == "regression"
    assert assess(series, Budgets(), [earlier, said_on("2026-11-14", 3)])[0].status == "fine"


@pytest.mark.parametrize(
    ("about", "status"),
    [
        ({"series": "A, code"}, "fine"), ({"series": "a, chat"}, "regression"),
        ({"series": "Output throughput"}, "fine"), ({"study": "lab"}, "fine"),
        ({"study": "other"}, "regression"),
    ],
)  # fmt: skip
def test_an_acceptance_is_of_the_series_and_the_study_it_names(
    about: dict[str, str], status: str
) -> None:
    series = history(*WORSE_THEN_STEADY, study="lab")

    assert assess(series, Budgets(), [said_on("2026-11-14", **about)])[0].status == status


def falling(per_night: float, nights: int) -> list[float]:
    return [100.0] * 12 + [100 * (1 - per_night) ** night for night in range(1, nights + 1)]


def test_a_drift_is_named_with_its_rate_before_it_is_a_regression() -> None:
    found = only(*falling(0.002, 20), noise=0.01, repeats=2)

    assert found.status != "regression"
    assert found.drift is not None
    assert found.drift.per_night == pytest.approx(-0.002, rel=0.4)
    assert found.drift.total == pytest.approx(-0.04, abs=0.015)


def test_a_drift_beyond_the_budget_is_a_regression() -> None:
    assert only(*falling(0.002, 40)).status == "regression"


def test_a_step_and_steady_nights_are_no_drift() -> None:
    assert only(*[100.0] * 20, *[93.0] * 20).drift is None
    assert only(*[100.0] * 40).drift is None
