"""``draftboard warehouse push|pull|clone|restore``: whole warehouses, and older generations."""

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from commands.output import working
from warehouse import maintenance
from warehouse.cli_options import WAREHOUSE, say
from warehouse.store import open_writer
from warehouse.store_cache import name_of
from warehouse.store_files import warehouse_path


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
        found = maintenance.keep(root, maintenance.Rules(since, nights, days))
    if not found.cells:
        click.echo("Every run keeps its requests.")
        return
    click.echo(
        f"{found.cells:,} cells have no requests any more; draftboard warehouse gc removes the files, "
        "once no generation has listed them for an hour."
    )


@click.command()
@WAREHOUSE
@click.argument("to")
def push(root: Path, to: str) -> None:
    """Upload a folder's warehouse into an empty place in a bucket.

    Example: draftboard warehouse push s3://team/results
    """
    from warehouse.store_moves import push as upload

    with working(f"uploading to {to}"):
        files = upload(root, warehouse_path(to))
    click.echo(f"Uploaded {files:,} files to {to}.")


@click.command()
@WAREHOUSE
def pull(root: Path) -> None:
    """Fetch all of a warehouse in a bucket into this machine's copy.

    Nothing needs it: what a question needs is fetched when it is asked.
    """
    from warehouse.store_moves import fetch_all

    with working(f"fetching {name_of(root)}"):
        files = fetch_all(root)
    click.echo(f"{root} holds all {files:,} request files of {name_of(root)}.")


@click.command()
@click.argument("source")
@click.argument("out", type=click.Path(path_type=Path))
def clone(source: str, out: Path) -> None:
    """Make a folder's warehouse of one in a bucket: a backup, or one to try things with.

    Example: draftboard warehouse clone s3://team/results backup/
    """
    from warehouse.store_moves import clone as copy

    with working(f"fetching {source}"):
        files = copy(warehouse_path(source), out)
    click.echo(f"Wrote {files:,} files to {out}.")


@click.command()
@WAREHOUSE
@click.argument("generation")
def restore(root: Path, generation: str) -> None:
    """Publish again what an older GENERATION held.

    A bucket keeps every generation; a folder keeps two old ones.
    """
    from warehouse.store_moves import restore as bring_back

    number = bring_back(root, generation)
    click.echo(f"Generation {number} of {name_of(root)} holds what generation {generation} held.")
