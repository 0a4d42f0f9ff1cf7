"""What a run tells its user: a live panel on a terminal, a line for each event elsewhere."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runners.planning.plan import Launch, PlannedCell

LiveFigures = Mapping[str, float]


class Progress(Protocol):
    """An object that is told of every step of a run; it keeps nothing that a result needs."""

    def starting(self, launch: Launch) -> None:
        """Say that a server is being started."""

    def ready(self, launch: Launch, seconds: float) -> None:
        """Say that the server answers, ``seconds`` after its start."""

    def measuring(self, cell: PlannedCell, attempt: int) -> None:
        """Say that a cell begins."""

    def live(self, figures: LiveFigures) -> None:
        """Show the server's own figures while a cell is measured: running, waiting,
        tokens_per_s."""

    def measured(self, cell: PlannedCell, seconds: float, problem: str | None, last: bool) -> None:
        """Say that a cell ended; ``problem`` says why it is not good, ``last`` that it is not tried
        again."""

    def say(self, line: str) -> None:
        """Print a line."""


@dataclass
class Count:
    """How far a run is, and how long the rest may take."""

    total: int
    expected: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each cell by its key, its server's start included; 1 for those not named."""
    lasts: Callable[[Mapping[str, float]], float] = lambda cells: sum(cells.values())
    """How long cells (seconds by key) take together; the sum, where one follows the other."""
    settled: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """The number of cells that are settled."""
        return len(self.settled)

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
        known = self.settled | set(self.expected)
        unnamed = max(0, self.total - len(known))
        whole = {key: self.expected.get(key, 1.0) for key in known}
        rest = {key: seconds for key, seconds in whole.items() if key not in self.settled}
        left = self.lasts(rest) + unnamed
        before = self.lasts(whole) + unnamed - left
        return (time.monotonic() - self.began) / before * left if before > 0 else None

    def __str__(self) -> str:
        """Say how far the run is, e.g. "3/12, 1 failed, about 4 min left"."""
        parts = [f"{self.done}/{self.total}"]
        parts += [f"{len(self.bad)} failed"] if self.bad else []
        left = self.left_s()
        parts += [f"about {duration(left)} left"] if left and self.done < self.total else []
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Write a duration, e.g. "40 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Lines:
    """Prints a line for each event, for logs and pipes."""

    def __init__(self, console: Console, count: Count) -> None:
        self._console = console
        self._count = count

    def __enter__(self) -> Self:
        """Return this object; there is nothing to open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing; there is nothing to close."""

    def starting(self, launch: Launch) -> None:
        """See Progress."""
        self.say(f"{launch.launch_id}: server starting")

    def ready(self, launch: Launch, seconds: float) -> None:
        """See Progress."""
        self.say(f"{launch.launch_id}: server ready after {duration(seconds)}")

    def measuring(self, cell: PlannedCell, attempt: int) -> None:
        """Say nothing until the cell ends; a line for each begin would double the log."""

    def live(self, figures: LiveFigures) -> None:
        """Do nothing; a log has no use for these figures."""

    def measured(self, cell: PlannedCell, seconds: float, problem: str | None, last: bool) -> None:
        """See Progress."""
        if last:
            self._count.ended(cell.key, problem is None)
        self.say(settled(cell, seconds, problem, last) + f" [{self._count}]")

    def say(self, line: str) -> None:
        """See Progress."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Panel(Lines):
    """Prints the lines of ``Lines`` above a panel that shows the cell at work."""

    def __init__(self, console: Console, count: Count) -> None:
        super().__init__(console, count)
        self._now: tuple[str, float] = ("", time.monotonic())
        self._figures: dict[str, float] = {}
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> Self:
        """Show the panel."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the panel; the lines above it stay."""
        self._now = ("", 0.0)
        self._live.stop()

    def starting(self, launch: Launch) -> None:
        """See Progress."""
        self._begin(f"{launch.launch_id}: server starting")

    def measuring(self, cell: PlannedCell, attempt: int) -> None:
        """See Progress."""
        self._begin(cell.key + (f", attempt {attempt}" if attempt > 1 else ""))

    def live(self, figures: LiveFigures) -> None:
        """See Progress."""
        self._figures = dict(figures)

    def _begin(self, what: str) -> None:
        self._now, self._figures = (what, time.monotonic()), {}

    def _draw(self) -> Table | Text:
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
    known = [(figures[name], unit) for name, unit in units.items() if name in figures]
    return ", ".join(f"{value:.0f} {unit}" for value, unit in known)


def settled(cell: PlannedCell, seconds: float, problem: str | None, last: bool) -> str:
    """Return the line of a cell that ended."""
    if problem is None:
        return f"{cell.key}: good, {duration(seconds)}"
    return f"{cell.key}: failed{'' if last else ', trying again'}: {problem}"


def progress(count: Count, console: Console | None = None) -> Lines:
    """Return a panel on a terminal, lines anywhere else."""
    console = console or Console(stderr=True)
    return Panel(console, count) if console.is_terminal else Lines(console, count)
