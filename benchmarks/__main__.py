"""``python -m benchmarks``: measures, and prints each number beside what was to be reached."""

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.result import Result, progress

NAMES = ("ingest", "queries", "pages", "concurrency", "kills", "runner", "runner_kills")
WORD = {True: "yes", False: "NO", None: "-"}


def measured(names: tuple[str, ...], folder: Path, quick: bool) -> Iterator[Result]:
    """The results of the named benchmarks, one after the other."""
    for name in names:
        progress(name)
        yield from importlib.import_module(f"benchmarks.{name}").run(folder, quick)


def table(results: list[Result]) -> Table:
    """Subject, target, measured, reached."""
    made = Table("measured", "target", "value", "reached", box=None, pad_edge=False)
    for result in results:
        made.add_row(result.subject, result.target, result.measured, WORD[result.reached])
    return made


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Only this one; repeatable.")
@click.option("--quick", is_flag=True, help="Small sizes: to see that it runs, not to quote.")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir(), "draftboard-bench"),
    show_default=True, help="Where large files go; the large warehouse stays there.",
)  # fmt: skip
def bench(only: tuple[str, ...], quick: bool, folder: Path) -> None:
    """What Draftboard costs in time and memory, as ratios measured in one run."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    try:
        results.extend(measured(only or NAMES, folder, quick))
    finally:
        # What is known when one of them breaks, or when somebody loses patience.
        Console(width=120).print(table(results))


if __name__ == "__main__":
    bench()
