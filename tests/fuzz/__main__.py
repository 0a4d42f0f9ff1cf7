"""``python -m tests.fuzz --seconds 600``: changed samples of every format through the real ingest.

What broke it, and what moved a number untold, lies in ``.fuzz``; the sums over all runs are a table
of ``docs/performance.md``, to which ``--add`` adds; a crasher that was mended goes into
``tests/fuzz/crashers``, where a test reads it.
"""

import random
import time
from pathlib import Path

import click

from tests.fuzz import sums
from tests.fuzz.samples import SAMPLES
from tests.fuzz.tries import Known, Tally, known, one_batch


@click.command()
@click.option("--seconds", type=float, default=60.0, show_default=True, help="For how long.")
@click.option("--only", default="", help="Formats whose name begins so.")
@click.option("--seed", type=int, help="Of the changes [another each time].")
@click.option("--keep", type=click.Path(path_type=Path), default=Path(".fuzz"), show_default=True)
@click.option("--add", type=click.Path(path_type=Path), help="Document with the table of all runs.")
@click.pass_context
def fuzz(
    ctx: click.Context, seconds: float, only: str, seed: int | None, **places: Path | None
) -> None:
    """Change samples and take them in, until the time is over. Exit 1: something broke ingest."""
    source = random.Random(seed)
    names = [name for name in SAMPLES if name.startswith(only)]
    usual: dict[str, Known] = {}
    keep, add = places["keep"], places["add"]
    assert keep is not None
    tallies = {name: Tally() for name in names}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        spent = sums.seconds(add) if add else {one: tallies[one].cpu_s for one in names}
        name = sums.furthest(names, spent)
        if name not in usual:
            usual[name] = known(name)
        tally = one_batch(name, source, keep, usual[name])
        _summed(tallies[name], tally)
        if add is not None:
            # At once, so that a run that is ended early has counted.
            sums.add(add, name, tally)
    for name, tally in ((name, tally) for name, tally in tallies.items() if tally.tried):
        click.echo(
            f"{name:42}{tally.tried:7} tried {tally.accepted:7} accepted {tally.rejected:7} rejected "
            f"{len(tally.silent):5} silent {len(tally.crashes):4} crashes {tally.cpu_s:7.0f} s CPU"
        )
        for said in tally.crashes:
            click.echo(f"  {said}")
    ctx.exit(1 if any(tally.crashes for tally in tallies.values()) else 0)


def _summed(tally: Tally, more: Tally) -> None:
    for name, value in vars(more).items():
        setattr(tally, name, getattr(tally, name) + value)


if __name__ == "__main__":
    fuzz()
