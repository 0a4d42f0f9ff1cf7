"""A machine that throttles or drifts pauses the race."""

import pytest

from commands.running.search_study import _pause
from warehouse.errors import RunnerError

HOT = ("A GPU's clock was held back during the measurement (too hot 12%).",)


def test_a_machine_that_is_itself_is_not_waited_for() -> None:
    assert _pause((), 2) == 0


def test_a_machine_that_throttles_is_waited_for_and_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _pause(HOT, 0, pause_s=0.0) == 1
    assert "paused for 0 s: A GPU's clock was held back" in capsys.readouterr().err


def test_a_race_ends_where_pauses_do_not_help_and_says_how_to_go_on() -> None:
    with pytest.raises(RunnerError, match=r"too hot 12%.*same command again"):
        _pause(HOT, 3, pause_s=0.0)
