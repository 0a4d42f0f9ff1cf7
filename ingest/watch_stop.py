"""Ends a long command at a point of its choosing when SIGINT or SIGTERM asks for it."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A pause is slept in pieces, because Python goes on sleeping after a signal that it handled.
_PIECE_S = 0.2


class Stop:
    """Whether a signal has asked the command to end; once True, ``asked`` stays so."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the first signal that comes in the block; a second one ends the process at once."""
        before = {number: signal.signal(number, self._heard) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``, or soon after a signal."""
        until = time.monotonic() + seconds
        while not self.asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _PIECE_S))

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
