"""What people accepted: from which night on a series is judged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from analysis.nightly.levels import levels
from analysis.nightly.nights import Night, Series
from analysis.nightly.standing import Reference, stand


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Somebody accepted how things stood in a night (``2026-11-21``), of one ``study`` or of all.

    ``series``: parts of its name with commas between them, as the gate prints it; None: all."""

    night: str
    why: str
    by: str
    at: datetime
    study: str | None = None
    series: str | None = None

    def holds(self, series: Series) -> bool:
        """Return whether the acceptance is about this series, or about the arm whose gain it is."""
        if self.study is not None and series.about.get("study") != self.study:
            return False
        asked = {part.strip().casefold() for part in (self.series or "").split(",")} - {""}
        words = (*series.words, *replace(series, over=None).words)
        return asked <= {word.casefold() for word in words}


def reference(
    series: Series, accepted: Iterable[Acceptance], budget: float
) -> tuple[Reference, Acceptance | None]:
    """Return from which night a series counts, and the last acceptance that says so.

    What was a regression in the accepted night counts from its first night on, anything else from
    the accepted night on. ``budget``: in logs, as in ``standing``.
    """
    found, by = Reference(), None
    for one in sorted(accepted, key=lambda one: one.at):
        if one.holds(series):
            pinned = _pinned(series.nights, one.night, found, budget)
            found, by = (pinned, one) if pinned is not None else (found, by)
    return found, by


def _pinned(
    nights: Sequence[Night], day: str, before: Reference, budget: float
) -> Reference | None:
    """Return the reference that accepting ``day`` sets; None where the series has no night up to
    it."""
    through = sum(night.day <= day for night in nights) - 1
    if through < 0:
        return None
    first = next(place for place, night in enumerate(nights) if night.day == nights[through].day)
    known = levels(nights[: through + 1])
    standing = stand(known, before if before.through < through else Reference(), budget)
    if standing is not None and standing.since is not None:
        first = standing.since
    return Reference(first, through)
