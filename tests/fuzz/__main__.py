"""``python -m tests.fuzz --seconds 600``: changed samples of every format through the real ingest.

The corpus of what broke it, of what moved a number untold, and the sum of CPU seconds over all runs
lie in ``.fuzz``; a crasher that was mended goes into ``tests/fuzz/crashers``, where a test reads it.
"""

import json
import random
import time
from pathlib import Path

import click

from tests.fuzz.samples import SAMPLES
from tests.fuzz.tries import Tally, known, one_batch


@click.command()
@click.option("--seconds", type=float, default=60.0, show_default=True, help="For how long.")
@click.option("--only", default="", help="Formats whose name begins so.")
@click.option("--seed", type=int, help="Of the changes [another each time].")
@click.option("--keep", type=click.Path(path_type=Path), default=Path(".fuzz"), show_default=True)
@click.pass_context
def fuzz(ctx: click.Context, seconds: float, only: str, seed: int | None, keep: Path) -> None:
    """Change samples and take them in, until the time is over. Exit 1: something broke ingest."""
    source = random.Random(seed)
    names = [name for name in SAMPLES if name.startswith(only)]
    usual = {name: known(name) for name in names}
    tallies = {name: Tally() for name in names}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # The one that had the least time so far is next.
        name = min(names, key=lambda one: tallies[one].cpu_s)
        _add(tallies[name], one_batch(name, source, keep, usual[name]))
    _sum_up(keep / "sum.json", tallies)
    for name, tally in tallies.items():
        click.echo(
            f"{name:42}{tally.tried:7} tried {tally.accepted:7} accepted {tally.rejected:7} rejected "
            f"{len(tally.silent):5} silent {len(tally.crashes):4} crashes {tally.cpu_s:7.0f} s CPU"
        )
        for said in tally.crashes:
            click.echo(f"  {said}")
    ctx.exit(1 if any(tally.crashes for tally in tallies.values()) else 0)


def _add(tally: Tally, more: Tally) -> None:
    for name, value in vars(more).items():
        setattr(tally, name, getattr(tally, name) + value)


def _sum_up(path: Path, tallies: dict[str, Tally]) -> None:
    """Add to what all runs so far came to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    total = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name, tally in tallies.items():
        before = total.get(name, {})
        total[name] = {
            key: round(before.get(key, 0) + value, 1)
            for key, value in (
                ("tried", tally.tried), ("accepted", tally.accepted), ("rejected", tally.rejected),
                ("silent", len(tally.silent)), ("crashes", len(tally.crashes)),
                ("cpu_s", tally.cpu_s),
            )
        }  # fmt: skip
    path.write_text(json.dumps(total, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    fuzz()
