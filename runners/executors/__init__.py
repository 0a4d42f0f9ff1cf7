"""Where launches run: on this machine, as Slurm jobs, as Ray tasks, as Jobs of Kubernetes.

The unit of remote work is one launch: a server and the cells that are measured on it. An executor
starts ``draftboard run STUDY --results DIR --launch ID`` where there is room, waits, and says what
became of each. What is measured lies in the results folder; nothing else is carried back.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from runners.planning.plan import Launch, Plan, PlannedCell
from runners.serving.engines import Software

State = Literal["waiting", "running", "done", "failed", "handed over"]

#: ``-P``: a folder of the user's called like one of our packages must not hide it.
PROGRAM = (sys.executable, "-P", "-m", "draftboard")


@dataclass(frozen=True)
class Update:
    """What has become of one launch; reported once for each change."""

    launch_id: str
    state: State
    #: Where the launch runs, why it waits or why it failed; never needed to go on.
    detail: str = ""


def ignore(*_: object) -> None:
    """Do nothing with what is reported, for callers who only want the outcome."""


@dataclass(frozen=True)
class ExecutorJob:
    """What an executor is asked for. Paths must mean the same on every node."""

    study: Path
    results: Path
    launches: tuple[Launch, ...]
    #: More arguments of ``draftboard run``, the same for each launch: ``--only …``.
    arguments: tuple[str, ...] = ()
    report: Callable[[Update], None] = ignore
    #: Told of each cell that became good, and how long it took, by executors that look for
    #: them.
    measured: Callable[[PlannedCell, float], None] = ignore
    program: tuple[str, ...] = PROGRAM
    #: What cells are measured with: those of another version are others.
    software: Software = Software()

    def command(self, launch: Launch) -> list[str]:
        """Return the command line that measures one launch, with absolute paths."""
        study, results = str(self.study.absolute()), str(self.results.absolute())
        words = ["run", study, "--results", results, "--launch", launch.launch_id]
        return [*self.program, *words, *self.arguments]


@dataclass(frozen=True)
class ExecutorOutcome:
    """What became of the launches; each is named once."""

    done: tuple[str, ...] = ()
    #: Launches with the reason, one sentence each.
    failed: tuple[tuple[str, str], ...] = ()
    #: Launches that were submitted and are not waited for.
    handed_over: tuple[str, ...] = ()
    #: Where results of launches that are done lie, if the results folder here does not show
    #: them.
    results_at: str = ""


class Executor(Protocol):
    """Runs launches somewhere. Raises RunnerError where a launch can never be placed."""

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Run the job's launches; a failed one does not keep the others from running."""
        ...
