"""Jobs that were submitted to a scheduler and are waited for, on Slurm or Kubernetes."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.executors import Job, Outcome, Silent, State, Update
from runners.executors.book import Book
from runners.measuring.resume import Now, look
from runners.planning.plan import Plan


@dataclass
class Waiting:
    """What is known of the jobs that are waited for, by launch."""

    plan: Plan
    job: Job
    book: Book
    jobs: dict[str, str]
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    said: dict[str, Update] = field(default_factory=dict)

    def ask(self) -> Mapping[str, Any]:
        """Return what the scheduler knows, by launch. Raises Silent."""
        raise NotImplementedError

    def look_at(self, launch_id: str, found: Any) -> None:
        """Take in what the scheduler knows of one launch that is not over; None: nothing."""
        raise NotImplementedError

    def word(self, launch_id: str) -> str:
        """Return the job of a launch as the scheduler's users call it."""
        return f"job {self.jobs[launch_id]}"

    def through(self, wait: bool, poll_s: float) -> Outcome:
        """Wait until every launch is over, or until Ctrl-C; ``wait`` False does not wait."""
        try:
            while wait and not self.look():
                time.sleep(poll_s)
        except KeyboardInterrupt:
            wait = False
        if not wait:
            for launch_id in self.open():
                self.say([launch_id], "handed over", self.word(launch_id))
        return self.outcome()

    def look(self) -> bool:
        """Ask the scheduler once; return True when every launch is over."""
        try:
            known = self.ask()
        except Silent as error:
            self.say(self.open(), "waiting", f"{error}; asking again")
            return False
        for launch_id in self.open():
            self.look_at(launch_id, known.get(launch_id))
        return not self.open()

    def outcome(self) -> Outcome:
        """Return the outcome as far as it is known by now."""
        return Outcome(tuple(self.done), tuple(self.failed.items()), tuple(self.open()))

    def open(self) -> list[str]:
        """Return the launches that are not over."""
        return [name for name in self.jobs if name not in self.done and name not in self.failed]

    def cells(self, launch_id: str) -> tuple[int, int]:
        """Return how many cells of a launch are good here, and how many were asked for."""
        cells = next(x.cells for x in self.job.launches if x.launch_id == launch_id)
        found = look(self.plan, self.book.layout, cells, Now(self.job.software))
        return len(found.good), len(cells)

    def fail(self, launch_id: str, reason: str) -> None:
        """Count a launch as failed, and say why."""
        self.failed[launch_id] = reason
        self.say([launch_id], "failed", reason)

    def say(self, launches: Iterable[str], state: State, detail: str) -> None:
        """Report what has become of launches, each change once."""
        for launch_id in launches:
            update = Update(launch_id, state, detail)
            if self.said.get(launch_id) != update:
                self.said[launch_id] = update
                self.job.report(update)
