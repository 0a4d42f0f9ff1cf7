"""What a run tells its user."""

import io

import pytest
from rich.console import Console

from runners.measuring.progress import Count, Progress, live_line
from runners.planning.estimate import Node, duration_of
from runners.planning.plan import make_plan
from warehouse.catalogue import duration


def test_off_a_terminal_each_event_is_one_plain_line(study_of) -> None:
    text = io.StringIO()
    plan = make_plan(study_of())
    with Progress(Count(2), Console(file=text, width=40)) as shown:
        shown.starting(plan.launches[0])
        shown.live({"running": 3.0})
        shown.measured(
            plan.cells[0], 12.0, "Only 3 of 20 requests were completed [odd].", last=False
        )
        shown.measured(plan.cells[0], 12.0, None, last=True)

    lines = text.getvalue().splitlines()
    assert lines[:2] == [
        "r0-baseline-tp1: server starting",
        "baseline/tp1/code/c1-r0: failed, trying again: Only 3 of 20 requests were completed [odd]. [0/2]",
    ]
    assert lines[2].startswith("baseline/tp1/code/c1-r0: good, 12 s [1/2")
    assert "\x1b" not in text.getvalue()


def test_on_a_terminal_a_panel_shows_the_cell_its_pace_and_how_far_it_is(study_of) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with Progress(Count(2), console) as shown:
        assert shown.panel is not None
        shown.measuring(make_plan(study_of()).cells[0], attempt=2)
        shown.live({"tokens_per_s": 311.6, "running": 4.0, "waiting": 0.0})
        with console.capture() as seen:
            console.print(shown.draw())

    assert "baseline/tp1/code/c1-r0, attempt 2" in seen.get()
    assert "0/2" in seen.get()
    assert "312 tok/s, 4 running, 0 waiting" in seen.get()


def test_what_is_unknown_is_not_shown_as_zero() -> None:
    assert live_line({"running": 4.0}) == "4 running"
    assert live_line({}) == ""


def test_the_rest_takes_as_long_as_the_cells_before_it(monkeypatch) -> None:
    count = Count(total=4)
    assert count.left_s() is None
    monkeypatch.setattr("runners.measuring.progress.time.monotonic", lambda: count.began + 60)
    count.ended("a", good=True)
    count.ended("b", good=False)

    assert count.left_s() == 60
    assert str(count) == "2/4, 1 failed, about 60 s left"


def test_what_is_left_does_not_swing_with_long_and_short_loads(monkeypatch) -> None:
    # Two datasets at 1, 16 and 64 in flight; each takes twice what was expected.
    expected = {f"{name}{c}": s for name in "ab" for c, s in ((1, 600.0), (16, 60.0), (64, 20.0))}
    count, passed = Count(total=6, expected=expected), 0.0
    for key, seconds in expected.items():
        passed += 2 * seconds
        monkeypatch.setattr(
            "runners.measuring.progress.time.monotonic", lambda at=passed: count.began + at
        )
        count.ended(key, good=True)
        assert count.left_s() == pytest.approx(2 * sum(expected.values()) - passed)


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(s) for s in (3.2, 600, 7200)] == ["3 s", "10 min", "2.0 h"]


def test_the_time_left_beside_others_is_that_of_the_longest_launch(study_of, monkeypatch) -> None:
    plan = make_plan(study_of())
    one, two, three = (launch.cells for launch in plan.launches)
    expected = {cell.key: 100.0 for cell in plan.cells} | {three[0].key: 10.0, three[1].key: 10.0}
    count = Count(6, expected, duration_of(plan, Node(gpus=3)))
    count.ended(three[0].key, True)
    # The longest launches did not become shorter yet: there is no pace.
    assert count.left_s() is None
    count.ended(one[0].key, True)
    count.ended(two[0].key, True)
    monkeypatch.setattr("time.monotonic", lambda: count.began + 150)
    # 100 of 200 expected seconds took 150.
    assert count.left_s() == pytest.approx(150)
