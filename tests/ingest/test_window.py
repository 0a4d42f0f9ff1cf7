"""The measured window is what was active."""

import numpy as np
import pytest

from analysis.canonical import Columns, Window
from ingest.level import active

#: Ten requests of a second each, one after the other, from 100 to 110.
STARTS = 100.0 + np.arange(10.0)


def columns(**changes: object) -> Columns:
    known = {"start": STARTS, "end": STARTS + 1.0, "last_token": STARTS + 0.9}
    return {**known, **changes}  # type: ignore[dict-item]


def test_a_window_within_the_activity_is_taken_as_it_stands() -> None:
    stated = Window(101.0, 109.0)
    assert active(columns(), stated, (1.0, 1.0)) == (stated, ())


def test_a_window_that_outlives_the_activity_is_cut_and_flagged_with_figures() -> None:
    found, (flag,) = active(columns(), Window(100.0, 300.0), (0.0, 0.0))
    assert found == Window(100.0, 110.0)
    assert (flag.name, flag.severity) == ("window_outlives_activity", "warning")
    assert "200.0 s" in flag.sentence
    assert "10.0 s" in flag.sentence
    assert "95%" in flag.sentence


def test_warm_up_and_cool_down_are_left_out_of_the_activity_too() -> None:
    found, flags = active(columns(), Window(80.0, 300.0), (2.0, 3.0))
    assert found == Window(102.0, 107.0)
    assert [flag.name for flag in flags] == ["window_outlives_activity"]


def test_a_little_idle_time_is_cut_without_a_word() -> None:
    found, flags = active(columns(), Window(99.5, 110.4), (0.0, 0.0))
    assert found == Window(100.0, 110.0)
    assert flags == ()


def test_requests_still_in_flight_are_activity() -> None:
    ends = np.where(STARTS == 109.0, np.nan, STARTS + 1.0)
    stated = Window(100.0, 300.0)
    assert active(columns(end=ends, last_token=ends), stated, (0.0, 0.0)) == (stated, ())


def test_requests_that_never_started_are_not() -> None:
    never = np.array([np.nan])
    added = {name: np.concatenate([values, never]) for name, values in columns().items()}
    assert active(added, Window(100.0, 300.0), (0.0, 0.0))[0] == Window(100.0, 110.0)


@pytest.mark.parametrize("stated", [Window(None, None), Window(100.0, None)])
def test_a_window_that_is_not_stated_stays_so(stated: Window) -> None:
    assert active(columns(), stated, (0.0, 0.0)) == (stated, ())


def test_a_window_apart_from_all_requests_stays_what_the_report_says() -> None:
    stated = Window(500.0, 600.0)
    assert active(columns(), stated, (0.0, 0.0)) == (stated, ())
