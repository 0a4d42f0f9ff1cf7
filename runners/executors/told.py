"""Which cells of launches that run elsewhere are good by now, told one by one as they come."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from runners.executors import Job
from runners.measuring.layout import RECORD, Layout
from runners.measuring.resume import Now, look
from runners.planning.plan import Plan

_EVERY_S = 4.0


@dataclass
class Told:
    """Looks into the results folder every few seconds and tells each good cell once."""

    plan: Plan
    job: Job
    _known: set[str] = field(default_factory=set)
    _looked: float = field(default_factory=time.monotonic)

    def look(self, at_once: bool = False) -> None:
        """Tell each cell that became good since the last look, with the seconds that its record
        says it took."""
        now = time.monotonic()
        if now - self._looked < _EVERY_S and not at_once:
            return
        self._looked = now
        layout = Layout(self.job.results.absolute(), self.plan.study.name)
        cells = [cell for each in self.job.launches for cell in each.cells]
        unknown = [cell for cell in cells if cell.key not in self._known]
        found = look(self.plan, layout, unknown, Now(self.job.software))
        for cell in found.good:
            self._known.add(cell.key)
            self.job.measured(cell, _seconds(found.found[cell.key].folder))


def _seconds(folder: Path | None) -> float:
    """Return how long a good cell took; 0 where its record does not say."""
    if folder is None:
        return 0.0
    timeline = json.loads((folder / RECORD).read_bytes()).get("timeline")
    return float(timeline.get("total", 0.0)) if isinstance(timeline, dict) else 0.0
