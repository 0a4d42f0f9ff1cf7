"""``make truth``: the table of everything whose truth is known. Exit status 1 where a row misses."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import click

from tests.truth._jobs import module_of, rows_of
from tests.truth.row import table

TRIALS = 4000


@click.command()
@click.option("--trials", default=TRIALS, show_default=True, help="Studies a row.")
@click.option("--only", help="One module, for example decisions.")
@click.option(
    "--seed", default=0, show_default=True, help="Other random studies, where drawn by it."
)
def main(trials: int, only: str | None, seed: int) -> None:
    """Run every row of every module here that has ``rows(trials)``."""
    jobs = [job for name in _names() if only in (None, name) for job in _jobs(name)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        running = {
            pool.submit(rows_of, *job, trials, seed): place for place, job in enumerate(jobs)
        }
        found = {}
        for done in as_completed(running):
            rows = found[running[done]] = done.result()
            click.echo(f"{len(found)} of {len(jobs)} families: {rows[0].family}", err=True)
            for row in rows:
                if not row.passed:
                    click.echo(table([row]), err=True)
    rows = [row for place in sorted(found) for row in found[place]]
    click.echo(table(rows))
    missed = [row for row in rows if not row.passed]
    click.echo(f"{len(rows)} rows, {len(missed)} missed")
    if missed:
        click.echo(table(missed))
    sys.exit(bool(missed))


def _names() -> Iterator[str]:
    """The modules with rows."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.stem.startswith(("test_", "_")) and hasattr(module_of(path.stem), "rows"):
            yield path.stem


def _jobs(name: str) -> Iterator[tuple[str, int | None]]:
    """A job for each family of a module that has ``families`` and ``rows_of``, else one for all."""
    module = module_of(name)
    if not hasattr(module, "families"):
        yield name, None
        return
    for place, _ in enumerate(module.families()):
        yield name, place


if __name__ == "__main__":
    main()
