"""``draftboard warehouse keep``: requests of old runs go, measurements stay."""

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from commands.interrupts import working
from warehouse import retention
from warehouse.cli_options import WAREHOUSE, say
from warehouse.store import open_writer


def _days(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)d", value)
    if found is None:
        raise click.BadParameter("write a number of days, such as 90d")
    return float(found[1])


@click.command()
@WAREHOUSE
@click.option(
    "--runs-since",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Keep the requests of runs measured on this day (UTC) or later.",
)
@click.option(
    "--nights",
    type=click.IntRange(min=1),
    help="Keep the requests of so many of the newest nights of each study.",
)
@click.option(
    "--requests-for",
    "days",
    metavar="DAYS",
    callback=_days,
    help="Keep the requests of the last so many days: 90d.",
)
def keep(root: Path, runs_since: datetime | None, nights: int | None, days: float | None) -> None:
    """Let the requests of old runs go; their measurements stay.

    A run that one of the rules names keeps its requests. The files go with the next gc.

    Example: draftboard warehouse keep --requests-for 90d --nights 14
    """
    since = None if runs_since is None else runs_since.replace(tzinfo=UTC)
    with open_writer(root, on_wait=say), working("looking for old requests"):
        found = retention.keep(root, retention.Rules(since, nights, days))
    if not found.cells:
        click.echo("Every run keeps its requests.")
        return
    click.echo(
        f"{found.cells:,} cells have no requests any more; draftboard warehouse gc removes the files, "
        "once no generation has listed them for an hour."
    )
