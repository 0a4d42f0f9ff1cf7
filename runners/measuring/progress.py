"""What a run tells its user: a live panel on a terminal, a line for each event elsewhere; after
failures why cells are not good, and what to do."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runners.planning.plan import Launch, PlannedCell
from runners.serving.diagnosis import Diagnosis
from runners.surroundings.layout import Layout
from warehouse.catalogue import duration

LiveFigures = Mapping[str, float]


@dataclass
class Count:
    """How far a run is, and how long the rest may take."""

    total: int
    #: Seconds of each cell by its key, its server's start included; 1 for those not named.
    expected: Mapping[str, float] = field(default_factory=dict)
    #: How long cells (seconds by key) take together; the sum, where one follows the other.
    lasts: Callable[[Mapping[str, float]], float] = lambda cells: sum(cells.values())
    settled: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    def ended(self, key: str, good: bool) -> None:
        """Count one more cell as settled."""
        self.settled.add(key)
        self.bad = self.bad - {key} if good else self.bad | {key}

    def left_s(self) -> float | None:
        """Return the seconds for the rest, at the pace so far; None before there is a pace.

        Loads of one stream last many times longer than those of a hundred, so the pace is held
        against what was expected of the cells that are done, not against their number. Where
        servers run side by side, against by how much the longest of them became shorter.
        """
        keys = self.settled | set(self.expected)
        unnamed = max(0, self.total - len(keys))
        whole = {key: self.expected.get(key, 1.0) for key in keys}
        rest = {key: seconds for key, seconds in whole.items() if key not in self.settled}
        left = self.lasts(rest) + unnamed
        before = self.lasts(whole) + unnamed - left
        return (time.monotonic() - self.began) / before * left if before > 0 else None

    def __str__(self) -> str:
        """Say how far the run is, e.g. "3/12, 1 failed, about 4 min left"."""
        parts = [f"{len(self.settled)}/{self.total}"]
        parts += [f"{len(self.bad)} failed"] if self.bad else []
        left = self.left_s()
        parts += [f"about {duration(left)} left"] if left and len(self.settled) < self.total else []
        return ", ".join(parts)


class Progress:
    """Is told of every step of a run, and prints a line for each event; on a terminal above a panel
    that shows the cell at work. It keeps nothing that a result needs."""

    def __init__(self, count: Count, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._count = count
        self._now: tuple[str, float] = ("", 0.0)
        self._figures: LiveFigures = {}
        self.panel = Live(
            console=self._console, get_renderable=self.draw, refresh_per_second=2, transient=True
        ) if self._console.is_terminal else None  # fmt: skip

    def __enter__(self) -> Self:
        if self.panel is not None:
            self.panel.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The panel goes, the lines above it stay.
        self._now = ("", 0.0)
        if self.panel is not None:
            self.panel.stop()

    def starting(self, launch: Launch) -> None:
        """Say that a server is being started."""
        text = f"{launch.launch_id}: server starting"
        self._now, self._figures = (text, time.monotonic()), {}
        if self.panel is None:
            self.say(text)

    def ready(self, launch: Launch, seconds: float) -> None:
        """Say that the server answers, ``seconds`` after its start."""
        self.say(f"{launch.launch_id}: server ready after {duration(seconds)}")

    def measuring(self, cell: PlannedCell, attempt: int) -> None:
        """Show that a cell begins. In a log nothing is said until it ends: a line for each begin
        would double it."""
        text = cell.key + (f", attempt {attempt}" if attempt > 1 else "")
        self._now, self._figures = (text, time.monotonic()), {}

    def live(self, figures: LiveFigures) -> None:
        """Show the server's own figures: running, waiting, tokens_per_s."""
        self._figures = figures

    def measured(self, cell: PlannedCell, seconds: float, problem: str | None, last: bool) -> None:
        """Say that a cell ended; ``problem`` says why it is not good, ``last`` that it is not tried
        again."""
        if last:
            self._count.ended(cell.key, problem is None)
        ended = f"good, {duration(seconds)}"
        if problem is not None:
            ended = f"failed{'' if last else ', trying again'}: {problem}"
        self.say(f"{cell.key}: {ended} [{self._count}]")

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def draw(self) -> Table | Text:
        """Return the panel as it is now."""
        what, began = self._now
        if not what:
            return Text("")
        grid = Table.grid(padding=(0, 2))
        seconds = duration(time.monotonic() - began)
        grid.add_row(Text(what, style="bold"), Text(seconds), Text(str(self._count)))
        if self._figures:
            grid.add_row(Text(live_line(self._figures)))
        return grid


def live_line(figures: LiveFigures) -> str:
    """Return the server's figures in a line, e.g. "312 tok/s, 4 running, 0 waiting"; only what is
    known."""
    units = {"tokens_per_s": "tok/s", "running": "running", "waiting": "waiting"}
    return ", ".join(
        f"{figures[name]:.0f} {unit}" for name, unit in units.items() if name in figures
    )


# --- Why cells are not good, each launch once, and what to do about it.


_AGAIN = "the same command then tries only what is missing"


@dataclass(frozen=True)
class FailedCell:
    """A cell that is not good after all its attempts, and its launch. ``no_server``: that was given up,
    so that nothing of the cell itself was tried."""

    launch_id: str
    cell: PlannedCell
    problem: Diagnosis
    no_server: bool = False


def reasons(failed: Sequence[FailedCell]) -> list[str]:
    """Return why cells are not good; a launch whose server did not come up is one reason, however
    many cells it has."""
    named = ((each.launch_id if each.no_server else each.cell.key, each) for each in failed)
    return list(dict.fromkeys(f"{name}: {each.problem.sentence}" for name, each in named))


def next_step(failed: Sequence[FailedCell], layout: Layout, study: Path) -> str:
    """Say in one sentence what to do after cells failed; empty where none did."""
    if not failed:
        return ""
    unstarted = [each for each in failed if each.no_server]
    launch_id = (unstarted or failed)[0].launch_id
    log = layout.log(launch_id)
    if unstarted:
        return (
            f"Next: `draftboard doctor {study}` looks for what keeps its server from starting, and "
            f"{log} holds what it printed; {_AGAIN}."
        )
    return f"Next: look into {layout.log(launch_id, 'guidellm')} and {log}; {_AGAIN}."


def next_step_elsewhere(launches: Sequence[str], layout: Layout, where: str, study: Path) -> str:
    """Say what to do after launches failed on a cluster; empty where none did."""
    if not launches:
        return ""
    if where in ("slurm", "kubernetes"):
        command = f"draftboard cluster logs {study} {launches[0]} --results {layout.results}"
        return f"Next: `{command}` prints what it said; {_AGAIN}."
    return f"Next: look into the logs of {launches[0]} in {layout.root / 'logs'}; {_AGAIN}."
