"""What the commands of ``draftboard warehouse`` share: which one, and what is said on stderr."""

from pathlib import Path

import click

from warehouse.store_files import warehouse_path

WAREHOUSE = click.option(
    "--warehouse",
    "root",
    type=click.Path(path_type=Path),
    callback=lambda ctx, param, value: warehouse_path(value),
    help="Folder or s3://BUCKET/PREFIX [DRAFTBOARD_WAREHOUSE, else data/warehouse]",
)


def say(sentence: str) -> None:
    """Print a sentence on stderr."""
    click.echo(sentence, err=True)
