"""What a command shows on a terminal: tables, a bar of progress, and how it ends when it is asked to."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Literal, NamedTuple

import click

from warehouse.json_text import for_terminal, json_text

# --- One progress bar for people, shown only when a command takes longer than a second.


_DELAY = 1.0


@contextmanager
def progress(
    what: str, total: int | None, as_bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much was done since its last call; it draws on stderr where
    that is a terminal.

    ``total``, in bytes or in steps, is what all of it will add up to; None: only the time so far is
    shown.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress as rich_progress
    from rich.console import Console

    count = rich_progress.DownloadColumn() if as_bytes else rich_progress.MofNCompleteColumn()
    shown = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        *(() if total is None else (rich_progress.BarColumn(), count)),
        rich_progress.TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = shown.add_task(what, total=total)
    delayed = threading.Timer(_DELAY, shown.start)
    delayed.daemon = True
    delayed.start()
    try:
        yield lambda done: shown.advance(task, done)
    finally:
        delayed.cancel()
        delayed.join()
        shown.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say ``what`` is being done, with the time so far, on stderr where that is a terminal."""
    with progress(what, None):
        yield


# --- How a command that runs for long ends when it is asked to.


@contextmanager
def ended_by_signals(said: str) -> Iterator[None]:
    """Turn Ctrl-C and a scheduler's SIGTERM into KeyboardInterrupt inside; then print ``said`` and
    exit.

    The exit status is 128 + the signal's number, as a shell tells it.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt as error:
        number = error.args[0] if error.args else signal.SIGINT
        click.echo(said, err=True)
        raise SystemExit(128 + int(number)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- What an answer looks like on a terminal: lines of text, and tables.


class Table(NamedTuple):
    """A table as ``show_table`` takes it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    narrow: bool = False


def show(*parts: str | Table | None, err: bool = False) -> None:
    """Print lines of text and tables one below the other, nothing for None; ``err``: on stderr."""
    for part in parts:
        if isinstance(part, Table):
            show_table(*part, err=err)
        elif part is not None:
            click.echo(part, err=err)


def show_json(value: object, indent: int | None = None) -> None:
    """Print a value as JSON, in one line unless ``indent`` says otherwise."""
    click.echo(json_text(value, indent=indent))


def show_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    narrow: bool = False,
    err: bool = False,
) -> None:
    """Print one table; every cell is text, so that nothing in a name is read as markup. ``narrow``:
    put columns close together, where many of them have to fit. ``err``: on stderr.

    Outside a terminal the table is as wide as it needs to be, so that `grep` finds whole lines.
    """
    # Whoever asks only for help waits for no import.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=err)
    if not console.is_terminal:
        console = Console(width=400, stderr=err)
    table = Table(
        title=title or None, title_justify="left", box=None, pad_edge=False,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
    )  # fmt: skip
    for position, name in enumerate(header):
        column = [row[position] for row in rows]
        numeric = position > 0 and all(
            text[:1].isdigit() or text[:1] in "+-−" or text in {"unknown", ""} for text in column
        )
        side: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(name, justify=side, no_wrap=position == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(for_terminal(value)) for value in row))
    console.print(table)


def width() -> int | None:
    """Return how many letters a line of the terminal has; None where the output is no terminal."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def end_of_path(path: str, letters: int) -> str:
    """Return as much of a path, from its end, as fits: whole parts behind ``…/``, else its last
    letters.

    The beginnings of paths are alike, their ends tell them apart.
    """
    if len(path) <= letters:
        return path
    kept = path[-(letters - 1) :]
    part = kept.find("/")
    return "…" + (kept[part:] if 0 <= part < len(kept) - 1 else kept)


def ends_of_paths(paths: Sequence[str], letters: int) -> list[str]:
    """Return the paths as ``end_of_path`` does; where ends are alike, the parts that differ.

    Many tools give every result one name in a folder of its own: ``…/baseline/c1/…`` tells more
    than the name. Of a part that is too long its end is shown.
    """
    ends = [end_of_path(path, letters) for path in paths]
    if len(set(ends)) == len(set(paths)):
        return ends
    parts = [path.split("/") for path in paths]
    if len({len(one) for one in parts}) > 1:
        return ends
    differ = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    return [_cut(one, differ, letters) for one in parts]


def _cut(parts: list[str], differ: list[bool], letters: int) -> str:
    """Return the parts that differ, with ``…`` in place of the others; the longest is cut until all
    fit."""
    kept = [part if told else "…" for part, told in zip(parts, differ, strict=True)]
    kept = [part for at, part in enumerate(kept) if part != "…" or kept[at - 1 : at] != ["…"]]
    surplus = len("/".join(kept)) - letters
    if surplus > 0:
        longest = max(range(len(kept)), key=lambda at: len(kept[at]))
        kept[longest] = "…" + kept[longest][surplus + 1 :]
    return "/".join(kept)
