"""``draftboard compare``: matched pairs, their geometric means, and what could not be matched."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option

if TYPE_CHECKING:
    import pandas as pd

    from analysis.comparison import Comparison
    from warehouse.filters import Filters


@click.command()
@warehouse_option
@filter_options
@click.option(
    "--allow",
    multiple=True,
    metavar="FIELD",
    help="Let pairs differ in this field, e.g. engine_version; they stay marked. Repeatable.",
)
@json_option
def compare(warehouse: Path | None, allow: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Compare baseline with speculative cells that are equal in everything else.

    Example: draftboard compare --dataset code --allow engine_version
    """
    from analysis.comparison_json import as_json as as_json_object

    cells, found = _load(warehouse, filters_from(given), allow)
    if as_json:
        click.echo(json.dumps(as_json_object(found), allow_nan=False))
    elif cells.empty:
        click.echo("No cell matches. `draftboard runs` lists what there is.")
    else:
        _show(found, cells)


def _load(
    warehouse: Path | None, filters: "Filters", allow: tuple[str, ...]
) -> "tuple[pd.DataFrame, Comparison]":
    from analysis.comparison import METRICS_READ, STATISTICS_READ, compare
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        cells = queries.cells(reader, filters).to_pandas()
        measured = queries.measurements(reader, filters, METRICS_READ, STATISTICS_READ).to_pandas()
        flags = queries.flags(reader, list(cells["cell_id"])).to_pandas()
    return cells, compare(cells, measured, allow, flags)


def _show(found: "Comparison", cells: "pd.DataFrame") -> None:
    from analysis import tables
    from commands.output import show_table

    for setting, arm_id in found.geomean[["setting", "arm_id"]].drop_duplicates().to_numpy():
        click.echo(tables.setting_name(found.keys.loc[(setting, arm_id)].to_dict()))
        show_table(*tables.by_concurrency(found, setting, arm_id))
        click.echo()
        show_table(*tables.geomean(found, setting, arm_id))
        click.echo(tables.levels_sentence(found, setting, arm_id))
        for name in tables.allowed(found, setting, arm_id):
            click.echo(f"allowed to differ: {name}")
        for line in tables.flags(found, setting, arm_id):
            click.echo(line)
        click.echo()
    if found.pairs.empty:
        click.echo("No pair matches.")
    if not found.unmatched.empty:
        show_table(*tables.unmatched(found, cells), title="Not compared")
