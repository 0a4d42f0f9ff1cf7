"""``draftboard warehouse push|pull|clone|restore``: whole warehouses, and older generations."""

from pathlib import Path

import click

from commands.interrupts import working
from warehouse.cli_options import WAREHOUSE
from warehouse.store_cache import name_of
from warehouse.store_files import warehouse_path


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
