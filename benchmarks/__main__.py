"""``python -m benchmarks``: measures, and prints each number beside what was to be reached."""

import importlib
import sys
import tempfile
import traceback
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import page
from benchmarks.result import Result, progress

NAMES = (
    "house", "ingest", "queries", "commands", "pages", "visitors", "concurrency", "kills", "watching",
    "runner", "runner_kills", "bucket", "api",
)  # fmt: skip
FOLDER = Path(__file__).parent
WORD = {True: "yes", False: "NO", None: "-"}


def measure(name: str, folder: Path, quick: bool, results: list[Result]) -> str | None:
    """Add what one benchmark measures to ``results``; a sentence if an error ended it."""
    progress(name)
    try:
        for result in importlib.import_module(f"benchmarks.{name}").run(folder, quick):
            results.append(result)
            progress(f"{result.subject}: {result.measured}")
    except Exception as error:  # noqa: BLE001  # Whatever it is, the other benchmarks go on.
        return f"{name} broke off {described(error)}; mend it, then run it alone: --only {name}."
    return None


def described(error: Exception) -> str:
    """Where among the benchmarks an error came up, of which kind it is, and its first line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == FOLDER]
    words = [type(error).__name__, *str(error).rstrip(".").splitlines()[:1]]
    return f"at {Path(own[-1].filename).name}:{own[-1].lineno} ({': '.join(words)})"


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
@click.option(
    "--write", type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Also put the table into this page, if nothing was left out and nothing broke.",
)  # fmt: skip
def bench(only: tuple[str, ...], quick: bool, folder: Path, write: Path | None) -> None:
    """What Draftboard costs in time and memory, as ratios measured in one run."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    broken: list[str] = []
    try:
        for name in only or NAMES:
            if (sentence := measure(name, folder, quick, results)) is not None:
                broken.append(sentence)
    finally:
        # Also what is known when somebody loses patience.
        Console(width=120).print(table(results))
    for sentence in broken:
        click.echo(sentence, err=True)
    if write and not (only or quick or broken):
        page.write(write, results)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    bench()
