"""An engine that hangs: requests are running, and nothing is generated any more."""

import time
from collections.abc import Callable, Mapping

from runners.serving.diagnosis import Diagnosis

CAUSE = "hangs"
#: At most, however long a cell may take; the prefill of a long prompt takes far less.
_LONGEST_S = 300.0


class Stall:
    """Watches the sampler's latest figures. An engine that shows none is never taken to hang."""

    def __init__(self, cell_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = min(_LONGEST_S, cell_s / 2)
        self._clock = clock
        self._moved_at = clock()
        self._seen: Mapping[str, float] = {}

    def look(self, latest: Mapping[str, float]) -> Diagnosis | None:
        """Say what is wrong, once nothing moved for too long; None until then. ``latest`` is a new
        object each sample."""
        fresh = latest is not self._seen
        self._seen = latest
        if not latest or (fresh and _moves(latest)):
            self._moved_at = self._clock()
        silent_s = self._clock() - self._moved_at
        if silent_s < self._limit_s:
            return None
        return Diagnosis(
            CAUSE,
            f"The engine hangs: {latest.get('running', 0):.0f} requests were running and for "
            f"{silent_s:.0f} s it generated nothing, or did not say.",
        )


def _moves(latest: Mapping[str, float]) -> bool:
    """Return whether the engine makes progress or has nothing to do. The first sample has no rate
    yet, which counts as progress."""
    return not latest.get("running") or latest.get("tokens_per_s", 1.0) > 0
