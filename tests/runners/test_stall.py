"""When an engine is taken to hang."""

import pytest

from runners.measuring.guidellm import Stall


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def after(
    seconds: list[float], figures: list[dict[str, float]], cell_s: float = 100.0
) -> list[bool]:
    """Whether each sample, so many seconds after the start, is taken for a hang."""
    clock = Clock()
    stall = Stall(cell_s, clock)
    found = []
    for clock.now, latest in zip(seconds, figures, strict=True):
        found.append(stall.look(latest) is not None)
    return found


RUNNING = {"running": 4.0, "tokens_per_s": 0.0}
MOVING = {"running": 4.0, "tokens_per_s": 12.0}


def test_running_requests_that_get_nothing_for_half_the_cells_limit_hang() -> None:
    figures = [dict(MOVING), dict(RUNNING), dict(RUNNING), dict(RUNNING)]
    assert after([0, 10, 49, 51], figures) == [False, False, False, True]


def test_the_wait_is_never_longer_than_five_minutes() -> None:
    assert after([0, 299, 301], [dict(MOVING), dict(RUNNING), dict(RUNNING)], cell_s=36000) == [
        False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("latest", [{}, {"running": 0.0, "tokens_per_s": 0.0}, dict(MOVING)])
def test_idle_working_and_unknown_engines_do_not_hang(latest: dict[str, float]) -> None:
    assert after([0, 200], [dict(latest), dict(latest)]) == [False, False]


def test_a_server_that_stops_telling_hangs_too() -> None:
    last = dict(MOVING)
    assert after([0, 40, 60], [last, last, last]) == [False, False, True]


def test_an_engine_that_never_shows_its_figures_is_not_taken_to_hang() -> None:
    nothing: dict[str, float] = {}
    assert after([0, 200], [nothing, nothing]) == [False, False]
