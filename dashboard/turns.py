"""Questions in SQL wait for their turn: one is answered at a time, and who waits learns how many are
before.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warehouse.errors import DraftboardError

#: As many may wait, of one client and of all.
MOST_OF_ONE, MOST = 2, 16
_LOOK_S = 0.5


class TooManyWait(DraftboardError):
    """The queue of questions is as long as it may be."""


class Turns:
    """A queue of clients, of which the first one has its question answered."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[tuple[object, str]] = []

    def __len__(self) -> int:
        return len(self._queue)

    @contextmanager
    def turn(self, client: str, waits: Callable[[int], object]) -> Iterator[None]:
        """Wait for the turn and hold it; meanwhile ``waits`` is told now and then how many come
        before.

        Raises TooManyWait where the client, or all together, wait for too many turns already.
        """
        ticket = (object(), client)
        with self._changed:
            own = sum(each == client for _, each in self._queue)
            if own >= MOST_OF_ONE or len(self._queue) >= MOST:
                raise TooManyWait(
                    f"{len(self._queue)} questions are waiting, {own} of them yours; one is answered "
                    "at a time. Ask again when yours are answered."
                )
            self._queue.append(ticket)
        try:
            while before := self._before(ticket):
                waits(before)
                with self._changed:
                    if self._queue[0] is not ticket:
                        self._changed.wait(_LOOK_S)
            yield
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _before(self, ticket: tuple[object, str]) -> int:
        with self._changed:
            return next(at for at, each in enumerate(self._queue) if each is ticket)


#: The one place of this server.
SQL = Turns()
