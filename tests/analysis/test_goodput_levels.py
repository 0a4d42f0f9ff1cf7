"""Goodput over the repeats of a load: rates are averaged, shares are over all requests."""

from datetime import UTC, datetime

import pytest

from analysis.service.slo import Goodput, Pooled, pooled, window

START = datetime(2026, 11, 2, tzinfo=UTC)
CELL = {"load_generator": "guidellm", "started_at": START, "duration": 60.0}


def test_a_share_is_over_the_requests_of_all_repeats_and_a_rate_their_mean() -> None:
    long = Goodput(90, 45, 3.0, 300.0)
    short = Goodput(10, 10, 1.0, 100.0)

    assert pooled([long, short]) == Pooled(0.55, 2.0, 200.0)


def test_without_requests_everything_is_unknown() -> None:
    assert pooled([]) == Pooled(None, None, None)
    assert pooled([Goodput(0, 0, 0.0, 0.0)]).good_share is None


def test_the_window_is_that_of_the_measurement_in_unix_seconds() -> None:
    assert window(CELL) == (START.timestamp(), START.timestamp() + 60)


@pytest.mark.parametrize(
    "changes", [{"load_generator": "vllm_bench"}, {"started_at": None}, {"duration": float("nan")}]
)
def test_a_window_that_is_not_known_is_none(changes: dict[str, object]) -> None:
    assert window(CELL | changes) is None
