"""``draftboard warehouse publish``: the tables where other engines read them."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.output import progress
from warehouse.annotations import excluded_runs
from warehouse.cli_options import WAREHOUSE
from warehouse.errors import DraftboardError, InvalidInput

if TYPE_CHECKING:
    from warehouse.lakes.content import Content, Order

_PYTHON = Path(".lab/ducklake/bin/python")


@click.command()
@WAREHOUSE
@click.option("--iceberg", help="sqlite:////FILE or postgresql://USER@HOST/DATABASE")
@click.option("--ducklake", help="FILE.ducklake or postgresql://USER@HOST/DATABASE")
@click.option("--location", help="Where files go the first time: folder or s3://BUCKET/PREFIX")
@click.option("--schema", default="draftboard", show_default=True, help="Schema of the tables.")
@click.option("--replace", is_flag=True, help="Also over a newer generation.")
@click.option(
    "--with-python",
    "python",
    type=click.Path(path_type=Path),
    default=_PYTHON,
    show_default=True,
    help="Python of the environment that has DuckLake.",
)
def publish(root: Path, iceberg: str | None, ducklake: str | None, **given: Any) -> None:
    """Write the tables into a catalogue of Iceberg or DuckLake: the whole generation, or nothing.

    A password is best left to PGPASSWORD or ~/.pgpass; one in the address is never shown or stored.

    Example: draftboard warehouse publish --iceberg sqlite:////lake/catalogue.db --location /lake
    """
    from warehouse.lakes.content import Order, newest, require_name, target_of

    if (iceberg is None) == (ducklake is None):
        raise InvalidInput("Name one catalogue: --iceberg TARGET or --ducklake TARGET.")
    target = target_of(iceberg or ducklake or "")
    order = Order(target, require_name(given["schema"]), given["location"], given["replace"])
    with newest(root) as content:
        if iceberg is not None:
            written = _as_iceberg(content, order)
        else:
            written = _as_ducklake(content, order, given["python"])
        _tell(content, order, written)


def _as_iceberg(content: "Content", order: "Order") -> bool:
    try:
        from warehouse.lakes.iceberg import publish as write
    except ModuleNotFoundError as error:
        raise DraftboardError(
            f"The package {error.name} is not installed, and --iceberg needs it: "
            "pip install 'draftboard[iceberg]'."
        ) from None
    return write(content, order, partial(progress, "publish", as_bytes=False))


def _as_ducklake(content: "Content", order: "Order", python: Path) -> bool:
    from warehouse.lakes.ducklake import publish as write

    return write(content, order, partial(progress, "publish", as_bytes=False), python)


def _tell(content: "Content", order: "Order", written: bool) -> None:
    place = f"{order.target.uri}, schema {order.schema}"
    number = content.held.generation
    if not written:
        click.echo(f"{place}, holds generation {number} already: nothing was added.")
        return
    click.echo(f"Published generation {number} to {place}.")
    excluded = len(excluded_runs(content.root))
    if excluded:
        many = "1 run is" if excluded == 1 else f"{excluded:,} runs are"
        click.echo(f"{many} excluded by name and in it all the same: excluded_runs says which.")
