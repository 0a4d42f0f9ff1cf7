"""``draftboard compare``: matched pairs with their evidence, and what could not be matched."""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    allow_option,
    filter_options,
    filters_from,
    json_option,
    warehouse_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from analysis.significance.comparison import Comparison
    from analysis.significance.confidence import Confidence
    from warehouse.filters import Filters


@click.command()
@warehouse_option
@filter_options
@allow_option
@json_option
def compare(warehouse: Path | None, allow: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Compare baseline with speculative cells that are equal in everything else.

    Example: draftboard compare --dataset code --allow engine_version
    """
    from analysis.significance import evidence_tables
    from analysis.significance.comparison_json import as_json as as_json_object

    cells, found = load(warehouse, filters_from(given), allow)
    sure = confidence_of(warehouse, found)
    if as_json:
        told = {
            **as_json_object(found),
            "intervals": evidence_tables.as_json(sure, found),
            "crossovers": evidence_tables.crossovers_json(sure, found),
        }
        click.echo(json.dumps(told, allow_nan=False))
    else:
        _show(found, sure, cells)


def load(
    warehouse: Path | None, filters: "Filters", allow: tuple[str, ...]
) -> "tuple[pd.DataFrame, Comparison]":
    """The cells that the filters keep (``queries.cells``), and their comparison.

    Raises UnknownKey where they keep none.
    """
    from analysis.significance.comparison import METRICS_READ, STATISTICS_READ, compare
    from warehouse import queries
    from warehouse.errors import UnknownKey
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        cells = queries.cells(reader, filters).to_pandas()
        if cells.empty:
            raise UnknownKey(
                "No cell matches these filters; `draftboard runs` lists what there is."
            )
        measured = queries.measurements(reader, filters, METRICS_READ, STATISTICS_READ).to_pandas()
        flags = queries.flags(reader, list(cells["cell_id"])).to_pandas()
    return cells, compare(cells, measured, allow, flags)


def confidence_of(warehouse: Path | None, found: "Comparison") -> "Confidence":
    """Intervals of the comparison; where a level has one repeat, from its requests."""
    from analysis.significance.bootstrap import COLUMNS, with_sampling
    from analysis.significance.confidence import intervals
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:

        @cache
        def requests_of(cell_id: str) -> "pd.DataFrame":
            rows: pd.DataFrame = queries.requests(reader, cell_id, COLUMNS).to_pandas()
            return rows

        return with_sampling(intervals(found.pairs), found.pairs, requests_of)


def _show(found: "Comparison", sure: "Confidence", cells: "pd.DataFrame") -> None:
    from analysis import tables
    from analysis.significance import evidence_tables
    from analysis.significance.bootstrap import SENTENCE
    from commands.output import show_table

    for setting, arm_id in found.geomean[["setting", "arm_id"]].drop_duplicates().to_numpy():
        click.echo(tables.setting_name(found.keys.loc[(setting, arm_id)].to_dict()))
        show_table(*evidence_tables.by_concurrency(found, sure, setting, arm_id))
        click.echo(evidence_tables.summary_of(sure, setting, arm_id))
        click.echo()
        show_table(*evidence_tables.geomean(found, sure, setting, arm_id))
        for line in evidence_tables.shared_sentences(sure, setting, arm_id):
            click.echo(line)
        if (sure.levels["covers"] == "sampling").any():
            click.echo(f"* {SENTENCE}")
        click.echo(evidence_tables.crossover_sentence(sure, setting, arm_id))
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
